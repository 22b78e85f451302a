"""Read the statements of a recap: the summary a client's own model wrote when it compacted a conversation.

Clients keep such texts, 12 to 14 kB each, among the messages: what was requested, errors and fixes, open tasks.

Invariants
1. Every statement is a list item or paragraph of the recap, shortened, with its place.
2. Lists of files and code, of the user's messages, and the model's notes to itself give no statement.

Change here: read another client's recaps.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.tree.summarize.sentences import clean_text

#: Most characters of a statement; the rest is detail.
MAX_STATEMENT = 200
_MIN_STATEMENT = 16
#: Prefix of pending tasks, which would otherwise read as done.
OPEN = "Open: "
#: Characters from which a line before a list is a statement of its own.
_MIN_LEAD = 40


class RecapSection(Enum):
    """The section of a recap that a statement is in."""

    ASKED = auto()
    FIXED = auto()
    NOW = auto()
    OPEN = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """One item of a recap: its text, and its characters in the event."""

    section: RecapSection
    text: str
    start: int
    end: int


# Parts by words of their headings, the first match; None for sections that are skipped.
_HEADINGS: tuple[tuple[re.Pattern[str], RecapSection | None], ...] = (
    (
        lazy_pattern(
            r"user messages|technical concept|files?\b.*\bcode|code sections|key files|analysis|files? (?:modified|touched)"
        ),
        None,
    ),
    (lazy_pattern(r"pending|next step|remaining|open (?:question|issue|task)|to-?dos?\b|outstanding"), RecapSection.OPEN),
    (lazy_pattern(r"error|fix|problem|issue|bug|debug"), RecapSection.FIXED),
    (lazy_pattern(r"request|intent|goal|objective|\btask\b|user asked"), RecapSection.ASKED),
    (lazy_pattern(r"current|state|progress|completed|accomplish|done\b|result|outcome"), RecapSection.NOW),
)
_HEADING = lazy_pattern(
    r" {0,2}(?:#{1,6} +|\d{1,2}[.)] +)?(?:\*\*)?(?:\d{1,2}[.)] +)?([A-Za-z][^\n:*]{2,60})(?:\*\*)?:?(?:\*\*)?:?[ \t]*$"
)
_BEGINS = lazy_pattern(r"^[ \t]*(?:<summary>|(?:#+ |\*\*)?(?:conversation )?summary:?(?:\*\*)?:?)[ \t]*$", re.I | re.M)
_ITEM = lazy_pattern(r"([ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX~]\][ \t]+)?")
_FENCE = ("```", "~~~")
#: What clients write around a recap.
_FRAME = lazy_pattern(
    r"^(?:this session is being continued|the conversation is summarized|please continue|if you need specific)", re.I
)

#: Characters at the end of a line that may introduce the list below it.
_LEAD_END = 60
#: Last words of a line that introduce the list below it.
_DANGLING = lazy_pattern(
    r"[ ,.;(—–-]{1,3}(?:specifically|including|includes?|showing|such as|with|by|to|that|which|for|namely|as follows|"
    r"the following|key requirements|requirements|where|and|the goal is to|involving|consisting of)$",
    re.I,
)
#: Phrases for no open tasks.
_NONE = lazy_pattern(
    r"none\b|no(?:thing)? (?:explicit|pending|further|outstanding|remaining|open|additional|tasks?|specific)\b", re.I
)
#: Openings of an item that continues the one before it.
_REMEDY = lazy_pattern(r"(?:fix(?:ed)?|solution|resolved|resolution|solved|remedy)(?: by\b|:)", re.I)


def statements_of(text: str) -> list[Statement]:
    """Return the statements of a recap in reading order.

    Of a text without the usual headings, all its items. Statements under 16 characters, the client's frame and "no open tasks"
    are left out; a fix that follows its error is one statement with it.
    """
    begins = _BEGINS.search(text)
    statements: list[Statement] = []
    for s in _iter_statements(text, begins.end() if begins else 0):
        if len(s.text) < _MIN_STATEMENT or _FRAME.match(s.text) or (s.section is RecapSection.OPEN and _NONE.match(s.text)):
            continue
        if (
            statements
            and s.section is statements[-1].section is RecapSection.FIXED
            and _REMEDY.match(s.text)
            and not _REMEDY.search(statements[-1].text)
        ):
            statements[-1] = replace(statements[-1], text=f"{statements[-1].text}; {s.text[0].lower()}{s.text[1:]}", end=s.end)
        else:
            statements.append(replace(s, text=f"{OPEN}{s.text}") if s.section is RecapSection.OPEN else s)
    return statements


def _iter_statements(text: str, offset: int) -> Iterator[Statement]:
    part: RecapSection | None = RecapSection.OTHER
    fenced = False
    #: The line that introduces the items below it, and its indentation.
    lead, depth = "", 0
    block: tuple[int, int] | None = None
    for line in text[offset:].split("\n"):
        bare, start = line.strip(), offset
        offset += len(line) + 1
        if bare.startswith(_FENCE):
            fenced = not fenced
        skipped = fenced or not bare or bare.startswith(_FENCE) or bare[0] in "<|{}"
        heading = None if skipped else _heading_section(line)
        item = None if skipped else _ITEM.match(line)
        if skipped or heading or item:
            if block:
                yield from _block_statement(text, block, part, lead)
            block = None
        if skipped:
            continue
        if heading:
            part, lead = heading[0], ""
            continue
        indent = len(line) - len(line.lstrip())
        if lead and indent <= depth:
            lead = ""
        if bare.endswith((":", ":**")):
            begin = start + (item.end() if item else indent)
            lead, depth = clean_text(text[begin : offset - 1]).rstrip(": "), indent
            if part is RecapSection.ASKED and len(lead) > _MIN_LEAD:
                yield from _lead_statement(text, begin, offset - 1)
            continue
        begin = start + (item.end() if item else indent)
        block = (block[0] if block else begin, start + len(line.rstrip()))
    if block:
        yield from _block_statement(text, block, part, lead)


def _lead_statement(text: str, start: int, end: int) -> Iterator[Statement]:
    statement = clean_text(text[start:end]).rstrip(":* ")
    stop = statement.rfind(". ")
    statement = statement[: stop + 1] if stop > _MIN_LEAD else statement[:-_LEAD_END] + _DANGLING.sub("", statement[-_LEAD_END:])
    yield Statement(RecapSection.ASKED, statement, start, end)


def _heading_section(line: str) -> tuple[RecapSection | None] | None:
    """Return a heading's section in a tuple, (None,) for one that is skipped."""
    match = _HEADING.fullmatch(line.rstrip())
    if not match or not (line.rstrip().endswith((":", "*")) or line.startswith("#")):
        return None
    title = match[1].lower()
    for pattern, part in _HEADINGS:
        if pattern.search(title):
            return (part,)
    # An unknown top-level heading ends the section before it.
    return (RecapSection.OTHER,) if line[0] in "#*" or line[0].isdigit() else None


def _block_statement(text: str, block: tuple[int, int], part: RecapSection | None, lead: str) -> Iterator[Statement]:
    """At most 600 characters of a block are read."""
    if part is None:
        return
    start, end = block
    end = min(end, start + 3 * MAX_STATEMENT)
    statement = clean_text(text[start:end]).rstrip(":")
    if lead and lead.casefold() not in statement.casefold() and len(lead) < 80:
        statement = f"{lead}: {statement}"
    yield Statement(part, statement, start, end)
