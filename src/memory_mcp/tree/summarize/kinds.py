"""Classify sentences: chatter or content, decision, fix or question, and the kind of memory.

The rules are lexical and conservative: anything doubtful is an observation.
"""

import re

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.exchange import QUESTION_MARKS
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.patterns import compile_pattern, contains_any, is_choice


class Cue:
    """Cues of a sentence, as bits: IntFlag costs more than the patterns."""

    DECISION = 1
    CAUSE = 2
    FIX = 4
    OUTCOME = 8
    RULE = 16
    PREFERENCE = 32
    QUESTION = 64
    OPEN = 128
    FACT = 256
    #: Addresses somebody: "you", "your".
    ADDRESS = 512


# One pattern per cue, tried only on sentences with one of its trigger words.
_CUES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (
        Cue.DECISION,
        compile_pattern(
            r"\b(?:decided|decision|we(?:'ll| will)? (?:go|going|went) with|go(?:ing)? with|opted for|settled on|",
            r"agreed (?:to|on|that)|chose|switched to|let's use|we(?:'ll| will) use|instead of|",
            r"beschlossen|entschieden|décidé|decidimos|decidido)\b|決定|决定|決め|결정",
        ),
    ),
    (
        Cue.CAUSE,
        compile_pattern(
            r"\b(?:root cause|caused by|because|turn(?:s|ed) out|due to|comes from|happens when|ursache|cause principale|",
            r"the (?:real |actual |underlying )?(?:cause|culprit|problem|issue|bug|reason|error) (?:is|was|here))\b|原因",
        ),
    ),
    (
        Cue.FIX,
        compile_pattern(
            r"\b(?:fix(?:ed|es)?|resolved|solved|solution|repaired|works now|now works|no longer|",
            r"behoben|corrigé|arreglado)\b|修正|修复|解決|해결",
        ),
    ),
    (
        Cue.OUTCOME,
        compile_pattern(
            r"^(?:i(?:'ve| have)? |we(?:'ve| have)? |now )?(?:successfully )?(?:added|removed|implemented|created|renamed|",
            r"refactored|updated|changed|moved|replaced|deployed|released|merged|committed|extracted|consolidated|simplified|",
            r"deleted|introduced|split|wrote|migrated|finished|completed|bumped|dropped)\b|",
            r"\ball (?:\d+ )?tests pass|\bcommitted as\b",
        ),
    ),
    (
        Cue.RULE,
        compile_pattern(
            r"\b(?:must(?: not)?|never|always|do not|don't|make sure|ensure|required|not allowed|forbidden|mandatory|",
            r"at most|at least|only)\b",
        ),
    ),
    (
        Cue.PREFERENCE,
        compile_pattern(
            r"\b(?:prefer(?:s|red|ably)?|favou?rites?|rather than|i (?:really |just |absolutely )?",
            r"(?:love|like|hate|dislike|enjoy)\b|i'd rather|bevorzug\w+|préfère|prefiero)\b|好き|喜欢|喜歡",
        ),
    ),
    (
        Cue.OPEN,
        compile_pattern(
            r"^open: |\b(?:todo|open question|not sure|unclear|remaining|still (?:needs?|fails?|failing|open|missing)|",
            r"follow[- ]up|next steps?|blocked|to be decided|tbd)\b",
        ),
    ),
    (
        Cue.FACT,
        compile_pattern(
            r"\b(?:i|we)(?:'m|'ve|'ll| am| are| was| were| have| had| got| went| just| also| recently| started| joined| bought|",
            r" made| took| did| want| plan| found| met| moved| lost| won)\b|\bmy\b|\bour\b|",
            r"\b(?:last|next|this) (?:week|weekend|month|year|summer|night)|\byesterday\b|\b\d+\b",
        ),
    ),
)
#: One of these is in every text that a cue's pattern matches: looking for them takes a tenth of the time.
_SIGNS: dict[int, tuple[str, ...]] = {
    Cue.DECISION: (
        *("deci", " with", "opted for", "settled on", "agreed ", "chose", "switched to", " use", "instead of"),
        *("beschlossen", "entschieden", "décidé", "決", "决", "결정"),
    ),
    Cue.CAUSE: (
        *("cause", " out", "due to", "comes from", "happens when", "ursache", "原因"),
        *("culprit", "problem", "issue", "bug", "reason", "error"),
    ),
    Cue.FIX: (
        *("fix", "resolved", "solved", "solution", "repaired", "works", "no longer", "behoben", "corrigé", "arreglado"),
        *("修", "解決", "해결"),
    ),
}
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


