"""Instructions that a person gives again in other words, session after session. Pure.

Short, no question, no errand but what is to be done with one, nothing that belongs to one task, said in several sessions on
several days, and more than once like a lasting rule, with its time in the work, or as a correction: after an interruption or
with a refused call, in whatever language.

Change here: what counts as the same instruction, and as one that could be a rule.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import term_set
from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.kinds import Cue, cues_of, is_chatter, is_errand, kind_of
from memory_mcp.tree.summarize.sentences import Shape, clean_text, find_spans
from memory_mcp.tree.toc.doings import INTERRUPTED, is_prompt, is_telling

#: Characters of a message, and of an instruction; sentences of a message, and terms of an instruction.
_LONGEST_MESSAGE, _LONGEST, _MOST_SENTENCES = 600, 200, 4
_LEAST_TERMS, _MOST_TERMS = 2, 16
#: The same where no spaces are written, and a term is a pair of letters.
_MOST_PAIRS = 40
#: Sessions and days in which an instruction is given before it counts, its wordings (one alone is a template or a copy), and how
#: often it must read like a rule or be a correction.
_SESSIONS, _DAYS, _WORDINGS, _TELLING = 3, 2, 2, 2
#: Words in a row by which a text is a copy of another: of a forked session, a template, something pasted.
_COPIED = 6
#: Share of the weight of the shorter one's terms, and number of terms, that the same instruction shares.
_SAME, _SHARED = 0.5, 2
#: Share of a group's members that its core has to be in: as many terms as two of them share.
_CORE = 2 / 3
#: Terms that so large a share of instructions have, and more than so many, say nothing about one.
_COMMON, _FEW = 0.2, 30
_RULES = frozenset({MemoryKind.CONSTRAINT, MemoryKind.PREFERENCE, MemoryKind.PROCEDURE})
_WORD = lazy_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_EXTENSION = lazy_pattern(r"(?<=\w)\.[a-z]\w{0,4}\b")
#: What belongs to one task: an address, a hash, a path with folders, a number of an issue or a line, the mark of a list.
_OF_A_TASK = lazy_pattern(r"://|\b(?=[a-f]*\d)[0-9a-f]{7,}\b|(?:\w|^)/\w+[./]|#\d|\b\d{2,}\b|^\s*(?:[-*•]|\d+[.)])\s|[{}<>|=]{2}")
#: How an instruction says that it accompanies other work: its time is that of an act of whoever works.
_ACCOMPANIES = lazy_pattern(
    r"\b(?:before|after|when|whenever|once|until) (?:you|we|i)\b|\b(?:before|after|when|while) \w+ing\b"
    r"|\b(?:each|every) (?:time|commit|change|release|step|task|session)\b|\b(?:bevor|nachdem|sobald) (?:du|sie|wir)\b",
    re.I,
)
#: How an instruction takes back an earlier one, whether that asks for something or forbids it.
_REVOKES = lazy_pattern(
    r"\b(?:forget (?:the|that|this|about|what)|drop (?:the|that|this) rule|(?:no|not) need to|(?:need|have) not|"
    r"(?:don't|do not|needn't) (?:need|have) to|(?:brauchst?|musst|müssen|muss) (?:\w+ ){0,8}nicht)\b|不用再",
    re.I,
)
#: How it ends what was asked for: words that a prohibition has too ("do not use npm any more").
_STOPS = lazy_pattern(
    r"\b(?:no longer|any ?more|(?:stop|quit) (?!forgetting|ignoring|skipping|omitting)|hör\w* auf|arrête\w*|deja de|nicht mehr|"
    r"kein\w* \w+ mehr|ne (?:\w+ ){1,3}plus|n'est plus|ya no|non (?:\w+ )?più|não (?:\w+ )?mais|больше не)\b"
    r"|不再|もう(?:.{0,12})(?:不要|なくて|ない)|더 이상",
    re.I,
)
#: How it allows what was forbidden: "until it is green again" says nothing of a rule that asks for something.
_ALLOWS = lazy_pattern(r"\b(?:(?:may|can|is|are|it's) (?:\w+ ){0,8}(?:again|after all)|doch (?:wieder|auf|nicht))\b", re.I)
_FORBIDS = lazy_pattern(r"\b(?:not|don't|dont|never|stop|avoid|no|nicht|nie|niemals|kein\w*|pas|jamais|nunca|ne)\b", re.I)
_WITHOUT = lazy_pattern(r"\b(?:without|unless|before|until|ohne|bevor|sans|avant|sin)\b", re.I)
#: Terms of a revocation that do not say of what, and the share of its others that the revoked one has.
_REVOKING_TERMS = frozenset(
    term_set("forget rule drop longer anymore more again need stop now today any every each time take long")
)
_REVOKED = 0.5
#: What joins an errand with what is to be done with it ("commit and update the changelog"), and words of errands.
_JOINED = lazy_pattern(r"\s*(?:,|;|\band\b|\bthen\b|\bund\b|&|\+)\s*", re.I)
_ERRAND_TERMS = frozenset(
    term_set("commit push pull rebase merge pr request branch main master this that all changes it now please")
)
#: Words that forbid, bind or prefer one thing to another, in many languages; where no spaces are written, parts of a text.
_BINDING = frozenset(
    """no not don't dont never always instead without stop avoid rather nicht kein keine keinen niemals nie immer statt ohne stets
    pas jamais toujours sans plutôt nunca siempre sin não sempre sem jamais non mai senza invece niet geen nooit
    altijd zonder не никогда всегда без вместо нельзя 항상 절대 말고 마세요 마""".split()
)
_BINDING_PARTS = ("不要", "别", "必须", "总是", "不得", "ないで", "しない", "必ず", "いつも", "ではなく", "지 마", "항상", "절대")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Instruction:
    """A sentence of a person that may be an instruction."""

    text: str
    event: Event
    start: int
    end: int
    terms: frozenset[str]
    #: Whether it reads like a lasting rule, or corrects: it follows an interruption or came with a refused call.
    binds: bool


def list_instructions(events: Sequence[Event]) -> list[Instruction]:
    """Return what may be instructions in a person's events, which are in order of time."""
    last_by_stream: dict[int, Event] = {}
    instructions: list[Instruction] = []
    for event in events:
        if event.type is not EventType.USER_MESSAGE or event.role is not Role.USER:
            continue
        previous = last_by_stream.get(event.stream)
        last_by_stream[event.stream] = event
        if event.thread or len(event.text) > _LONGEST_MESSAGE:
            continue
        if not is_prompt(event) or event.text.startswith((INTERRUPTED, "/")):
            continue
        is_correction = "tool_use_id" in event.metadata or (previous is not None and previous.text.startswith(INTERRUPTED))
        instructions += _read_sentences(event, is_correction)
    return instructions


