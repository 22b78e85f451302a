"""A sentence in, what it is out: chatter or substance, a decision, a fix, a question, and which kind of memory.

The rules are lexical and conservative: what is not clearly something else is an observation.
"""

import re

from memory_mcp.model.toc import MemoryKind


class Cue:
    """What a sentence's own words announce, as bits of a plain integer: IntFlag costs more than the patterns do."""

    DECISION = 1
    CAUSE = 2
    FIX = 4
    OUTCOME = 8
    RULE = 16
    PREFERENCE = 32
    QUESTION = 64
    OPEN = 128
    FACT = 256
    #: Said to somebody: "you", "your".
    ADDRESS = 512


def _pattern(*parts: str) -> re.Pattern[str]:
    """The parts run together, for text in lower case; either apostrophe is meant where one is written.

    Comparing without case would take three times as long.
    """
    return re.compile("".join(parts).replace("'", "['’]"))


# One pattern per cue, tried only where one of its trigger words stands.
_CUES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (
        Cue.DECISION,
        _pattern(
            r"\b(?:decided|decision|we(?:'ll| will)? (?:go|going|went) with|go(?:ing)? with|opted for|settled on|",
            r"agreed (?:to|on|that)|chose|switched to|let's use|we(?:'ll| will) use|instead of|",
            r"beschlossen|entschieden|décidé|decidimos|decidido)\b|決定|决定|決め|결정",
        ),
    ),
    (
        Cue.CAUSE,
        _pattern(
            r"\b(?:root cause|caused by|because|turn(?:s|ed) out|due to|comes from|happens when|ursache|cause principale|",
            r"the (?:real |actual |underlying )?(?:cause|culprit|problem|issue|bug|reason|error) (?:is|was|here))\b|原因",
        ),
    ),
    (
        Cue.FIX,
        _pattern(
            r"\b(?:fix(?:ed|es)?|resolved|solved|solution|repaired|works now|now works|no longer|",
            r"behoben|corrigé|arreglado)\b|修正|修复|解決|해결",
        ),
    ),
    (
        Cue.OUTCOME,
        _pattern(
            r"^(?:i(?:'ve| have)? |we(?:'ve| have)? |now )?(?:successfully )?(?:added|removed|implemented|created|renamed|",
            r"refactored|updated|changed|moved|replaced|deployed|released|merged|committed|extracted|consolidated|simplified|",
            r"deleted|introduced|split|wrote|migrated|finished|completed|bumped|dropped)\b|",
            r"\ball (?:\d+ )?tests pass|\bcommitted as\b",
        ),
    ),
    (
        Cue.RULE,
        _pattern(
            r"\b(?:must(?: not)?|never|always|do not|don't|make sure|ensure|required|not allowed|forbidden|mandatory|",
            r"at most|at least|only)\b",
        ),
    ),
    (
        Cue.PREFERENCE,
        _pattern(
            r"\b(?:prefer(?:s|red|ably)?|favou?rites?|rather than|i (?:really |just |absolutely )?",
            r"(?:love|like|hate|dislike|enjoy)\b|i'd rather|bevorzug\w+|préfère|prefiero)\b|好き|喜欢|喜歡",
        ),
    ),
    (
        Cue.OPEN,
        _pattern(
            r"\b(?:todo|open question|not sure|unclear|remaining|still (?:needs?|fails?|failing|open|missing)|follow[- ]up|",
            r"next steps?|blocked|to be decided|tbd)\b",
        ),
    ),
    (
        Cue.FACT,
        _pattern(
            r"\b(?:i|we)(?:'m|'ve|'ll| am| are| was| were| have| had| got| went| just| also| recently| started| joined| bought|",
            r" made| took| did| want| plan| found| met| moved| lost| won)\b|\bmy\b|\bour\b|",
            r"\b(?:last|next|this) (?:week|weekend|month|year|summer|night)|\byesterday\b|\b\d+\b",
        ),
    ),
)
_TRIGGER_WORDS = {
    Cue.DECISION: """decided decision decide go going went settled agreed chose chosen switched use instead opted
        beschlossen entschieden décidé decidimos decidido""",
    Cue.CAUSE: "cause caused because due turned turns comes happens culprit issue problem bug reason error ursache principale",
    Cue.FIX: "fix fixed fixes resolved solved solution repaired works longer behoben corrigé arreglado",
    Cue.OUTCOME: """added removed implemented created renamed refactored updated changed moved replaced deployed released
        merged committed extracted consolidated simplified deleted introduced split wrote migrated finished completed
        bumped dropped pass""",
    Cue.RULE: "must never always not don ensure sure required allowed forbidden mandatory most least only avoid",
    Cue.PREFERENCE: """prefer prefers preferred preferably favourite favourites favorite favorites rather love like hate
        dislike enjoy bevorzugt bevorzuge préfère prefiero""",
    Cue.OPEN: "todo open sure unclear remaining still follow follow-up next blocked decided tbd",
    Cue.FACT: "i we my our last next this yesterday",
    Cue.ADDRESS: "you your yours yourself",
}


