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


# One pattern per cue, tried only where one of its trigger words stands.
_CUES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (Cue.DECISION, re.compile(
        r"\b(?:decided|decision|we(?:'ll| will)? (?:go|going|went) with|go(?:ing)? with|opted for|settled on|agreed (?:to|on|that)|chose|"
        r"switched to|let's use|we(?:'ll| will) use|instead of|beschlossen|entschieden|décidé|decidimos|decidido)\b|決定|决定|決め|결정", re.I)),
    (Cue.CAUSE, re.compile(
        r"\b(?:root cause|caused by|the (?:real |actual |underlying )?(?:cause|culprit|problem|issue|bug|reason|error) (?:is|was|here)|because|"
        r"turn(?:s|ed) out|due to|comes from|happens when|ursache|cause principale)\b|原因", re.I)),
    (Cue.FIX, re.compile(
        r"\b(?:fix(?:ed|es)?|resolved|solved|solution|repaired|works now|now works|no longer|behoben|corrigé|arreglado)\b|修正|修复|解決|해결", re.I)),
    (Cue.OUTCOME, re.compile(
        r"^(?:i(?:'ve| have)? |we(?:'ve| have)? |now )?(?:successfully )?(?:added|removed|implemented|created|renamed|refactored|updated|changed|"
        r"moved|replaced|deployed|released|merged|committed|extracted|consolidated|simplified|deleted|introduced|split|wrote|migrated|"
        r"finished|completed|bumped|dropped)\b|\ball (?:\d+ )?tests pass|\bcommitted as\b", re.I)),
    (Cue.RULE, re.compile(
        r"\b(?:must(?: not)?|never|always|do not|don't|make sure|ensure|required|not allowed|forbidden|mandatory|at most|at least|only)\b", re.I)),
    (Cue.PREFERENCE, re.compile(
        r"\b(?:prefer(?:s|red|ably)?|favou?rites?|rather than|i (?:really |just |absolutely )?(?:love|like|hate|dislike|enjoy)\b|"
        r"i'd rather|bevorzug\w+|préfère|prefiero)\b|好き|喜欢|喜歡", re.I)),
    (Cue.OPEN, re.compile(
        r"\b(?:todo|open question|not sure|unclear|remaining|still (?:needs?|fails?|failing|open|missing)|follow[- ]up|next steps?|blocked|"
        r"to be decided|tbd)\b", re.I)),
    (Cue.FACT, re.compile(
        r"\b(?:i|we)(?:'m|'ve|'ll| am| are| was| were| have| had| got| went| just| also| recently| started| joined| bought| made|"
        r" took| did| want| plan| found| met| moved| lost| won)\b|\bmy\b|\bour\b|"
        r"\b(?:last|next|this) (?:week|weekend|month|year|summer|night)|\byesterday\b|\b\d+\b", re.I)),
)
#: Words without which a cue cannot stand, so that most patterns are never tried.
TRIGGERS: dict[str, int] = {}
for _cue, _words in (
    (Cue.DECISION, "decided decision decide go going went settled agreed chose chosen switched use instead opted beschlossen entschieden décidé "
                   "decidimos decidido"),
    (Cue.CAUSE, "cause caused because due turned turns comes happens culprit issue problem bug reason error ursache principale"),
    (Cue.FIX, "fix fixed fixes resolved solved solution repaired works longer behoben corrigé arreglado"),
    (Cue.OUTCOME, "added removed implemented created renamed refactored updated changed moved replaced deployed released merged committed "
                  "extracted consolidated simplified deleted introduced split wrote migrated finished completed bumped dropped pass"),
    (Cue.RULE, "must never always not don ensure sure required allowed forbidden mandatory most least only"),
    (Cue.PREFERENCE, "prefer prefers preferred preferably favourite favourites favorite favorites rather love like hate dislike enjoy "
                     "bevorzugt bevorzuge préfère prefiero"),
    (Cue.OPEN, "todo open sure unclear remaining still follow follow-up next blocked decided tbd"),
    (Cue.FACT, "i we my our last next this yesterday"),
    (Cue.ADDRESS, "you your yours yourself"),
):
    for _word in _words.split():
        TRIGGERS[_word] = TRIGGERS.get(_word, 0) | _cue
ANY_CUE = 1023

_CHATTER = re.compile(
    r"[*_`\"'“]*(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|right|alright|sure|yes|no|hmm|so|and|also|then|first|next|finally|actually|ah|oh|wait|"
    r"got it|i see|done|thanks|thank you|awesome|nice|cool|well)[,.!:;\-– ]+)*"
    r"(?:let me\b|let's (?:see|check|look|start|take|run|try|verify|also|now|first)\b|i(?:'ll| will| am going to|'m going to| need to|"
    r" should| can see| can now| see| understand| notice| have (?:a|enough|all)|'m (?:ready|glad|sorry|going|now|happy|so)|'d (?:be|like) )\b|"
    r"now (?:i|let|we|the|update|add|run)\b|"
    r"(?:checking|looking|running|reading|searching|exploring|starting|updating|adding|creating|verifying|continuing|dispatching|spawning|"
    r"waiting|fetching|investigating|launching|proceeding|moving) |"
    r"(?:is there anything|would you like|do you want|shall i|should i|what would you|how would you|want me to|happy to|feel free|"
    r"if you(?:'d| would) like|ready (?:to|for)|anything else|you're (?:absolutely |totally |completely )?(?:right|welcome)|good (?:catch|point|"
    r"question|idea|morning|news|call)|sounds (?:good|great|like)|that's (?:great|awesome|amazing|cool|so|right|a (?:great|good))|thanks|"
    r"thank you|hey|hi\b|hello|wow|bye|take care|congrat|see you|talk to you|i agree|exactly|no (?:problem|worries)|so (?:glad|happy|proud))|$)",
    re.I,
)
_INTERRUPTION = re.compile(
    r"(?:\[?request interrupted|caveat: the messages|this session is being continued|please continue (?:the|from)|base directory for this skill|"
    r"the user (?:doesn't want|opened|sent)|command-(?:name|message)|tool use was rejected|api error|the conversation is summarized|"
    r"analysis:?$|your task is to|if you need specific details|co-authored-by|generated with)", re.I)
