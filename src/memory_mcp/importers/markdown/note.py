"""Parse a Markdown note line by line into front matter and sections; independent of events.

Read are headings of the first three levels (`#` to `###`, outside fenced code) and front matter between `---` lines, of
which `key: value`, `key: [a, b]` and lists below a key are understood: what notes programs write.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.json_records import parse_time

#: Characters of one section that are kept together; what is longer goes on in another.
MAX_SECTION = 512 * 1024
_MAX_FRONT = 400
_HEADING = re.compile(r"(#{1,3})[ \t]+(.*?)[ \t]*#*[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ENTRY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?\Z")
_ITEM = re.compile(r"\s*-[ \t]+(.*)\Z")
#: A line of a block: an entry, an item or what goes on indented, a comment, nothing.
_FRONT_LINE = re.compile(rf"{_ENTRY.pattern}|{_ITEM.pattern}|[ \t]|#|\Z")
#: A day, perhaps with a time, at the beginning of a file's name or of a heading.
_DATED = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?))?(?!\d)")
#: Keys with the time of a note, the most reliable first.
DATE_KEYS = ("date", "created", "created_at", "date created", "creation date", "createdat", "day")
_HALF_A_DAY_MS = 43_200_000


@dataclass(slots=True)
class Section:
    """A heading and the text below it."""

    #: The headings above it and its own, outermost first.
    headings: tuple[str, ...]
    #: Number of the line it begins on, from 1.
    line: int
    lines: list[str] = field(default_factory=list)
    chars: int = 0

    @property
    def text(self) -> str:
        """The heading and the words of the note."""
        return "\n".join(self.lines).strip()

    @property
    def has_words(self) -> bool:
        """Whether there is any text below its headings."""
        return any(line.strip() and not _HEADING.match(line) for line in self.lines)


def front_matter(lines: list[str]) -> tuple[dict[str, list[str]], int]:
    """Return a note's front matter by lower-case key, and its lines.

    ({}, 0) if there is none. Blocks that follow each other, as programs put theirs before a note's own, are one; of a key in
    two, the later counts. Front matter of more than 400 lines is none.
    """
    entries, end = _front_block(lines, 0)
    while end:
        start = next((at for at in range(end, len(lines)) if lines[at].strip()), len(lines))
        further, next_end = _front_block(lines, start)
        # A line of dashes may part what follows from the note: between two of them only entries are front matter.
        if not further or not all(map(_FRONT_LINE.match, lines[start + 1 : next_end - 1])):
            break
        entries |= further
        end = next_end
    return entries, end


def _front_block(lines: list[str], start: int) -> tuple[dict[str, list[str]], int]:
    """Return a block's entries and end; ({}, 0) for none."""
    if start >= len(lines) or lines[start].strip() != "---":
        return {}, 0
    entries: dict[str, list[str]] = {}
    key = ""
    for number, line in enumerate(lines[start + 1 : _MAX_FRONT], start + 2):
        if line.strip() in ("---", "..."):
            return entries, number
        if match := _ENTRY.match(line):
            key = match[1].strip().lower()
            text = (match[2] or "").strip()
            if text.startswith("[") and text.endswith("]") and not text.startswith("[["):
                entries[key] = [value for piece in text[1:-1].split(",") if (value := _unquote(piece))]
            else:
                entries[key] = [_unquote(text)] if text else []
        elif key and (match := _ITEM.match(line)):
            entries[key].append(_unquote(match[1]))
    return {}, 0


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def iter_sections(lines: Iterable[str], first: int) -> Iterator[Section]:
    """Yield the sections of a note; `first` numbers the first line.

    A heading without words joins the next section; one of more than 512 KB continues in another.
    """
    path: list[tuple[int, str]] = []
    now, fence = Section((), first), ""
    for number, line in enumerate(lines, first):
        if match := _FENCE.match(line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1]
        heading = None if fence else _HEADING.match(line)
        if heading or now.chars > MAX_SECTION:
            if now.has_words:
                yield now
                now = Section(now.headings, number)
            if heading:
                path = [*((level, name) for level, name in path if level < len(heading[1])), (len(heading[1]), heading[2])]
                now.headings = tuple(name for _, name in path)
        now.lines.append(line)
        now.chars += len(line) + 1
    if now.text:
        yield now


def time_of(text: str) -> int | None:
    """Return the time that a text states (UTC ms).

    Noon for a day alone: noon in UTC is the same day nearly everywhere, midnight is the day before in half of the world. None
    where it begins with no day.
    """
    day = _DATED.match(text.strip())
    if day is None:
        return None
    if day.end() == len(text.strip()) and not day[4]:
        return _noon_of(day)
    return parse_time(text.strip().replace(" ", "T", 1)) or parse_time(text.strip()) or _noon_of(day)


def day_of(text: str) -> int | None:
    """Return noon (UTC ms) of the day that a text begins with."""
    day = _DATED.match(text.strip().strip("[]"))
    return _noon_of(day) if day else None


def _noon_of(day: re.Match[str]) -> int | None:
    try:
        moment = dt.datetime(int(day[1]), int(day[2]), int(day[3]), tzinfo=dt.UTC)
    except ValueError:
        return None
    return int(moment.timestamp() * 1000) + _HALF_A_DAY_MS