def _read_sentences(event: Event, is_correction: bool) -> Iterator[Instruction]:
    for number, span in enumerate(find_spans(event.text, _MOST_SENTENCES)):
        if span.shape in (Shape.ERROR, Shape.HEADING, Shape.LEAD) or span.end - span.start > _LONGEST:
            continue
        text = clean_text(event.text[span.start : span.end])
        if _OF_A_TASK.search(text) or is_chatter(event.text, span.start, span.end, first=not number):
            continue
        cues = cues_of(text)
        folded = _EXTENSION.sub("", text.casefold().replace("’", "'"))
        words = _WORD.findall(folded)
        terms = frozenset(term_set(" ".join(word for word in words if word not in _BINDING)))
        binds = not _BINDING.isdisjoint(words) or any(part in folded for part in _BINDING_PARTS)
        if companions := _companion_terms(folded):
            terms, binds = companions, True
        binds = binds or _ACCOMPANIES.search(text) is not None
        most_terms = _MOST_TERMS if " " in text or text.isascii() else _MOST_PAIRS
        if not cues & Cue.QUESTION and _LEAST_TERMS <= len(terms) <= most_terms and (binds or is_telling(text)):
            yield Instruction(text, event, span.start, span.end, terms, binds or is_correction or kind_of(text, cues) in _RULES)


def _companion_terms(text: str) -> frozenset[str]:
    """Return the terms of what is to be done with an errand; none if it is an errand alone, or none."""
    errand, *parts = _JOINED.split(text)
    # A compound ("Commit-Nachrichten nie auf Deutsch") is no errand.
    is_alone = _BINDING.isdisjoint(_WORD.findall(errand))
    if not (parts and is_alone and is_errand(errand, 0, len(errand))):
        return frozenset()
    terms = frozenset(term_set(" ".join(_WORD.findall(" ".join(parts))))) - _ERRAND_TERMS
    return terms if len(terms) >= _LEAST_TERMS else frozenset()


