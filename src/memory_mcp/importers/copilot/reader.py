"""Importer of Copilot CLI's session files.

Older versions kept one JSON object a session: messages without times, and a timeline with them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers.base import OWN_SESSION, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_mapping, as_mappings, as_text, words_of
from memory_mcp.importers.copilot.events import AGENT, CopilotReader
from memory_mcp.importers.json_records import iter_records
from memory_mcp.importers.parts import EMPTY, Part, left_out_part, message_part, result_part
from memory_mcp.importers.session_reader import UNKNOWN, GrowingImporter, ParsedRecord, RecordItem, count_record, read_records
from memory_mcp.importers.times import parse_time
from memory_mcp.importers.wrappers import INJECTED, unwrap_prompt, without_ansi
from memory_mcp.model.event import Role
from memory_mcp.model.sentinel import opens_own_session


def iter_messages(session: Mapping[str, object], reader: CopilotReader) -> Iterator[tuple[Mapping[str, object], ParsedRecord]]:
    """Yield (message, what it gives) of an older session, in order.

    A message's id follows from the session and its position in the list. Takes over the session's id.
    """
    session_id = as_text(session.get("sessionId")) or reader.session.session_id
    reader.session.session_id = session_id
    times = _MessageTimes(session)
    for number, message in enumerate(as_mappings(session.get("chatMessages"))):
        parts = list(_iter_parts(message, reader))
        if not parts:
            yield (
                message,
                ParsedRecord(skip_reason=UNKNOWN if message.get("role") not in ("user", "assistant", "tool") else EMPTY),
            )
            continue
        events = []
        for position, part in enumerate(parts):
            key = part.metadata.get("tool_use_id", "")
            source_id = (
                f"{key}#result"
                if part.role is Role.TOOL
                else key or f"{session_id}:{number}" + (f"#{position}" if position else "")
            )
            events.append(RecordItem(source_id, (part,), times.next_time(part)))
        yield message, ParsedRecord(events)


def _iter_parts(message: Mapping[str, object], reader: CopilotReader) -> Iterator[Part]:
    role, text = message.get("role"), words_of(message.get("content"))
    if role in ("system", "developer"):
        yield left_out_part(INJECTED)
    elif role == "user":
        reader.first_prompt = reader.first_prompt or unwrap_prompt(text)[0].text
        yield message_part(Role.USER, text)
    elif role == "tool":
        call_id = as_text(message.get("tool_call_id"))
        yield result_part(reader.tool_names.get(call_id, ""), call_id, without_ansi(text))
    elif role == "assistant":
        if text.strip():
            yield message_part(Role.ASSISTANT, text)
        for tool_call in as_mappings(message.get("tool_calls")):
            function, call_id = as_mapping(tool_call.get("function")), as_text(tool_call.get("id"))
            yield reader.make_call(as_text(function.get("name")), function.get("arguments"), call_id)


class _MessageTimes:
    def __init__(self, session: Mapping[str, object]) -> None:
        self._last_time = parse_time(session.get("startTime"))
        self._message_times: defaultdict[str, list[int]] = defaultdict(list)
        self._call_times: dict[str, int] = {}
        for entry in reversed(as_mappings(session.get("timeline"))):
            kind, time = as_text(entry.get("type")), parse_time(entry.get("timestamp"))
            if time is not None and kind in ("user", "copilot"):
                self._message_times[kind].append(time)
            elif time is not None and (call_id := as_text(entry.get("callId"))):
                self._call_times[call_id] = time

    def next_time(self, part: Part) -> int | None:
        """Return the next part's time (UTC ms), and use it up."""
        part_time = None
        if key := part.metadata.get("tool_use_id", ""):
            part_time = self._call_times.get(key)
        elif times := self._message_times["user" if part.role is Role.USER else "copilot"]:
            part_time = times.pop() if not part.left_out else None
        if self._last_time is not None:
            part_time = max(part_time or 0, self._last_time + 1)
        self._last_time = part_time
        return part_time


#: Where older versions kept one JSON object a session.
_OLDER = "history-session-state"
#: `session-state/<id>/events.jsonl`
_EVENTS = "events.jsonl"


class CopilotImporter(GrowingImporter):
    """Reads the sessions of every version of Copilot CLI."""

    name = AGENT
    title = "Copilot CLI"
    home_variables, home, folders = ("COPILOT_HOME",), ".copilot", ("session-state", _OLDER)
    #: Older sessions are one JSON object each (`.json`), and read from their start at any offset.
    endings = (".jsonl", ".json")

    def wants_file(self, file: Path) -> bool:
        """Return whether a file is read: `.json` only in one folder."""
        return file.suffix != ".json" or _OLDER in file.parts

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file has an older session or this client's events."""
        if file.suffix == ".json":
            return b'"chatMessages"' in beginning and b'"sessionId"' in beginning
        return super().recognises_file(file, beginning)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        """Return whether an event has a kind of two words and data."""
        return "." in as_text(value.get("type")) and isinstance(value.get("data"), dict) and {"id", "parentId"} <= value.keys()

    def make_reader(self, file: Path) -> CopilotReader:
        """Return the state with which the reading of a session begins."""
        name = file.parent.name if file.name == _EVENTS else file.stem
        return CopilotReader(AGENT, name, self._settings.include_thinking)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield the steps of records, of an older session of all messages."""
        if file.suffix != ".json":
            yield from super().read_file(file, offset, report)
            return
        reader = self.make_reader(file)
        for record in iter_records(file):
            if record.error or not isinstance(record.value.get("chatMessages"), list):
                yield from read_records(reader, file, (record,), report)
                continue
            for message, message_record in iter_messages(record.value, reader):
                parsed_record = (
                    ParsedRecord(skip_reason=OWN_SESSION)
                    if opens_own_session(reader.first_prompt)
                    else reader.separate_prompts(message_record, message)
                )
                yield ReadStep(count_record(reader, parsed_record, report, file, record.line, message), record.offset)
