"""Read session files that grow record by record, in any client's form.

Invariants
1. Events of one file never share a millisecond where their records follow each other at once: they are ordered by time.
2. What a read needs of the part before its offset comes from the head of the file and a bounded look back.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.scope import project_of_session
from memory_mcp.importers.base import OWN_SESSION, Growth, ImportReport, ReadStep
from memory_mcp.importers.client_importer import ClientImporter
from memory_mcp.importers.json_records import Record, first_values, iter_records, iter_tail
from memory_mcp.importers.parts import (
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
from memory_mcp.importers.wrappers import find_author
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.sentinel import opens_own_session

UNKNOWN = "unknown kind of record"
DUPLICATE = "told by another record"
#: How far before the resumed offset records are looked at again (bytes), and how many of the head.
LOOK_BACK = 256 * 1024
_HEAD_RECORDS = 50
_REMEMBERED = 20_000
#: Records this close (milliseconds) keep the order of the file, even against their times.
_TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class RecordItem:
    """One item of a record, with the client's own id."""

    source_id: str
    parts: tuple[Part, ...]
    #: UTC milliseconds; None when it has none.
    time: int | None


@dataclass(slots=True)
class ParsedRecord:
    """The items of one record, or why there are none."""

    items: list[RecordItem] = field(default_factory=list)
    skip_reason: str = EMPTY


class SessionReader:
    """State of reading one session; subclasses convert its records."""

    def __init__(self, agent: str, session_id: str, thinking: bool, thread: str = "") -> None:
        """Begin a session.

        `thinking` keeps the model's thoughts, `thread` is the id of a subagent, "" for none.
        """
        self.session = Session(agent, session_id, thread=thread)
        self._thinking = thinking
        self.cwd = self.remote = self.branch = self.version = self.model = ""
        #: The folder that the session's worktree was made from; "" where nothing says so.
        self.worktree_origin = ""
        #: Names of tools by the id of their call.
        self.tool_names: OrderedDict[str, str] = OrderedDict()
        #: The first prompt of the session, if the head of the file has it.
        self.first_prompt = ""
        #: The byte offset at which reading goes on.
        self.resume_offset = 0
        self._last_time: int | None = None

    def learn_from(self, record: dict[str, object]) -> None:
        """Learn from one of the first 50 records, before any is parsed."""

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return a record's items; keep what it says about later ones."""
        raise NotImplementedError

    def read_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return a record's items with the person's words alone as hers."""
        return self.separate_prompts(self.parse_record(record), record)

    def separate_prompts(self, parsed_record: ParsedRecord, record: Mapping[str, object]) -> ParsedRecord:
        """Separate the person's words in items, see `parts.separate_prompts`."""
        for number, item in enumerate(parsed_record.items):
            if (parts := separate_prompts(item.parts, record, self.author_of)) is not item.parts:
                parsed_record.items[number] = replace(item, parts=parts)
        return parsed_record

    def author_of(self, record: Mapping[str, object]) -> str:
        """Return who wrote in the person's place; "" for the person."""
        return find_author(record)

    def order_time(self, time: int | None) -> int | None:
        """Return a record's time, at least a millisecond after the last.

        A time that is earlier by more than a second is believed; None stays None. The result is kept as the last one.
        """
        if time is not None and self._last_time is not None and self._last_time - _TOGETHER < time <= self._last_time:
            time = self._last_time + 1
        self._last_time = time if time is not None else self._last_time
        return time

    def remember_call(self, call_id: str, tool: str) -> None:
        """Note a call's tool for its result; keep the last 20,000."""
        if call_id and tool:
            self.tool_names[call_id] = tool
            if len(self.tool_names) > _REMEMBERED:
                self.tool_names.popitem(last=False)

    def make_thought(self, text: str) -> Part:
        """Return the model's thinking, left out unless settings keep it."""
        return thought_part(text, self._thinking)

    def make_call(self, tool: str, arguments: object, call_id: str) -> Part:
        """Return a tool call, and note its name for the result."""
        self.remember_call(call_id, tool)
        return call_part(tool, arguments, call_id)

    def make_drafts(self, item: RecordItem) -> list[EventDraft]:
        """Return the drafts of one item with the session's metadata.

        The project follows from directory and remote; the time of the last draft is kept for `order_time`.
        """
        # Its own time counts: what came before was handled by `order_time`.
        self.session.last_time = None
        self.session.project = project_of_session(self.cwd, self.remote, self.branch, self.worktree_origin)
        common = {"branch": self.branch, "cwd": self.cwd, "version": self.version}
        if any(part.role is Role.ASSISTANT for part in item.parts):
            common["model"] = self.model
        drafts = self.session.make_drafts(item.parts, item.source_id, item.time, common)
        self._last_time = (
            max(self._last_time or 0, self.session.last_time) if self.session.last_time is not None else self._last_time
        )
        return drafts