def _triggers() -> dict[str, int]:
    found: dict[str, int] = {}
    for cue, listed in _TRIGGER_WORDS.items():
        for word in listed.split():
            found[word] = found.get(word, 0) | cue
    return found


#: Words without which a cue cannot stand, so that most patterns are never tried.
TRIGGERS = _triggers()
ANY_CUE = 1023

_OPENING = (
    r"[*_`\"“‘]*(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|right|alright|sure|yes|no|hmm|so|and|also|then|first|next|"
    r"finally|actually|ah|oh|wait|got it|i see|done|thanks|thank you|awesome|nice|cool|well)[,.!:;\-– ]+)*"
)
_GREETING = _pattern(
    _OPENING,
    r"(?:you're (?:absolutely |totally |completely )?(?:right|welcome)|good (?:catch|point|question|idea|morning|news|call)|",
    r"sounds (?:good|great|like)|that's (?:great|awesome|amazing|cool|so|right|a (?:great|good))|thanks|thank you|hey|hi\b|",
    r"hello|wow|bye|take care|congrat|see you|talk to you|i agree|exactly|no (?:problem|worries)|so (?:glad|happy|proud)|",
    r"i(?:'m| am) (?:so )?(?:glad|sorry|happy for|proud of)\b|$)",
)
_NARRATION = _pattern(
    _OPENING,
    r"(?:let me\b|let's (?:see|check|look|start|take|run|try|verify|also|now|first)\b|",
    r"i(?:'ll| will| am going to|'m going to| need to| should| can see| can now| see| understand| notice|",
    r" have (?:a|enough|all)|'m (?:ready|going|now)|'d (?:be|like) )\b|now (?:i|let|we|the|update|add|run)\b|",
    r"(?:checking|looking|running|reading|searching|exploring|starting|updating|adding|creating|verifying|continuing|",
    r"dispatching|spawning|waiting|fetching|investigating|launching|proceeding|moving) |",
    r"(?:is there anything|would you like|do you want|shall i|should i|what would you|how would you|want me to|happy to|",
    r"feel free|if you(?:'d| would) like|ready (?:to|for)|anything else))",
)
_ASKING = _pattern(r"\b(?:can|could|would) (?:you|we)\b|\bplease\b|\bi(?:'d)? (?:want|need|like)\b|\b(?:why|how|what)\b.*\?")
_INTERRUPTION = _pattern(
    r"(?:\[?request interrupted|caveat: the messages|this session is being continued|please continue (?:the|from)|",
    r"base directory for this skill|the user (?:doesn't want|opened|sent)|command-(?:name|message)|tool use was rejected|",
    r"api error|the conversation is summarized|analysis:?$|your task is to|if you need specific details|co-authored-by|",
    r"generated with)",
)
_ERRAND = _pattern(
    r"(?:(?:ok(?:ay)?|great|yes|now|and|then|please|can you|could you|let's|also|just)[, ]+)*",
    r"(?:commit|push|pull|rebase|merge|continue|proceed|retry|go ahead|try again|",
    r"(?:create|open|make|draft)(?: an?)?(?: draft)? (?:pr|pull request|commit|branch))\b[^.?!\n]{0,36}[.?!]?$",
)
_PROCEDURE = _pattern(
    r"^(?:to \w+[^.?!]{3,80}?, (?:you )?(?:first |just )?(?:run|use|call|set|execute|add|open|type|invoke)\b|",
    r"(?:steps?|how) to \w+)|\b(?:run|execute) `[^`]+` (?:to|before|after|first|when|once|and then)\b|",
    r"\bfirst\b[^.?!]{5,}\bthen\b",
)
_CONSTRAINT = _pattern(
    r"\b(?:must(?: not| never)?|mustn't|is (?:not allowed|forbidden|required|mandatory)|are (?:not allowed|required)|",
    r"only ever|under no circumstances|no more than|should (?:never|always|only))\b|",
    r"^(?:please )?(?:never|do not|don't|always|make sure|ensure|avoid)\b",
)
_NOT_A_RULE = _pattern(
    r"\b(?:must (?:be|have|feel|say|admit)|i (?:never|don't|do not|must|always)|you (?:never|must)|we (?:never|always)|",
    r"never (?:been|had|thought|knew|seen|heard|mind|gonna|forget)|don't (?:worry|know|think|have|forget|you|we|see|exist))\b",
)
_DEFINITION = _pattern(
    r"^[^,;?!]{2,48}?\b(?:means (?:that|a|an|the)|refers to|stands for|is (?:short for|defined as|called|known as))\b|",
    r"^(?:an? |the )?(?:`[^`]+`|\w+[._]\w[\w.]*) (?:is an?|is the|are the) \w",
)
_PRONOUN = _pattern(r"(?:it|this|that|these|those|there|he|she|they|we|i|you|what|which|who)\b")
_PREFERENCE = _pattern(
    r"\bi(?:'d| would)? (?:really |much |strongly |just |absolutely |always |still )?(?:prefer|love|like|hate|dislike|favou?r)\b",
    r"(?! to (?:know|see|hear|ask))|\bmy favou?rites?\b|\b(?:we|user|he|she|they|\w+) prefers?\b|",
    r"\bplease (?:always|use|prefer|keep)\b|好き|喜欢|喜歡|préfère|prefiero",
)
_WISH = _pattern(r"\b(?:i'd|i would|would) (?:really )?(?:love|like)\b")