_ERRAND = re.compile(
    r"(?:(?:ok(?:ay)?|great|yes|now|and|then|please|can you|could you|let's|also|just)[, ]+)*(?:commit|push|pull|rebase|merge|continue|proceed|retry|"
    r"go ahead|try again|(?:create|open|make|draft)(?: an?)?(?: draft)? (?:pr|pull request|commit|branch))\b[^.?!\n]{0,36}[.?!]?$", re.I)
_PROCEDURE = re.compile(
    r"^(?:to \w+[^.?!]{3,80}?, (?:you )?(?:first |just )?(?:run|use|call|set|execute|add|open|type|invoke)\b|(?:steps?|how) to \w+)|"
    r"\b(?:run|execute) `[^`]+` (?:to|before|after|first|when|once|and then)\b|\bfirst\b[^.?!]{5,}\bthen\b", re.I)
_CONSTRAINT = re.compile(
    r"(?:\b(?:must(?: not| never)?|mustn't|is (?:not allowed|forbidden|required|mandatory)|are (?:not allowed|required)|"
    r"only ever|under no circumstances|no more than|should (?:never|always|only))\b|^(?:please )?(?:never|do not|don't|always|make sure|ensure|avoid)\b)",
    re.I)
_NOT_A_RULE = re.compile(
    r"\b(?:must (?:be|have been|feel|say|admit)|i (?:never|don't|do not|must|always)|you (?:never|must|don't|do not)|we (?:never|don't|do not)|"
    r"they (?:never|don't|do not)|never (?:been|had|thought|knew|seen|heard|mind|gonna|forget)|don't (?:worry|know|think|have|forget|you|we|see)|"
    r"do not (?:know|think|have|see|exist)|don't exist)\b", re.I)
_DEFINITION = re.compile(
    r"^[^,;?!]{2,48}?\b(?:means (?:that|a|an|the)|refers to|stands for|is (?:short for|defined as|called|known as))\b|"
    r"^(?:an? |the )?(?:`[^`]+`|\w+[._]\w[\w.]*|[A-Z]{2,6}) (?:is an?|is the|are) \w", re.I)
_PRONOUN = re.compile(r"(?:it|this|that|these|those|there|he|she|they|we|i|you|what|which|who)\b", re.I)
_PREFERENCE = re.compile(
    r"\bi(?:'d| would)? (?:really |much |strongly |just |absolutely |always |still )?(?:prefer|love|like|hate|dislike|favou?r)\b(?! to (?:know|see|"
    r"hear|ask))|\bmy favou?rites?\b|\b(?:we|user|he|she|they|\w+) prefers?\b|\bplease (?:always|use|prefer|keep)\b|好き|喜欢|喜歡|préfère|prefiero",
    re.I)
_WISH = re.compile(r"\b(?:i'd|i would|would) (?:really )?(?:love|like)\b", re.I)


def cues_of(text: str, triggered: int = ANY_CUE) -> int:
    """Everything the words of one sentence announce, of the cues that its words can trigger."""
    found = triggered & Cue.ADDRESS if triggered != ANY_CUE else 0
    for cue, pattern in _CUES:
        if triggered & cue and pattern.search(text):
            found |= cue
    if text.rstrip("\"'”)*_` ").endswith(("?", "？", "؟")):
        found |= Cue.QUESTION
    return found


def is_errand(text: str, start: int, end: int) -> bool:
    """Whether a request is a mere errand ("commit this, push"): it says nothing about the work."""
    return _ERRAND.match(text, start, end) is not None


def is_chatter(text: str, start: int, end: int, first: bool = True) -> bool:
    """Whether `text[start:end]` is greeting, thanks, narration of the next step, or put there by the client itself.

    What clients put there stands at a message's beginning: `first`.
    """
    return _CHATTER.match(text, start, end) is not None or (first and _INTERRUPTION.match(text, start, end) is not None)


def kind_of(text: str, cues: int) -> MemoryKind:
    """The kind of memory a statement is; an observation unless its words say otherwise."""
    if cues & Cue.QUESTION:
        return MemoryKind.OBSERVATION
    if _PROCEDURE.search(text):
        return MemoryKind.PROCEDURE
    if cues & Cue.RULE and not text.endswith("!") and _CONSTRAINT.search(text) and not _NOT_A_RULE.search(text):
        return MemoryKind.CONSTRAINT
    if _DEFINITION.search(text) and not _PRONOUN.match(text):
        return MemoryKind.DEFINITION
    if _PREFERENCE.search(text) and not _WISH.search(text):
        return MemoryKind.PREFERENCE
    return MemoryKind.OBSERVATION