#: The cues that a word can trigger: most patterns are never tried.
TRIGGERS: dict[str, int] = {}
for _cue, _listed in _TRIGGER_WORDS.items():
    for _trigger in _listed.split():
        TRIGGERS[_trigger] = TRIGGERS.get(_trigger, 0) | _cue
ANY_CUE = 1023

_OPENING = (
    r"[*_`\"“‘]*(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|right|alright|sure|yes|no|hmm|so|and|also|then|first|next|"
    r"finally|actually|ah|oh|wait|got it|i see|done|thanks|thank you|awesome|nice|cool|well)[,.!:;\-– ]+)*"
)
_GREETING = compile_pattern(
    _OPENING,
    r"(?:you're (?:absolutely |totally |completely )?(?:right|welcome)|good (?:catch|point|question|idea|morning|news|call)|",
    r"sounds (?:good|great|like)|that's (?:great|awesome|amazing|cool|so|right|a (?:great|good))|thanks|thank you|hey|hi\b|",
    r"hello|wow|whoops|bye|take care|congrat|see you|talk to you|i agree|exactly|no (?:problem|worries)|so (?:glad|happy|proud)|",
    r"i(?:'m| am) (?:so )?(?:glad|sorry|happy for|proud of)\b|$)",
)
_NARRATION = compile_pattern(
    _OPENING,
    r"(?:let me\b|let's (?:see|check|look|start|take|run|try|verify|also|now|first)\b|",
    r"i(?:'ll| will| am going to|'m going to| need to| should| can see| can now| see| understand| notice|",
    r" have (?:a|enough|all)|'m (?:ready|going|now)|'d (?:be|like) )\b|now (?:i|let|we|the|update|add|run)\b|",
    r"(?:checking|looking|running|reading|searching|exploring|starting|updating|adding|creating|verifying|continuing|",
    r"dispatching|spawning|waiting|fetching|investigating|launching|proceeding|moving) |",
    r"(?:is there anything|would you like|do you want|shall i|should i|what would you|how would you|want me to|happy to|",
    r"feel free|if you(?:'d| would) like|ready (?:to|for)|anything else))",
)
_ASKING = compile_pattern(
    r"\b(?:can|could|would) (?:you|we)\b|\bplease\b|\bi(?:'d)? (?:want|need|like)\b|\b(?:why|how|what)\b.*\?"
)
_INTERRUPTION = compile_pattern(
    r"(?:\[?request interrupted|caveat: the messages|this session is being continued|please continue (?:the|from)|",
    r"base directory for this skill|the user (?:doesn't want|opened|sent)|command-(?:name|message)|tool use was rejected|",
    r"api error|the conversation is summarized|analysis:?$|your task is to|if you need specific details|co-authored-by|",
    r"generated with)",
)
#: The client's own notices, anywhere in a message.
_NOTICE = compile_pattern(
    r"(?:if you need specific details|resume this session|this session is being continued|\d+-hour limit|limit reached|",
    r"(?:claude )?(?:ai )?usage limit|you(?:'ve| have) (?:hit|reached) your|tip: |press (?:ctrl|esc)|claude --resume|",
    r"to continue this session|approaching (?:usage|context)|context (?:left until|low)|generated with|co-authored-by)",
)
_ERRAND = compile_pattern(
    r"(?:(?:ok(?:ay)?|great|yes|now|and|then|please|can you|could you|let's|also|just)[, ]+)*",
    r"(?:commit|push|pull|rebase|merge|continue|proceed|retry|go ahead|try again|",
    r"(?:create|open|make|draft)(?: an?)?(?: draft)? (?:pr|pull request|commit|branch))\b[^.?!\n]{0,36}[.?!]?$",
)
#: Imperatives of procedures and rules.
_ACT = (
    r"(?:(?:re-?)?run|execute|invoke|call|use|set|open|type|press|click|tap|select|install|restart|start|stop|exit|check|verify|"
    r"build|test|deploy|enable|disable|generate|regenerate|create|reset|export|copy|add|edit|go to|paste|pass|search|try)"
)
_PROCEDURE = compile_pattern(
    # "To see the log, run x", "To debug: x", "After a merge, run x", "For each row, call x".
    r"^to (?!be\b|summari|sum\b|recap|note|clarify|conclude|answer|confirm)\w+(?: [^.?!:]{1,80}?)?",
    rf"(?:, (?:you )?(?:can |first |just )*{_ACT}\b|: \S)|",
    rf"^(?:after|before|once|whenever|for each) [^,.]{{3,80}}, (?:please |always |first |then )?{_ACT}\b|",
    r"^(?:steps?|how) to \w+|^(?:\w+ )?(?:workflow|steps|procedure): |",
    # A command with its purpose or its time, not a mere request to run something.
    r"^(?:then |also )?(?:re-?run|run|execute) \S[^.?!]*? (?:to (?!see\b)|before |after |when |whenever |if )\w|",
    r"\b(?:run|execute) `[^`]+` (?:to|before|after|first|when|once|and then)\b|",
    r"^(?:click|press|tap|select) \S.{0,40}? to \w|",
    rf"^{_ACT} [^.?!]{{2,60}} by (?:running|calling|invoking|executing|setting|pressing|clicking) |",
    rf"^you can (?:also |always )?{_ACT}\b|^first,? (?:you )?{_ACT}\b[^.?!]{{5,}}\bthen\b",
)
_CONSTRAINT = compile_pattern(
    r"\b(?:must(?: not| never)?|mustn't|(?:is|are) (?:not allowed|forbidden|required|mandatory)|only ever|",
    r"under no circumstances|no more than \d|from now on|should (?:never|always|only|not)|shouldn't|",
    r"(?:should|must|may) be used only|requires \w+ to (?!be\b)\w+)\b|",
    r"^(?:please )?(?:never|do not|don't|always|make sure|ensure|avoid)\b|",
    r"(?:[:;—–-] ?(?:never|do not|don't|always)|, never|^only) ",
    rf"(?:commit|push|store|write|touch|change|delete|log|rely|mix|{_ACT})\b",
)
#: Not rules: guesses ("it must be nice"), habits, and requests of the moment.
_NOT_A_RULE = compile_pattern(
    r"^(?:please )?(?:always (?:here|up|there|good|great|nice|fun|happy|ready|an?|the)\b|(?:never|always) \w+[^s\W]s\b)|",
    r"must be\W*$|must-|must've|(?:issue|problem|error|bug) must\b|",
    r"the fix\b|\bshouldn't (?:i|we|you|it|they|he|she|there)\b|(?:don't|do not) \w+ anything, |",
    r"\b(?:must (?:have|feel|say|admit|know|fail|agree|understand|do so)|(?:it|that|this|you|he|she|they|there|i) must|",
    r"must be (?:quite|so|such|really|very|tough|hard|nice|great|amazing|exciting|proud|fun|difficult|awesome|wonderful|",
    r"rewarding|incredible|from|sort|kind|around|about|(?!string)\w+ing)|",
    r"i (?:never|don't|do not|always)|you never|we (?:never|always)|always \w+ing|not saying|failing because|",
    r"never (?:been|had|thought|knew|seen|heard|mind|gonna|forget)|",
    r"don't (?:worry|know|think|have|forget|you|we|see|exist|get me|be|fix|do|let|count|stop)|",
    r"(?:it|that|this|there|i|we|you) should(?: not|n't)|",
    r"should(?: not|n't) (?:be (?:an?|too|that|hard|difficult)|have|take|matter|happen|contain))\b",
)
_DEFINITION = compile_pattern(
    r"^(?!\w+ing )[^,;?!]{2,48}?(?<!which)(?<! no)(?<! any)(?<! that) means (?:an?|the|[\"“`])|",
    r"^[^,;?!]{2,48}?\b(?:refers to (?:an?|the|any|how|both)|is (?:short for|defined as|known as))\b|\bstands for \w|",
    r"^(?!.* (?:when|if|once|after|before) .*is called)[^,;?!]{2,48}?\bis called (?!when|if|by|with|from|in|on|at|for|once|twice)"
    r"[\w\"“`]|",
    r"\bwhich is,? (?:just |basically |essentially,? )?an? (?:set|kind|type|sort|piece|form|collection|list) of\b",
)
#: "`name` is the ..." at the start of a sentence.
_THING = compile_pattern(
    r"(?:in \w+, )?(?:an? |the )?(?:`[^`]+`|\w+[._]\w[\w.]*) (?:is an?|is the|are the) (?!real|root|actual|main|only|",
    r"same|bug|problem|issue|blocker|cause|culprit|mess|good|bad)\w",
)
#: An entry of a list of names, in its original case: "`load_rows()` - reads the rows".
_ENTRY = lazy_pattern(r"/?(?=\S*(?:[_/(.]|[a-z][A-Z]))[\w./-]+(?:\([^)]*\))? [-–—] (?=\S+ \S)")
#: Such an entry that reports a change or an error instead.
_CHANGE = compile_pattern(
    r" [-–—] (?:(?:now|new|also|add|fix|remove|replace|update|change|rename|move|delete|extract|refactor|simplify|kept|keep|",
    r"use|set|was|is|are|has|not?|needs?|should|must|still)\b|\w+ed\b)|",
    r"^\S+\.[a-z]{1,5} [-–—] (?:log|show|display|filter|handle|skip|allow|call|import|return|make|write|read|pass|check|",
    r"ensure|create|introduce|implement|support|switch|convert)\b|",
    r"\b(?:fix(?:es|ed)?|bug|added|removed|replaced|changed|renamed|moved|updated|missing|fail(?:s|ed|ing)?|broken|",
    r"doesn't|don't|now|no longer)\b",
)
_PRONOUN = compile_pattern(r"(?:it|this|that|these|those|there|he|she|they|we|i|you|what|which|who)\b(?!.*\bstands for\b)")
_PREFERENCE = compile_pattern(
    r"\bi(?:'d| would)? (?:(?:also|really|much|strongly|just|absolutely|always|still|don't|do not|don't really) )*",
    r"(?:prefer|love|like|hate|dislike|favou?r|enjoy)\b",
    r"(?! to (?:know|see|hear|ask)| (?:that|this|it|your?|the idea)\b|\W*$)|",
    r"\bi(?:'m| am| have|'ve)(?: always)?(?: been)? (?:just |kind of |really |so |such )*(?:an? )?(?:huge |big |real |total )?",
    r"(?:fan of|sucker for|passionate about|keen on|fond of|into) \w|\bmy (?:love|passion) (?:for|of) |\bmy passion is\b|",
    r"\b(?:part of my life|(?:imagine|picture) (?:my )?life without|preferred (?:option|way|approach))\b|",
    r"(?<!was )\bmy favou?rites?\b|\b\w+ prefers?\b(?!\W*$)|\bthe user preferred\b|",
    r"\b(?:users|customers|people|they) (?:don't|do not) like\b|\bplease (?:prefer|keep)\b|",
    r"好き|喜欢|喜歡|préfère|prefiero",
)
_WISH = compile_pattern(r"\b(?:i'd|i would|would) (?:really |also |just )*(?:love|like)\b")

