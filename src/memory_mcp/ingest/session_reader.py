"""Read session files that grow record by record, in any client's form.

Invariants
1. Events of one file never share a millisecond where their records follow each other at once: they are ordered by time.
2. What a read needs of the part before its offset comes from the head of the file and a bounded look back.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from memory_mcp.base.scope import project_of_session
from memory_mcp.ingest.base import Growth, ImportReport, ReadStep
from memory_mcp.ingest.claude_code.reader import OWN_SESSION
from memory_mcp.ingest.client_importer import ClientImporter
from memory_mcp.ingest.json_records import Record, first_values, iter_records, iter_tail
from memory_mcp.ingest.parts import (
    EMPTY,
    Part,
    Session,
    as_plain,
    call_part,
    file_time,
    folder_in,
    origin_in,
    separate_prompts,
    thought_part,
)
from memory_mcp.ingest.wrappers import find_author
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.sentinel import opens_own_session

UNKNOWN = "unknown kind of record"
DUPLICATE = "told by another record"
#: How far behind the resumed offset records are looked at again (bytes), and how many of the head.
LOOK_BACK = 256 * 1024
_HEAD_RECORDS = 50
_REMEMBERED = 20_000
#: Records this close (milliseconds) keep the order of the file, even against their times.
_TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class RecordItem:
    """One item of a record, with the client's own id for it."""

    source_id: str
    parts: tuple[Part, ...]
    #: UTC milliseconds; None when it has none.
    time: int | None


@dataclass(slots=True)
class ParsedRecord:
    """The items of one record, or the reason why there are none."""

    items: list[RecordItem] = field(default_factory=list)
    skip_reason: str = EMPTY


class SessionReader:
    """State of reading one session; each client's subclass converts its records."""

    def __init__(self, agent: str, session_id: str, thinking: bool, thread: str = "") -> None:
        """Begin a session; `thinking` keeps the model's thoughts, `thread` is the id of a subagent, "" for none."""
        self.session = Session(agent, session_id, thread=thread)
        self._thinking = thinking
        self.cwd = self.remote = self.branch = self.version = self.model = ""
        #: The folder that the session's worktree was made from; "" where nothing says so.
        self.origin = ""
        #: Names of tools by the id of their call.
        self.tools: OrderedDict[str, str] = OrderedDict()
        #: The first prompt of the session, if the head of the file has it.
        self.prompt = ""
        #: The byte offset at which reading goes on.
        self.offset = 0
        self._last_time: int | None = None

    def learn_from(self, record: dict[str, object]) -> None:
        """Learn about the session from one of the file's first 50 records, before `give` is called; nothing unless overridden."""

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return what one record gives, and keep what it says about later ones. Raises NotImplementedError unless overridden."""
        raise NotImplementedError

    def read_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return what one record gives (`give`), with the person's words alone as hers."""
        return self.separate_prompts(self.parse_record(record), record)

    def separate_prompts(self, parsed_record: ParsedRecord, record: Mapping[str, object]) -> ParsedRecord:
        """Return what a record gave with the person's words alone as hers, see `separate_prompts`."""
        for number, item in enumerate(parsed_record.items):
            if (parts := separate_prompts(item.parts, record, self.author_of)) is not item.parts:
                parsed_record.items[number] = replace(item, parts=parts)
        return parsed_record

    def author_of(self, record: Mapping[str, object]) -> str:
        """Return who wrote a record in the person's place, "" for the person; by its fields, unless overridden."""
        return find_author(record)

    def order_time(self, time: int | None) -> int | None:
        """Return a record's time, moved to a millisecond after the last one if it is the same or less than a second earlier.

        A time that is earlier by more is believed; None stays None. The result is kept as the last one.
        """
        if time is not None and self._last_time is not None and self._last_time - _TOGETHER < time <= self._last_time:
            time = self._last_time + 1
        self._last_time = time if time is not None else self._last_time
        return time

    def remember_call(self, call_id: str, tool: str) -> None:
        """Note which tool a call is of, for its result; the last 20,000 are kept. Does nothing where either is ""."""
        if call_id and tool:
            self.tools[call_id] = tool
            if len(self.tools) > _REMEMBERED:
                self.tools.popitem(last=False)

    def make_thought(self, text: str) -> Part:
        """Return the model's thinking as a note, marked as left out unless the settings keep thinking."""
        return thought_part(text, self._thinking)

    def make_call(self, tool: str, arguments: object, call_id: str) -> Part:
        """Return a tool call, and note the name of its tool for its result; `arguments` are an object or its JSON as text."""
        self.remember_call(call_id, tool)
        return call_part(tool, arguments, call_id)

    def make_drafts(self, item: RecordItem) -> list[EventDraft]:
        """Return the drafts of one item, with the session's directory, branch, version, project and, for the model's, model.

        The project follows from directory and remote; the time of the last draft is kept for `ordered`.
        """
        # Its own time counts: what came before has been seen to by `ordered`.
        self.session.last_time = None
        self.session.project = project_of_session(self.cwd, self.remote, self.branch, self.origin)
        common = {"branch": self.branch, "cwd": self.cwd, "version": self.version}
        if any(part.role is Role.ASSISTANT for part in item.parts):
            common["model"] = self.model
        drafts = self.session.make_drafts(item.parts, item.source_id, item.time, common)
        self._last_time = (
            max(self._last_time or 0, self.session.last_time) if self.session.last_time is not None else self._last_time
        )
        return drafts