#: What a sentence may be by its first word, as bits: greeting or narration; put there by the client.
MAY_BE_CHATTER, MAY_INTERRUPT = 1, 2
#: First words without which a sentence is neither greeting nor narration; some stand for their longer forms too.
_FIRST_WORDS = frozenset(
    """ok okay great perfect excellent good now right alright sure yes no hmm so and also then first next finally actually ah
    oh wait got i done thanks thank awesome nice cool well you sounds that hey hi hello wow bye take congrat see talk exactly
    let checking looking running reading searching exploring starting updating adding creating verifying continuing
    dispatching spawning waiting fetching investigating launching proceeding moving is would do shall should what how want
    happy feel if ready anything""".split()
)
_INTERRUPTING = frozenset("request caveat this please base the command tool api analysis your if co generated".split())
_OPEN_ENDED = ("thanks", "hey", "hello", "wow", "bye", "congrat", "exactly")
_LETTERS = re.compile("[a-z]*")


class _Openers(dict[str, int]):
    """Of a sentence's first token, what the sentence may be, so that most patterns are never tried; remembered."""

    def __missing__(self, token: str) -> int:
        if len(self) > _OPENERS_LIMIT:
            self.clear()
        folded = token.lstrip("_").lower()
        match = _LETTERS.match(folded)
        word, odd = match[0] if match else "", not token.isascii()
        found = MAY_BE_CHATTER if odd or word in _FIRST_WORDS or word.startswith(_OPEN_ENDED) else 0
        found |= MAY_INTERRUPT if odd or word in _INTERRUPTING else 0
        self[token] = found
        return found


_OPENERS_LIMIT = 20_000
OPENERS = _Openers()


def cues_of(text: str, triggered: int = ANY_CUE) -> int:
    """Everything the words of one sentence announce, of the cues that its words can trigger."""
    found = triggered & Cue.ADDRESS if triggered != ANY_CUE else 0
    if triggered:
        folded = text.lower()
        for cue, pattern in _CUES:
            if triggered & cue and pattern.search(folded):
                found |= cue
    if text.rstrip("\"'”)*_` ").endswith(("?", "？", "؟")):
        found |= Cue.QUESTION
    return found


def is_errand(text: str, start: int, end: int) -> bool:
    """Whether a request is a mere errand ("commit this, push"): it says nothing about the work."""
    return _ERRAND.match(text[start:end].lower()) is not None


def is_chatter(text: str, start: int, end: int, narrates: bool = False, first: bool = True) -> bool:
    """Whether `text[start:end]` is greeting, thanks, narration of the next step, or put there by the client itself.

    Only an agent narrates ("I need to look at the logs"): from a person the same words are a fact. What clients put
    there stands at a message's beginning: `first`.
    """
    said = text[start:end].lower()
    if narrates and _NARRATION.match(said):
        return True
    if _GREETING.match(said):
        return _ASKING.search(said) is None
    return first and _INTERRUPTION.match(said) is not None


def kind_of(text: str, cues: int) -> MemoryKind:
    """The kind of memory a statement is; an observation unless its words say otherwise."""
    if cues & Cue.QUESTION:
        return MemoryKind.OBSERVATION
    # Each pattern costs more than looking for the words without which it cannot match.
    folded = text.lower()
    if (folded.startswith(_PROCEDURE_STARTS) or _names_any(folded, _PROCEDURE_WORDS)) and _PROCEDURE.search(folded):
        return MemoryKind.PROCEDURE
    if cues & Cue.RULE and not text.endswith("!") and _CONSTRAINT.search(folded) and not _NOT_A_RULE.search(folded):
        return MemoryKind.CONSTRAINT
    if _names_any(folded, _DEFINITION_WORDS) and _DEFINITION.search(folded) and not _PRONOUN.match(folded):
        return MemoryKind.DEFINITION
    if _names_any(folded, _PREFERENCE_WORDS) and _PREFERENCE.search(folded) and not _WISH.search(folded):
        return MemoryKind.PREFERENCE
    return MemoryKind.OBSERVATION


_PROCEDURE_STARTS = ("to ", "step", "how to ")
_PROCEDURE_WORDS = ("run `", "execute `", "first")
_DEFINITION_WORDS = ("means ", "refers to", "stands for", "is ", "are the ")
_PREFERENCE_WORDS = ("prefer", "love", "like", "hate", "favo", "please ", "好き", "喜欢", "喜歡", "préfère", "prefiero")


def _names_any(text: str, wanted: tuple[str, ...]) -> bool:
    for word in wanted:
        if word in text:
            return True
    return False
