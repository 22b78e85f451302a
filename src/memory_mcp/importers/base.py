"""The protocol of an importer, and the report of an import.

Change here: read a new transcript format.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import EventDraft

#: Bytes of a file by which its kind is recognised.
BEGINNING = 256 * 1024
#: Quoted lines kept per reason; the counts are always complete.
QUOTES_PER_REASON = 3
#: Characters of a skipped line that are quoted.
QUOTE_WIDTH = 160
#: Distinct reasons kept; reasons may carry words of the input, and the input may be anything.
MAX_REASONS = 100
#: Why the records of a session that our summarizer had give nothing.
OWN_SESSION = "the summarizer's own session"
#: The reason that replaces all further ones.
OTHER = "other reasons"


@dataclass(frozen=True, slots=True)
class Quote:
    """The beginning of a skipped record; line 0 is the whole file."""

    file: str
    line: int
    text: str


@dataclass(slots=True)
class ImportReport:
    """Counts of what an import read, stored, knew and left out.

    Counts are of events unless named otherwise. Every record read either gave events or was skipped: `lines == lines_used +
    skipped.total()`.
    """

    files: int = 0
    files_unchanged: int = 0
    #: Files that could not be opened or read to their end; quoted under "unreadable file".
    files_failed: int = 0
    #: Records read: lines, or JSON values where a value spans lines or a line holds several. Blank lines do not count.
    lines: int = 0
    #: Records that gave at least one event.
    lines_used: int = 0
    bytes: int = 0
    new: int = 0
    known: int = 0
    #: Older events were not read because only the newest were requested.
    cut: bool = False
    #: Records (lines) that gave nothing, by reason.
    skipped: Counter[str] = field(default_factory=Counter)
    #: Parts left out of records that gave events (thinking, injected reminders), by reason.
    left_out: Counter[str] = field(default_factory=Counter)
    #: Parts of kinds that no reader knows, kept as notes, by kind.
    unknown: Counter[str] = field(default_factory=Counter)
    #: Events the gate refused, by reason.
    dropped: Counter[str] = field(default_factory=Counter)
    quotes: dict[str, list[Quote]] = field(default_factory=dict)
    #: Secrets replaced, by rule.
    redacted: Counter[str] = field(default_factory=Counter)
    #: Seconds by stage: read, redact, store.
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def skip_record(self, reason: str, file: Path | str, line: int, text: str) -> None:
        """Count a record left out; quote 3 of a reason.

        After `MAX_REASONS` reasons new ones count as `OTHER`.
        """
        if reason not in self.skipped and len(self.skipped) >= MAX_REASONS:
            reason = OTHER
        self.skipped[reason] += 1
        self.add_quote(reason, file, line, text)

    def add_report(self, other: "ImportReport") -> None:
        """Add another part's counts, reasons, quotes and times, within the same bounds."""
        for name in ("files", "files_unchanged", "files_failed", "lines", "lines_used", "bytes", "new", "known"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cut |= other.cut
        for reason, count in other.skipped.items():
            full = reason not in self.skipped and len(self.skipped) >= MAX_REASONS
            self.skipped[OTHER if full else reason] += count
        for reason, several in other.quotes.items():
            full = reason in other.skipped and reason not in self.skipped
            reason_quotes = self.quotes.setdefault(OTHER if full else reason, [])
            reason_quotes += several[: QUOTES_PER_REASON - len(reason_quotes)]
        self.left_out.update(other.left_out)
        self.unknown.update(other.unknown)
        self.dropped.update(other.dropped)
        self.redacted.update(other.redacted)
        for stage, seconds in other.seconds.items():
            self.seconds[stage] += seconds

    def add_failure(self, file: Path | str, reason: str) -> None:
        """Count and quote a file that could not be read."""
        self.files_failed += 1
        self.add_quote("unreadable file", file, 0, reason)

    def add_quote(self, reason: str, file: Path | str, line: int, text: str) -> None:
        """Keep the first 160 characters of a text, as one line.

        At most `QUOTES_PER_REASON` of a reason are kept.
        """
        reason_quotes = self.quotes.setdefault(reason, [])
        if len(reason_quotes) < QUOTES_PER_REASON:
            reason_quotes.append(Quote(str(file), line, " ".join(text[: 4 * QUOTE_WIDTH].split())[:QUOTE_WIDTH]))


@dataclass(frozen=True, slots=True)
class ReadStep:
    """The drafts of one record, and the offset after it."""

    drafts: tuple[EventDraft, ...]
    #: Byte offset after the record; the start of the enclosing JSON array where there is one. What it counts in a source
    #: that is not `Growth.APPENDED` is the importer's own business.
    offset: int


class Growth(Enum):
    """How a source changes, and so where reading continues."""

    #: Lines are added at the end: reading continues after the last record, unless the beginning is another.
    APPENDED = "appended"
    #: Rewritten as a whole: a changed file is read again from its start, and known events are recognised by their ids.
    REWRITTEN = "rewritten"
    #: A database: reading continues after the importer's own position (say, the highest row it has seen).
    DATABASE = "database"


class Importer(Protocol):
    """Reads one kind of source.

    The same file gives the same source ids on every read, from any offset.
    """

    name: str
    #: What people call the client or the form.
    title: str
    growth: Growth

    def default_paths(self) -> tuple[Path, ...]:
        """Return the usual paths of such sources; they may be missing."""
        ...

    def iter_files(self, path: Path) -> Iterator[Path]:
        """Return the files to read at `path`, in a fixed order.

        Raises SourceUnreadable if there is nothing at `path`.
        """
        ...

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether name and first `BEGINNING` bytes show this kind.

        Nothing is opened. True only where it can be told from every other kind: importers are asked in the registry's order,
        the general forms last.
        """
        ...

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each record from an offset on, streaming.

        A record that gives no draft moves the offset too. A last line without a line feed is left until it is complete. Odd
        records are counted and quoted in the report, never raised. Raises OSError when the file cannot be read. A source of
        `Growth.REWRITTEN` is always read from 0.
        """
        ...
