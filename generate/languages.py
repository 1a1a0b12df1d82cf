"""The words of a language that carry no content, and how to say in it that the sources hold no answer.

Enough to tell a question's language and to leave its grammar out of the search for an answer; no dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from generate.terms import folded

STOP_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "a an the and or but if of to in on at by for with from as into than then that this these those there "
        "it its is are was were be been being am do does did done has have had can could may might must shall should "
        "will would not no what which who whom whose when where why how many much long often i you he she we they me "
        "my your his her our their them us one any some about after before during between over under up out so such "
        "also only very just please tell say get there's what's",
        "de": "der die das den dem des ein eine einen einem einer eines und oder aber wenn von zu zum zur in im ins "
        "an am auf bei für mit aus als ist sind war waren wird werden wurde sein hat haben hatte kann können darf "
        "dürfen muss müssen soll sollen will nicht kein keine was welche welcher welches welchem wer wen wem wessen "
        "wann wo warum wie viele viel lange oft ich du er sie es wir ihr man mein dein unser sich nach vor über "
        "unter um bis durch auch nur noch so gibt es dass",
        "fr": "le la les l un une des du de d et ou mais si à au aux en dans sur par pour avec sans sous entre vers "
        "chez que qu qui quoi dont quel quelle quels quelles où quand comment pourquoi combien est sont était été "
        "être a ont avait avoir peut peuvent doit doivent faut ne n pas plus ce c cette ces cet il elle on nous vous "
        "ils elles je tu me te se s son sa ses leur leurs mon ma mes votre notre y t j fait",
        "es": "el la los las un una unos unas de del y o pero si a al en por para con sin sobre entre hasta desde que "
        "qué quién quiénes cuál cuáles cuándo cuánto cuánta cuántos cuántas dónde cómo porque es son era eran fue ser "
        "está están hay ha han puede pueden debe deben no se su sus lo le les me te nos yo tú él ella usted ustedes "
        "como más muy este esta estos estas tiene tienen",
        "it": "il lo la i gli le l un uno una di del dello della dei degli delle a al alla ai alle da dal dalla in "
        "nel nella su sul con per tra fra e o ma se che chi cui quale quali quando dove come perché quanto quanta "
        "quanti quante è sono era erano essere ha hanno può possono deve devono non si ci suo sua loro questo questa",
        "pt": "o a os as um uma uns umas de do da dos das e ou mas se em no na nos nas por para com sem sobre entre "
        "até que quem qual quais quando onde como porque quanto quanta quantos quantas é são era foi ser está há tem "
        "têm pode podem deve devem não seu sua seus suas ao à pelo pela este esta isso",
        "nl": "de het een en of maar als van te tot in op aan bij voor met uit naar om dat die dit deze er is zijn "
        "was waren wordt worden heeft hebben kan kunnen mag moet moeten niet geen wat welke wie wanneer waar waarom "
        "hoe veel lang ik je jij hij zij ze we wij men zijn haar ons hun ook",
        "pl": "i oraz lub ale jeśli w we z ze na do od za po przez dla przy nad pod o u że to ten ta te tego tej "
        "jest są był była było być ma mają może mogą musi nie co kto kogo kiedy gdzie dlaczego jak jaki jaka jakie "
        "ile który która które czy się jego jej ich",
        "sv": "en ett den det de och eller men om av till i på vid för med från som är var blir har hade kan får ska "
        "skall måste inte ingen vad vilken vilka vem när var varför hur många mycket länge jag du han hon vi ni man "
        "sin sitt sina att",
        "ro": "un o unei unui al a ale ai și sau dar dacă de la în pe cu din pentru prin până că care cine ce când "
        "unde cum cât câtă câți câte este sunt era fi fost au are poate trebuie nu se sau lui ei lor acest această",
        "tr": "bir ve veya ile ama için de da mi mı mu mü ne nedir kim kimin ne zaman nerede nereye neden niçin nasıl "
        "kaç hangi hangisi bu şu o olan olarak gibi kadar sonra önce var yok değil daha en çok",
        "vi": "là và hoặc của cho với trong trên từ đến khi nào ở đâu ai gì bao nhiêu thế sao tại được bị có không "
        "các những một này đó đã đang sẽ thì mà như về",
        "ru": "и или но если в во на с со к ко от до из за по для при о об у над под что это как так же ли не ни бы "
        "он она оно они мы вы я его её их кто кого кому чей когда где куда почему зачем сколько какой какая какое "
        "какие который которая которые есть был была было были быть можно нужно должен",
        "uk": "і й та або але якщо в у на з із до від за по для при про що це як так не ні би він вона воно вони ми "
        "ви я його її їх хто кого коли де куди чому скільки який яка яке які є був була було були бути можна треба",
        "el": "ο η το οι τα του της των τον την ένα μία μια και ή αλλά αν σε στο στη στην στον από με για ως που να "
        "θα είναι ήταν έχει έχουν μπορεί δεν μη τι ποιος ποια ποιο ποιοι ποιες πότε πού γιατί πώς πόσο πόσα "
        "πόσοι πόσες",
        "ar": "في من على إلى عن مع أو و ثم هل ما ماذا متى أين كيف كم لماذا من هو هي هم هذا هذه ذلك التي الذي كان كانت "
        "يكون أن إن لا لم لن قد كل بعد قبل",
        "he": "של את על אל מן עם או הוא היא הם זה זו מה מי מתי איפה היכן למה מדוע איך כמה האם לא אין יש כי אם גם",
        "hi": "का की के में से को पर और या है हैं था थी थे क्या कौन किस किसने किसकी कब कहाँ क्यों कैसे कितने कितना "
        "कितनी यह वह ये वे ने एक भी हो होता होती जो तो ही नहीं लिए",
        "ko": "은 는 이 가 을 를 의 에 에서 와 과 도 로 으로 무엇 누구 언제 어디 왜 어떻게 얼마나 몇 무슨 어느 "
        "입니까 있습니까 합니까 인가요 있나요 하나요 어떤 무엇입니까 어디입니까",
        "zh": "什么 哪里 哪个 哪些 多少 如何 怎么 怎样 为何 何时 是否 几个 可以 什麼 哪裡 多久 为什 么时 "
        "是什 有多 有什 是多",
        "ja": "何時 何人 何日 誰 何",
        "th": "อะไร ที่ไหน เมื่อไร เมื่อใด ใคร อย่างไร ทำไม กี่ เท่าไร เท่าใด ไหน",
    }.items()
}

# A sentence that begins with one of these speaks of the one before it.
PRONOUNS = frozenset(
    "it its they their this these that those he she his her such er sie es ihr ihre diese dieser dieses dieselben "
    "dort dafür il ils elle elles ce cela cette ces leur leurs ella ellos ellas esto estos estas este esta su sus esso "
    "essa essi esse lui loro questo questa ele ela eles elas isso hij zij ze dit deze hun он она оно они это эти этот "
    "эта его её их".split()
)

REFUSALS: Mapping[str, str] = {
    "en": "The sources do not answer this question.",
    "de": "Die Quellen beantworten diese Frage nicht.",
    "fr": "Les sources ne répondent pas à cette question.",
    "es": "Las fuentes no responden a esta pregunta.",
    "it": "Le fonti non rispondono a questa domanda.",
    "pt": "As fontes não respondem a esta pergunta.",
    "nl": "De bronnen beantwoorden deze vraag niet.",
    "pl": "Źródła nie odpowiadają na to pytanie.",
    "sv": "Källorna besvarar inte den här frågan.",
    "ro": "Sursele nu răspund la această întrebare.",
    "tr": "Kaynaklar bu soruyu yanıtlamıyor.",
    "vi": "Các nguồn không trả lời câu hỏi này.",
    "ru": "Источники не отвечают на этот вопрос.",
    "uk": "Джерела не відповідають на це запитання.",
    "el": "Οι πηγές δεν απαντούν σε αυτή την ερώτηση.",
    "ar": "المصادر لا تجيب عن هذا السؤال.",
    "he": "המקורות אינם עונים על השאלה הזאת.",
    "hi": "स्रोत इस प्रश्न का उत्तर नहीं देते।",
    "th": "แหล่งข้อมูลไม่ได้ตอบคำถามนี้",
    "zh": "资料中没有这个问题的答案。",
    "ja": "資料にはこの質問の答えがありません。",
    "ko": "자료에는 이 질문에 대한 답이 없습니다.",
}

SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7a3]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("th", re.compile(r"[\u0e01-\u0e5b]")),
    ("hi", re.compile(r"[\u0904-\u0939]")),
    ("ar", re.compile(r"[\u0620-\u064a]")),
    ("he", re.compile(r"[\u05d0-\u05ea]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
)
CYRILLIC = re.compile(r"[\u0400-\u04ff]")
UKRAINIAN = re.compile(r"[іїєґ]", re.IGNORECASE)
WORDS = re.compile(r"[^\W\d_]+")
LATIN = ("en", "de", "fr", "es", "it", "pt", "nl", "pl", "sv", "ro", "tr", "vi")


def language_of(text: str) -> str:
    """The language of a question as an ISO 639-1 code: by its script, then by its small words; "en" when in doubt."""
    for language, script in SCRIPTS:
        if script.search(text):
            return language
    if CYRILLIC.search(text):
        return "uk" if UKRAINIAN.search(text) else "ru"
    words = WORDS.findall(text.lower())
    return max(LATIN, key=lambda language: sum(word in STOP_WORDS[language] for word in words))


@lru_cache(maxsize=64)
def stop_terms(language: str) -> frozenset[str]:
    """The small words of a language as terms are spelled; empty for a language that is not known here."""
    return frozenset(folded(word) for word in STOP_WORDS.get(language, frozenset()))


def refusal_in(language: str) -> str:
    """A sentence that says that the sources do not hold the answer."""
    return REFUSALS.get(language, REFUSALS["en"])
