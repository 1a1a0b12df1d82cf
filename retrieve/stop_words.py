"""Function words that carry no meaning of their own, by ISO 639-1 code, folded as `retrieve.analysis` folds.

English has the 33 words of Lucene's EnglishAnalyzer, which leave `who`, `what` and `not` searchable. The other lists
are as short: articles, prepositions, conjunctions, auxiliaries and the commonest pronouns. A language that is missing
keeps all of its words, which costs a little speed and no recall.
"""

from __future__ import annotations

from collections.abc import Mapping

STOP_WORDS: Mapping[str, frozenset[str]] = {
    "en": frozenset(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with".split()
    ),
    "de": frozenset(
        "aber als am an auch auf aus bei bin bis das dass dem den der des die durch ein eine einem einen einer eines "
        "er es für hat ich im in ist mit nach nicht noch nur oder sein sich sie sind so über um und uns vom von vor "
        "war was wie wird wir zu zum zur".split()
    ),
    "fr": frozenset(
        "au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur mais ne nous on ou où par pas "
        "plus pour qu que qui sa se ses son sont sur un une vous".split()
    ),
    "es": frozenset(
        "a al como con de del e el en entre era es esta este fue ha la las le lo los más no o para pero por que se sin "
        "sobre son su sus un una y".split()
    ),
    "it": frozenset(
        "a ai al alla alle anche che chi con da dal dalla dei del della delle di e ed è gli ha i il in la le lo ma nel "
        "nella non o per più si sono su sul sulla un una uno".split()
    ),
    "pt": frozenset(
        "a à ao aos as às com como da das de do dos e é em entre foi mais mas na nas no nos o os ou para pela pelo por "
        "que se sem ser seu sua são um uma".split()
    ),
    "nl": frozenset(
        "aan als bij dat de den der die dit door een en er het hij ik in is met naar niet of om op over te tot uit van "
        "voor was wat we wordt zijn".split()
    ),
    "sv": frozenset(
        "att av de den det du där en ett från för ha han har hon i inte jag med men når och om på sig som till under "
        "var vi är".split()
    ),
    "da": frozenset(
        "af at da de den der det du en er et for fra han har hun i ikke jeg med men og om på sig som til var ved "
        "vi".split()
    ),
    "no": frozenset(
        "at av da de den der det du en er et for fra han har hun i ikke jeg med men og om på seg som til var ved "
        "vi".split()
    ),
    "ru": frozenset(
        "а бы был была были было в во все для до его ее за и из или их к как ко на не но о об он она они от по при с "
        "со так то что это".split()
    ),
}
