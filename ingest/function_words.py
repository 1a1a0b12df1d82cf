"""Frequent short words by which a language shows itself: articles, pronouns, prepositions, auxiliaries."""

from __future__ import annotations

LATIN = {
    "en": "the of and to in is that for it as was with be by on not are this at from or an have has which you were "
    "their they will can its been would there if when your we than must should how what only each",
    "de": "der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er "
    "hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis "
    "mehr durch man sein wurde wenn kann ihr wir ich du muss",
    "fr": "de la le les et des en un du une que est pour qui dans par plus pas au sur ne se ce il sont avec ou son sa "
    "ses aux mais comme nous vous leur cette elle ont été même ces entre deux sans être si fait peut tout chaque je "
    "avant après où doit",
    "es": "de la que el en y los se del las un por con no una su para es al lo como más pero sus le ya este sí "
    "porque esta entre cuando muy sin sobre también me hasta hay donde desde todo nos durante todos uno les ni contra "
    "fue está son cada puede debe",
    "it": "di che è la il un a per in una sono mi si lo ha le ti con non i da ma se come io ci questo del della nel "
    "al dei delle gli più anche alla dal nella essere ogni dopo prima stato questa può sul degli dalla tra deve",
    "pt": "de que e o a do da em um para com não uma os no se na por mais as dos como mas ao ele das à seu sua ou "
    "quando muito nos já eu também só pelo pela até isso ela entre depois sem mesmo aos seus quem são está foi cada "
    "pode deve você",
    "nl": "de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem dan zou of "
    "wat mijn men dit zo door over ze zich bij ook tot je mij uit der daar haar naar heeft hebben deze want nog zal "
    "wordt kan geen worden moet",
    "sv": "och det att i en jag hon som han på den med var sig för så till är men ett om hade de av icke mig du henne "
    "då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut när efter upp vi dem vara vad "
    "över än kan eller också måste",
    "da": "og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min havde ham "
    "hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev kunne ind når være "
    "noget efter blive også kan må hver dig nogen uden mod mellem meget deres sådan inden bør",
    "no": "og i jeg det at en et den til er som på de med han av ikke der så var meg seg men har om vi min mitt ha "
    "hadde hun nå over da ved fra du ut sin dem oss opp man hans hvor eller hva skal selv her alle vil bli ble kunne "
    "inn når være kom noen noe etter også kan må hver deg uten mot mellom mye deres slik innen bør",
    "fi": "ja on ei että se hän oli mutta kun niin joka kuin ovat tai myös sen olla mitä jos vain voi ole nyt sitten "
    "minä sinä tämä hänen niiden kanssa mukaan jo ennen jälkeen sekä noin vielä ollut eivät kaikki jotka siitä koska "
    "tulee pitää",
    "ro": "de și în a la cu o pe că nu din pentru care este un se mai ce sunt am fi au fost ca sau prin are el ea "
    "acest această lor lui după dar când dacă ei al ale unei unui între până către fiecare poate trebuie",
    "hu": "a az és hogy nem is egy ez azt meg csak volt de van már még ha el mint vagy ki kell lehet azonban után "
    "minden amely ezt ezek szerint pedig között akkor lesz mert volna illetve aki ami itt ott között majd",
    "tr": "ve bir bu da de için ile olarak çok daha olan gibi en o ne kadar sonra ancak her ise ya var göre değil "
    "mi ki olduğu tarafından bunun veya hem şu ben sen biz siz kendi önce olduğunu üzere etmek nasıl yok gerekir",
    "pl": "i w na z do się nie że jest to o jak za ale po co od przez dla przy tak są czy lub oraz być tylko może "
    "jego jej ich który która które był była było już także tego tym można ze ma każdy",
    "cs": "a v se na je že s z do o i to ve pro k za by po od ale jako jsou které který která při už nebo také jeho "
    "jsem si však byl byla bylo až jen může podle být není mezi tak ze ke když každý musí",
    "ca": "de la i el que a les en els un per amb una del al es són com més no s'ha seva seu dels pel aquest aquesta "
    "també però o ha va ser fins entre quan on sense cada pot cal hi això molt",
}
"""Latin-script languages for which a stemmer is at hand."""

DEVANAGARI = {
    "hi": "के है में की से को और का पर ने हैं यह था कि एक लिए नहीं इस भी थे जो गया थी करने",
    "ne": "छ र को मा लाई गर्न यो हो भने पनि छन् गरेको थियो एक तर गर्ने छैन",
    "mr": "आहे व आणि या ते च्या होते एक हे तो आहेत होता मध्ये साठी नाही",
}