#: What a sentence may be by its first word, as bits: greeting or narration; a client's text at the start, or anywhere.
MAY_BE_CHATTER, MAY_INTERRUPT, MAY_NOTIFY = 1, 2, 4
#: First words of greetings and narration.
_FIRST_WORDS = frozenset(
    """ok okay great perfect excellent good now right alright sure yes no hmm so and also then first next finally actually ah
    oh wait got i done thanks thank awesome nice cool well you sounds that hey hi hello wow bye take congrat see talk exactly
    let checking looking running reading searching exploring starting updating adding creating verifying continuing
    dispatching spawning waiting fetching investigating launching proceeding moving is would do shall should what how want
    happy feel if ready anything""".split()
)
_INTERRUPTING = frozenset("request caveat this please base the command tool api analysis your if co generated".split())
_NOTIFYING = frozenset("ai if resume this limit usage claude you tip press to approaching context generated co".split())
_OPEN_ENDED = ("thanks", "hey", "hello", "wow", "whoops", "bye", "congrat", "exactly")
_LETTERS = lazy_pattern("[a-z]*")


class _Openers(dict[str, int]):
    """What a sentence may be by its first token; a full cache is emptied."""

    def __missing__(self, token: str) -> int:
        if len(self) > _OPENERS_LIMIT:
            self.clear()
        folded = token.lstrip("_").lower()
        match = _LETTERS.match(folded)
        word, odd = match[0] if match else "", not token.isascii()
        flags = MAY_BE_CHATTER if odd or word in _FIRST_WORDS or word.startswith(_OPEN_ENDED) else 0
        flags |= MAY_INTERRUPT if odd or word in _INTERRUPTING else 0
        flags |= MAY_NOTIFY if word in _NOTIFYING or folded[:1].isdigit() else 0
        self[token] = flags
        return flags