class GrowingImporter(ABC, ClientImporter):
    """Base of importers of files of lines that grow, known by their records."""

    growth = Growth.APPENDED

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.jsonl` file is this client's: one of its first records is."""
        return file.suffix == ".jsonl" and any(map(self.is_own_record, first_values(beginning)))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Return a step for each record behind the byte offset: its drafts, and the offset to go on from once they are stored.

        Records without an event give no drafts and are counted in `report`. Raises OSError when the file cannot be read.
        """
        return read_appended(self.make_reader(file), file, offset, report)

    @staticmethod
    @abstractmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        """Return whether a record has this client's form, which no other client's record has."""

    @abstractmethod
    def make_reader(self, file: Path) -> SessionReader:
        """Return the state with which the reading of a file begins."""


def read_appended(reading: SessionReader, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
    """Yield a step for each record behind a byte offset: its drafts, and the offset to go on from once they are stored.

    Records without an event, and all of a session of our own summarizer, give no drafts and are counted in `report` with
    the reason. The first 50 records and the last 256 KB before the offset are read again, to learn from. Raises OSError
    when the file cannot be read.
    """
    reading.offset = offset
    folder = ""
    for record in islice(iter_records(file), _HEAD_RECORDS):
        reading.learn_from(record.value)
        folder = folder or folder_in(record.value)
        reading.origin = reading.origin or origin_in(record.value)
    reading.cwd = reading.cwd or folder
    for record in iter_tail(file, offset, LOOK_BACK) if offset else ():
        if record.offset > offset:
            break
        for item in reading.read_record(record.value).items if not record.error else ():
            reading.make_drafts(item)
    is_own = opens_own_session(reading.prompt)
    for record in iter_records(file, offset):
        parsed_record = (
            ParsedRecord(skip_reason=record.error or OWN_SESSION) if record.error or is_own else reading.read_record(record.value)
        )
        yield ReadStep(count_record(reading, parsed_record, report, file, record.line, record.quote), record.offset)


def read_records(reading: SessionReader, file: Path, records: Iterable[Record], report: ImportReport) -> Iterator[ReadStep]:
    """Yield the drafts and the own offset of each record of a file read from its start; `report` counts them, used or skipped."""
    for record in records:
        parsed_record = ParsedRecord(skip_reason=record.error) if record.error else reading.read_record(record.value)
        yield ReadStep(count_record(reading, parsed_record, report, file, record.line, record.quote), record.offset)


def count_record(
    reading: SessionReader, parsed_record: ParsedRecord, report: ImportReport, file: Path, line: int, quote: object
) -> tuple[EventDraft, ...]:
    """Return the drafts of what one record gave, and count it in the report: one line, used, or skipped with its reason.

    The reason is that of the first part left out, else `given.reason`; parts left out are counted for a record that is
    used. `quote` is the record, or the beginning of its text.
    """
    if not reading.session.file_time and any(item.time is None for item in parsed_record.items):
        # Without any time in the session, that of its file is nearer the truth than that of the import.
        reading.session.file_time = file_time(file)
    drafts = tuple(draft for item in parsed_record.items for draft in reading.make_drafts(item))
    parts = [part for item in parsed_record.items for part in item.parts if part.left_out or part.unknown]
    left_out = [part.left_out for part in parts if part.left_out]
    report.lines += 1
    if drafts:
        report.lines_used += 1
        if parts:
            report.left_out.update(left_out)
            report.unknown.update(part.unknown for part in parts if part.unknown)
    else:
        report.skip_record(next(iter(left_out), parsed_record.skip_reason), file, line, as_plain(quote))
    return drafts