class GrowingImporter(ABC, ClientImporter):
    """Base of importers of files of lines that grow."""

    growth = Growth.APPENDED
    #: Makes the state with which the reading of a file begins, of the file and whether thinking is kept.
    reader: ClassVar[type[Any]]

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether one of the first records is this client's."""
        return file.suffix == ".jsonl" and any(map(self.is_own_record, first_values(beginning)))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Return a step for each record after the byte offset."""
        return read_appended(self.make_reader(file), file, offset, report)

    @staticmethod
    @abstractmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        """Return whether only this client's records have this form."""

    def make_reader(self, file: Path) -> SessionReader:
        """Return the state with which the reading of a file begins."""
        reader: SessionReader = self.reader(file, self._settings.include_thinking)
        return reader


def read_appended(reader: SessionReader, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
    """Yield a step for each record after a byte offset.

    Records without an event, and all of a session of our own summarizer, give no drafts and are counted in `report`. The first
    50 records and the last 256 KB before the offset are read again, to learn from. Raises OSError when the file cannot be read.
    """
    reader.resume_offset = offset
    folder = ""
    for record in islice(iter_records(file), _HEAD_RECORDS):
        reader.learn_from(record.value)
        folder = folder or folder_in(record.value)
        reader.worktree_origin = reader.worktree_origin or origin_in(record.value)
    reader.cwd = reader.cwd or folder
    for record in iter_tail(file, offset, LOOK_BACK) if offset else ():
        if record.offset > offset:
            break
        for item in reader.read_record(record.value).items if not record.error else ():
            reader.make_drafts(item)
    is_own = opens_own_session(reader.first_prompt)
    for record in iter_records(file, offset):
        parsed_record = (
            ParsedRecord(skip_reason=record.error or OWN_SESSION) if record.error or is_own else reader.read_record(record.value)
        )
        yield ReadStep(count_record(reader, parsed_record, report, file, record.line, record.quote), record.offset)


def read_records(reader: SessionReader, file: Path, records: Iterable[Record], report: ImportReport) -> Iterator[ReadStep]:
    """Yield a step for each record of a whole file."""
    for record in records:
        parsed_record = ParsedRecord(skip_reason=record.error) if record.error else reader.read_record(record.value)
        yield ReadStep(count_record(reader, parsed_record, report, file, record.line, record.quote), record.offset)


def count_record(
    reader: SessionReader, parsed_record: ParsedRecord, report: ImportReport, file: Path, line: int, quote: object
) -> tuple[EventDraft, ...]:
    """Return a record's drafts, and count it in the report.

    The reason of a skipped one is that of the first part left out, else `skip_reason`. `quote` is the record, or the beginning
    of its text.
    """
    if not reader.session.file_time and any(item.time is None for item in parsed_record.items):
        # Without any time in the session, that of its file is nearer the truth than that of the import.
        reader.session.file_time = file_time(file)
    drafts = tuple(draft for item in parsed_record.items for draft in reader.make_drafts(item))
    parts = [part for item in parsed_record.items for part in item.parts if part.left_out or part.unknown_kind]
    left_out = [part.left_out for part in parts if part.left_out]
    report.lines += 1
    if drafts:
        report.lines_used += 1
        if parts:
            report.left_out.update(left_out)
            report.unknown.update(part.unknown_kind for part in parts if part.unknown_kind)
    else:
        report.skip_record(next(iter(left_out), parsed_record.skip_reason), file, line, as_plain(quote))
    return drafts