_OPENERS_LIMIT = 20_000
OPENERS = _Openers()


def cues_of(text: str, triggered: int = ANY_CUE) -> int:
    """Return a sentence's cues among `triggered`, and `Cue.QUESTION` by its end."""
    cues = triggered & Cue.ADDRESS if triggered != ANY_CUE else 0
    if triggered:
        folded = text.lower()
        for cue, pattern in _CUES:
            if triggered & cue and pattern.search(folded):
                cues |= cue
    if text.rstrip("\"'”)*_` ").endswith(QUESTION_MARKS):
        cues |= Cue.QUESTION
    return cues


def has_cue(text: str, cue: int) -> bool:
    """Return whether a sentence has one cue; not for `Cue.QUESTION`."""
    folded = text.lower()
    signs = _SIGNS.get(cue)
    if signs is not None and not contains_any(folded, signs):
        return False
    return any(pattern.search(folded) is not None for known, pattern in _CUES if known == cue)


def is_errand(text: str, start: int, end: int) -> bool:
    """Return whether a request is an errand ("commit this, push")."""
    return _ERRAND.match(text[start:end].lower()) is not None


def is_chatter(text: str, start: int, end: int, narrates: bool = False, first: bool = True) -> bool:
    """Return whether `text[start:end]` says nothing about the work.

    Only an agent narrates ("I need to look at the logs"): from a person the same words are a fact. Most of a client's texts
    count only at the start of a message: `first`.
    """
    folded = text[start:end].lower()
    if narrates and _NARRATION.match(folded):
        return True
    if _GREETING.match(folded):
        return _ASKING.search(folded) is None
    return _NOTICE.match(folded) is not None or (first and _INTERRUPTION.match(folded) is not None)


