"""What the importers of chat clients share: one record's parts in, event drafts out, and the loop over a file of records.

Invariants
1. A source id depends on what a record says alone, and on the place of a part in it; never on the place in the file,
   unless a client's records have neither ids nor times.
2. Leaving thinking out moves no other part's id: thoughts are numbered apart.
3. Parts of a record, and records that share a time, keep their order: events are ordered by their time, so that each
   stands a millisecond behind what it follows. A part without a time stands behind what it follows, too.
4. A resumed read learns what earlier records tell from a bounded look at the head and back, see `_recover`.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Protocol

from memory_mcp.ingest.base import ImportReport, Read
from memory_mcp.ingest.claude_code.blocks import (
    as_mapping,
    as_text,
    call_metadata,
    call_text,
    plain,
    result_metadata,
    result_text,
)
from memory_mcp.ingest.lines import Record, iter_records, iter_tail
from memory_mcp.model.event import FILE_TIME, RECAP, EventDraft, EventType, Role
from memory_mcp.model.ids import digest, encode
from memory_mcp.scope import project_of

#: How far behind the resumed offset earlier records are looked at, bytes, and how many of the head.
_LOOK_BACK = 256 * 1024
_HEAD_RECORDS = 20
#: Bytes of a small file beside a session (its title, directory) that are read.
_BESIDE = 4 * 1024 * 1024
_REMEMBERED = 20_000
#: A time that lies no further behind that of the part before it is taken for the same moment (milliseconds): clients
#: tell seconds, and the parts before may have been moved.
_SAME_MOMENT = 1000
EMPTY = "no content"
THINKING = "thinking"
INJECTED = "injected text"


@dataclass(slots=True)
class Session:
    """Whose records a file holds, and what earlier records told about later ones."""

    agent: str
    id: str
    cwd: str = ""
    branch: str = ""
    remote: str = ""
    model: str = ""
    #: Of the client, or of its format where the client does not tell.
    version: str = ""
    #: The subagent whose file it is.
    thread: str = ""
    #: Whether the subagent has got its task.
    was_asked: bool = False
    #: When the file was written last, UTC milliseconds, as text; "" where records have times of their own.
    file_time: str = ""
    #: Names of tools by the id of their call.
    tools: OrderedDict[str, str] = field(default_factory=OrderedDict)

    #: The time of the part before, where it had one.
    last: int | None = None

    def next_time(self, time_ms: int | None) -> int | None:
        """The time of the next part, which its client says was said at `time_ms`."""
        if self.last is not None and (time_ms is None or self.last - _SAME_MOMENT < time_ms <= self.last):
            time_ms = self.last + 1
        self.last = time_ms if time_ms is not None else self.last
        return time_ms

    def remember(self, call: str, tool: str) -> None:
        """Note which tool a call is of."""
        if call and tool:
            self.tools[call] = tool
            if len(self.tools) > _REMEMBERED:
                self.tools.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Part:
    """One event's worth of a record."""

    role: Role
    type: EventType
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    #: Kept only on request.
    thought: bool = False


@dataclass(slots=True)
class Outcome:
    """What a record gave."""

    #: The same in every file that holds the record, whatever the session is; several parts share it.
    source_id: str = ""
    time: int | None = None
    parts: list[Part] = field(default_factory=list)
    #: Why there is nothing, where there is nothing.
    reason: str = EMPTY
    #: Parts left out, by reason.
    left_out: Counter[str] = field(default_factory=Counter)
    #: Of this record alone.
    metadata: dict[str, str] = field(default_factory=dict)


def skipped(reason: str) -> Outcome:
    """A record that gives nothing."""
    return Outcome(reason=reason)


Joining = Callable[[Iterable[Record]], Iterator[Record]]


class Reading(Protocol):
    """One read of one file."""

    session: Session

    def learn(self, record: dict[str, object]) -> None:
        """Take from one of the first records whose session it is; it may be read again by `observe` and `convert`."""
        ...

    def observe(self, record: dict[str, object]) -> None:
        """Remember what one record tells about later ones."""
        ...

    def convert(self, record: dict[str, object]) -> Outcome:
        """What one record gives."""
        ...


def read_records(
    reading: Reading, file: Path, offset: int, report: ImportReport, thinking: bool, joined: Joining = iter
) -> Iterator[Read]:
    """The reads of a file of records behind an offset: see `Importer.read`. `joined` makes one record of several."""
    _recover(reading, file, offset, joined)
    yield from take(reading, file, joined(iter_records(file, offset)), report, thinking)


def _recover(reading: Reading, file: Path, offset: int, joined: Joining) -> None:
    """Let a reading learn from the head of the file, and observe what lies there and shortly before an offset."""
    for record in islice(iter_records(file), _HEAD_RECORDS):
        reading.learn(record.value)
        if record.offset <= offset and not record.error:
            reading.convert(record.value)
            reading.observe(record.value)
    before = takewhile(lambda record: record.offset <= offset, iter_tail(file, offset, _LOOK_BACK) if offset else ())
    for record in joined(before):
        if not record.error:
            drafts_of(reading.convert(record.value), reading.session, thinking=True)
            reading.observe(record.value)


def join(records: Iterable[Record], key: Callable[[Record], str], text: Callable[[Record], str]) -> Iterator[Record]:
    """Records, those that follow each other with one key that is not "" made one, whose text stands under `joined`.

    They count as one record. What stands at the end of the file is told as it is: nothing may follow it any more.
    """
    pieces: list[str] = []
    open_one: Record | None = None
    for record in records:
        told = "" if record.error else key(record)
        if open_one is not None and told and told == key(open_one):
            open_one = replace(open_one, offset=record.offset)
            pieces.append(text(record))
            continue
        if open_one is not None:
            yield replace(open_one, value={**open_one.value, "joined": "".join(pieces)})
            open_one = None
        if told:
            open_one, pieces = record, [text(record)]
        else:
            yield record
    if open_one is not None:
        yield replace(open_one, value={**open_one.value, "joined": "".join(pieces)})