def group_repeated(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Return the instructions that were given in several sessions in other words, those of most sessions first.

    Each group in order of time; its first member is what the others share most with.
    """
    distinct = list(
        {(instruction.event.session_id, instruction.terms): instruction for instruction in reversed(instructions)}.values()
    )[::-1]
    counts = Counter(term for instruction in distinct for term in instruction.terms)
    total = len(distinct)
    weights = {term: math.log(1 + total / count) for term, count in counts.items() if count <= max(_COMMON * total, _FEW)}
    groups: list[list[Instruction]] = []
    by_term: dict[str, list[int]] = defaultdict(list)
    for instruction in distinct:
        near = Counter(number for term in instruction.terms if term in weights for number in by_term[term])
        alike = (
            (_share(instruction.terms, groups[number][0].terms, weights), number) for number, n in near.items() if n >= _SHARED
        )
        share, number = max(alike, default=(0.0, -1))
        if share >= _SAME:
            if not any(_is_copy(instruction.text, member.text) for member in groups[number]):
                groups[number].append(instruction)
            continue
        groups.append([instruction])
        for term in instruction.terms & weights.keys():
            by_term[term].append(len(groups) - 1)
    valid = (_drop_revoked(group, distinct) for group in groups)
    repeated = [group for group in valid if group and _is_rule(group)]
    return sorted(
        repeated, key=lambda group: (-len({instruction.event.session_id for instruction in group}), group[0].event.order)
    )


def _drop_revoked(group: Sequence[Instruction], instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return what of a group was said after it was last taken back, by one of its own or by any instruction of its core."""
    core = _core_of(group)
    is_forbidding = 2 * sum(_forbids(member.text) for member in group) >= len(group)
    last = max(
        (each.event.order for each in instructions if _is_revoking(each, is_forbidding) and _names_core(each, core, group)),
        default=None,
    )
    return [member for member in group if last is None or member.event.order > last]


def _names_core(instruction: Instruction, core: Set[str], group: Sequence[Instruction]) -> bool:
    terms = instruction.terms - _REVOKING_TERMS
    return any(instruction is member for member in group) or len(terms & core) >= max(1.0, _REVOKED * len(terms))


def _is_revoking(instruction: Instruction, is_forbidding: bool) -> bool:
    """Return whether an instruction takes back one that asks for something, or one that forbids."""
    text = instruction.text.replace("’", "'")
    ends = _ALLOWS.search(text) if is_forbidding else _STOPS.search(text)
    return _REVOKES.search(text) is not None or (ends is not None and not re.search(r"\b(?:without|ohne|sans|sin)\b", text, re.I))


def _forbids(text: str) -> bool:
    """Return whether an instruction forbids; "never commit without a test" asks for one."""
    plain = text.replace("’", "'")
    return _FORBIDS.search(plain) is not None and _WITHOUT.search(plain) is None


def _core_of(group: Sequence[Instruction]) -> set[str]:
    counts = Counter(term for instruction in group for term in instruction.terms)
    return {term for term, count in counts.items() if count >= _CORE * len(group)}


def _share(terms: frozenset[str], other: frozenset[str], weights: dict[str, float]) -> float:
    """Return the weight of the shared terms over that of the lighter one of the two."""
    sums = [sum(weights.get(term, 0.0) for term in group) for group in (terms & other, terms, other)]
    longer, shorter = max(sums[1:]), min(sums[1:])
    # A text that says three times as much says something else.
    return 0.0 if not shorter or longer > 3 * shorter else sums[0] / shorter


def _is_rule(group: Sequence[Instruction]) -> bool:
    """Return whether a group is repeated, and may be a rule rather than a task that came again."""
    sessions = {instruction.event.session_id for instruction in group}
    days = {instruction.event.timestamp // _DAY_MS for instruction in group}
    if len({instruction.text.casefold().strip(" .!") for instruction in group}) < _WORDINGS:
        return False
    core = _core_of(group)
    # What they share has to be a third of what they say, or each says something else.
    in_other_words = {each.event.session_id for each in group if 3 * len(core & each.terms) >= len(each.terms)}
    if len(core) < _SHARED or len(in_other_words) < _SESSIONS:
        return False
    return len(sessions) >= _SESSIONS and len(days) >= _DAYS and sum(instruction.binds for instruction in group) >= _TELLING


def _is_copy(text: str, other: str) -> bool:
    """Return whether two texts share so many words in a row that one was copied."""
    words, spaced = text.casefold().split(), f" {' '.join(other.casefold().split())} "
    return any(f" {' '.join(words[at : at + _COPIED])} " in spaced for at in range(len(words) - _COPIED + 1))