def kind_of(text: str, cues: int) -> MemoryKind:
    """Return the kind of memory of a statement.

    The first of procedure, decision, constraint, definition and preference that fits; no question has another kind.
    """
    if cues & Cue.QUESTION:
        return MemoryKind.OBSERVATION
    # Looking for required words first is cheaper than trying each pattern.
    folded = text.lower()
    if (folded.startswith(_PROCEDURE_STARTS) or contains_any(folded, _PROCEDURE_WORDS)) and _PROCEDURE.search(folded):
        return MemoryKind.PROCEDURE
    if is_choice(folded):
        return MemoryKind.DECISION
    if (
        contains_any(folded, _CONSTRAINT_WORDS)
        and text[-1:] != "!"
        and _CONSTRAINT.search(folded)
        and not _NOT_A_RULE.search(folded)
    ):
        return MemoryKind.CONSTRAINT
    if (
        (contains_any(folded, _DEFINITION_WORDS) and _DEFINITION.search(folded) and not _PRONOUN.match(folded))
        or (contains_any(folded, _THING_WORDS) and _THING.match(folded))
        or (contains_any(text, _DASHES) and _ENTRY.match(text) and not _CHANGE.search(folded))
    ):
        return MemoryKind.DEFINITION
    if contains_any(folded, _PREFERENCE_WORDS) and _PREFERENCE.search(folded) and not _WISH.search(folded):
        return MemoryKind.PREFERENCE
    return MemoryKind.OBSERVATION


_PROCEDURE_STARTS = (
    *("to ", "step", "how to ", "after ", "before ", "once ", "whenever ", "for each ", "you can ", "first"),
    *("run ", "re-run ", "rerun ", "then ", "also ", "execute ", "click ", "press ", "tap ", "select "),
)
_PROCEDURE_WORDS = ("run `", "execute `", " by ", "workflow: ", "steps: ", "procedure: ")
_CONSTRAINT_WORDS = (
    *("must", "never", "always", "only", "do not", "should", "don't", "don’t", "requires ", "required", "mandatory"),
    *("forbidden", "not allowed", "under no", "no more than", "from now on", "make sure", "ensure", "avoid"),
)
_DEFINITION_WORDS = ("means ", "refers to", "stands for", "which is", "is short", "is defined", "is called", "is known")
_THING_WORDS = (" is a", " is the", " are the")
_DASHES = (" - ", " – ", " — ")
_PREFERENCE_WORDS = (
    *("prefer", "love ", "hate ", "dislike ", "favo", "enjoy ", "passion", "fan of", "sucker", "keen on", "fond of"),
    *("i like", "ly like", "so like", "just like", "not like", "'t like", "’t like", "ways like", "still like", "much like"),
    *("m into ", "ly into ", "so into ", "been into ", "my life", "life without", "please keep"),
    *("好き", "喜欢", "喜歡", "préfère", "prefiero"),
)