def take(reading: Reading, file: Path, records: Iterable[Record], report: ImportReport, thinking: bool) -> Iterator[Read]:
    """The reads of records, each counted and, where it gives nothing, quoted under its reason."""
    for record in records:
        report.lines += 1
        drafts: tuple[EventDraft, ...] = ()
        reason = record.error
        if not reason:
            outcome = reading.convert(record.value)
            reading.observe(record.value)
            drafts = drafts_of(outcome, reading.session, thinking)
            reason = outcome.reason
            if drafts:
                report.left_out.update(+outcome.left_out)
            else:
                reason = next(iter(+outcome.left_out), reason)
        if drafts:
            report.lines_used += 1
        else:
            report.skip(reason, file, record.line, record.quote)
        yield Read(drafts, record.offset)


def drafts_of(outcome: Outcome, session: Session, thinking: bool) -> tuple[EventDraft, ...]:
    """The drafts of a record's parts that say something."""
    drafts, number, thoughts = [], 0, 0
    for part in outcome.parts:
        suffix = f"#t{thoughts}" if part.thought else f"#{number}" if number else ""
        number, thoughts = number + (not part.thought), thoughts + part.thought
        if not part.text.strip():
            outcome.left_out[THINKING] += part.thought
            continue
        time_ms = session.next_time(outcome.time)
        if part.thought and not thinking:
            outcome.left_out[THINKING] += 1
        else:
            drafts.append(_draft(part, suffix, time_ms, outcome, session))
    return tuple(drafts)


def _draft(part: Part, suffix: str, time_ms: int | None, outcome: Outcome, session: Session) -> EventDraft:
    common = {
        "branch": session.branch,
        "cwd": session.cwd,
        "version": session.version,
        "model": session.model if part.role is Role.ASSISTANT else "",
        FILE_TIME: session.file_time if time_ms is None else "",
        "time": "inferred" if outcome.time is None and time_ms is not None else "",
    }
    return EventDraft(
        session_id=session.id,
        role=part.role,
        type=part.type,
        text=part.text,
        timestamp=time_ms,
        source_id=outcome.source_id + suffix,
        agent=session.agent,
        project=project_of(session.cwd, session.remote),
        thread=session.thread,
        metadata={k: v for k, v in (*common.items(), *outcome.metadata.items(), *part.metadata.items()) if v},
    )


def prompted(text: str) -> Part:
    """What the human typed."""
    return Part(Role.USER, EventType.USER_MESSAGE, text.strip())


def asked(session: Session, text: str) -> Part:
    """What stands in the user's place: the human's words, or in a subagent's file those of the agent that calls it."""
    if not session.thread:
        return prompted(text)
    kind = EventType.NOTE if session.was_asked else EventType.SUBAGENT_START
    session.was_asked = True
    return Part(Role.ASSISTANT, kind, text.strip())


def spoken(text: str) -> Part:
    """What the model answered."""
    return Part(Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, text.strip())


def thought(text: str) -> Part:
    """What the model thought."""
    return Part(Role.ASSISTANT, EventType.NOTE, text.strip(), {"record": THINKING}, thought=True)


def told(text: str, record: str) -> Part:
    """What the client said: neither human nor model."""
    return Part(Role.SYSTEM, EventType.NOTE, text.strip(), {"record": record})


def retold(text: str, record: str) -> Part:
    """A summary by which the client's model replaced a part of the conversation."""
    return Part(Role.SYSTEM, EventType.NOTE, text.strip(), {"record": record, RECAP: "true"})


def called(session: Session, tool: str, arguments: object, call: str) -> Part:
    """A tool call; arguments may be JSON in a text."""
    given = as_arguments(arguments)
    tool = tool or "tool"
    session.remember(call, tool)
    return Part(Role.ASSISTANT, EventType.TOOL_CALL, call_text(tool, given), call_metadata(tool, given) | {"tool_use_id": call})


def returned(session: Session, content: object, call: str, tool: str = "", error: bool = False, details: object = None) -> Part:
    """A tool's result: its content in any form that `result_text` takes."""
    text = result_text(content, None)
    metadata = {"tool": tool or session.tools.get(call, ""), "tool_use_id": call} | result_metadata(text, error, details)
    return Part(Role.TOOL, EventType.TOOL_RESULT, text or "(no output)", metadata)


def as_arguments(value: object) -> object:
    """A call's arguments as an object, where they are one or a text of one; else under the name `input`."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        value = parsed if isinstance(parsed, Mapping) else {"input": value} if value.strip() else {}
    return value


def text_of(block: Mapping[str, object]) -> str:
    """A block as text, see `plain`; an image that names its type in another place is named by it too."""
    if block.get("type") in ("image", "image_url", "input_image"):
        source = as_mapping(block.get("source"))
        media = as_text(source.get("media_type")) or as_text(block.get("mimeType")) or as_text(block.get("mime_type"))
        return f"[image {media}]" if media else "[image]"
    return plain(block)


def content_id(*values: object) -> str:
    """An id of what a record says, the same in every file that holds it."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return "content:" + encode(digest("record", text), 16)


def file_time(file: Path) -> str:
    """When a file was written last, UTC milliseconds, as text."""
    return str(int(file.stat().st_mtime * 1000))


def beside(path: Path) -> object:
    """The JSON of a small file that lies beside a session; None when there is none or it is no JSON."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(_BESIDE + 1)
        return json.loads(raw) if len(raw) <= _BESIDE else None
    except (OSError, ValueError, RecursionError):
        return None
