"""Importer of Copilot CLI's session files.

Older versions kept one JSON object a session: messages without times, and a timeline with them.

Ids: `session_id` is the client's own; `source_id` is the event's id, of a call the call's id, and that with `#result` for
its result. What a subagent says and does has its id, or that of the call that began it, as thread.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from memory_mcp.importers.base import OWN_SESSION, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, block_text, words_of, words_within
from memory_mcp.importers.json_records import iter_records, parse_time
from memory_mcp.importers.parts import (
    EMPTY,
    Part,
    content_id,
    left_out_part,
    message_part,
    note_part,
    result_part,
    separate_prompts,
    unread_block_notes,
)
from memory_mcp.importers.session_reader import (
    DUPLICATE,
    UNKNOWN,
    GrowingImporter,
    ParsedRecord,
    RecordItem,
    SessionReader,
    count_record,
    read_records,
)
from memory_mcp.importers.wrappers import INJECTED, unwrap_prompt, without_ansi
from memory_mcp.model.event import RECAP, RECORD, EventType, Role
from memory_mcp.model.sentinel import opens_own_session

AGENT = "copilot"
#: First words of known kinds of events; those not in `_READ` are skipped.
_FAMILIES = frozenset(
    "agent assistant auto_mode_switch capabilities command commands elicitation exit_plan_mode external_tool hook"
    " human_response mcp mcp_app model pending_messages permission prompt_cache_break sampling sandbox session"
    " session_limits_exhausted skill subagent system tool tool_search ui user_input workflow".split()
)
#: The tool whose result is what a subagent brought back.
_AGENT_TOOL = "task"
#: Kinds that are read; see `CopilotReader._convert_event`.
_READ = frozenset(
    "session.start session.resume session.context_changed session.model_change session.compaction_complete session.handoff"
    " session.error user.message assistant.message tool.execution_start tool.execution_complete abort"
    " system.notification".split()
)
#: Kinds that are skipped, and why.
_ELSEWHERE = {
    "assistant.reasoning": DUPLICATE,
    "tool.user_requested": DUPLICATE,
    "system.message": INJECTED,
    "skill.invoked": INJECTED,
}
_HOSTS = {"github": "github.com", "ado": "dev.azure.com"}
_TAG = re.compile(r"</?system_notification>")
#: How the client ends what a shell printed.
_EXIT = re.compile(r"\n?<(?:[^<>\n]{0,80})exited with (?:exit )?code (-?\d{1,9})>\s*\Z")
#: Who wrote a user's message, where it was not the user.
_AGENT_SOURCES = ("agent-", "thread-")
_SOURCES = ("skill-", "agent-", "system", "autopilot", "hook", "mcp-", "schedule", "thread-")


class CopilotReader(SessionReader):
    """One read of one session."""

    def learn_from(self, record: dict[str, object]) -> None:
        data = as_mapping(record.get("data"))
        kind = record.get("type")
        if kind == "session.start":
            self._start_session(data)
        elif kind == "user.message" and not self.first_prompt and not _written_by_client(data):
            self.first_prompt = as_text(data.get("content"))

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return what one event gives; thoughts have their own id and time."""
        kind, data = as_text(record.get("type")), as_mapping(record.get("data"))
        if kind not in _READ:
            is_known = "." in kind and kind.split(".", 1)[0] in _FAMILIES
            return ParsedRecord(skip_reason=_ELSEWHERE.get(kind, kind if is_known else UNKNOWN))
        self.session.thread = as_text(record.get("agentId")) or as_text(data.get("parentToolCallId"))
        parts, reason = self._convert_event(kind, data)
        source_id = as_text(record.get("id")) or f"content:{content_id(self.session.session_id, record)}"
        call_id = as_text(data.get("toolCallId"))
        if call_id and kind.startswith("tool."):
            source_id = call_id if kind == "tool.execution_start" else f"{call_id}#result"
        when = self.order_time(parse_time(record.get("timestamp")))
        thoughts = [part for part in parts if part.metadata.get(RECORD) == "thinking"]
        items = [RecordItem(f"{source_id}#t", tuple(thoughts), when)] if thoughts else []
        said_parts = tuple(part for part in parts if part not in thoughts)
        # A thought takes its millisecond whether it is kept or not.
        later = when + 1 if thoughts and when is not None else when
        return ParsedRecord([*items, RecordItem(source_id, said_parts, later)], reason)

    def _convert_event(self, kind: str, data: Mapping[str, object]) -> tuple[list[Part], str]:
        """Return (parts, reason); the reason counts only without parts."""
        match kind:
            case "user.message":
                return self._prompt_parts(data)
            case "assistant.message":
                self.model = as_text(data.get("model")) or self.model
                thinking, text = words_within(data.get("reasoningText")), words_of(data.get("content"))
                parts = [self.make_thought(thinking)] if thinking.strip() else []
                parts += [message_part(Role.ASSISTANT, text)] if text.strip() else []
                # A call is read when it is carried out.
                return parts, DUPLICATE if data.get("toolRequests") else EMPTY
            case "tool.execution_start":
                tool, call_id = as_text(data.get("toolName")), as_text(data.get("toolCallId"))
                return [self.make_call(tool, data.get("arguments"), call_id)], ""
            case "tool.execution_complete":
                return self._result_parts(data)
            case "session.error":
                return [note_part(words_within(data.get("message")), record="error")], EMPTY
            case "abort":
                text = f"[turn aborted: {as_text(data.get('reason')) or 'no reason told'}]"
                return [note_part(text, record="turn_aborted")], ""
            case "system.notification":
                return [note_part(_TAG.sub("", words_of(data.get("content"))), record="notification")], EMPTY
            case "session.compaction_complete" | "session.handoff":
                text = words_within(data.get("summary" if kind == "session.handoff" else "summaryContent"))
                return [note_part(text, record="compacted", **{RECAP: "true"})], "session"
            case "session.context_changed":
                self._change_folder(data)
            case "session.model_change":
                self.model = as_text(data.get("newModel")) or self.model
            case _:
                self._start_session(data)
        return [], "session"

    def _start_session(self, data: Mapping[str, object]) -> None:
        self.session.session_id = as_text(data.get("sessionId")) or self.session.session_id
        self.version = as_text(data.get("copilotVersion")) or self.version
        self.model = as_text(data.get("selectedModel")) or self.model
        self._change_folder(as_mapping(data.get("context")))

    def _change_folder(self, context: Mapping[str, object]) -> None:
        if cwd := as_text(context.get("cwd")):
            self.cwd, self.branch = cwd, as_text(context.get("branch"))
            repository = as_text(context.get("repository"))
            host = as_text(context.get("repositoryHost")) or _HOSTS.get(as_text(context.get("hostType")), "github.com")
            self.remote = f"https://{host}/{repository}" if repository else ""

    def _prompt_parts(self, data: Mapping[str, object]) -> tuple[list[Part], str]:
        blocks = as_blocks(data.get("content"))
        texts = list(map(block_text, blocks))
        text = "\n".join(filter(None, texts))
        if self.session.thread:
            return [Part(Role.ASSISTANT, EventType.SUBAGENT_START, words_of(data.get("content")).strip())], ""
        source = as_text(data.get("source"))
        if source.startswith(_AGENT_SOURCES):
            return list(separate_prompts([message_part(Role.USER, text)], {"promptSource": source})), EMPTY
        if _written_by_client(data):
            return [left_out_part(INJECTED)], INJECTED
        return [message_part(Role.USER, text), *unread_block_notes(blocks, texts)], EMPTY

    def _result_parts(self, data: Mapping[str, object]) -> tuple[list[Part], str]:
        call_id, tool_result = as_text(data.get("toolCallId")), as_mapping(data.get("result"))
        text = next(filter(None, map(words_of, (tool_result.get(key) for key in ("content", "detailedContent", "contents")))), "")
        described = {"content", "detailedContent", "contents"} & tool_result.keys()
        text = without_ansi(text or _error_text(data.get("error")) or ("" if described else words_within(data.get("result"))))
        status = ""
        if match := _EXIT.search(text):
            status, text = match[1], text[: match.start()]
        tool = self.tool_names.get(call_id, "")
        part = result_part(tool, call_id, text, is_error=data.get("success") is False, exit_status=status)
        return [replace(part, type=EventType.SUBAGENT_STOP) if tool == _AGENT_TOOL else part], ""


def _error_text(error: object) -> str:
    return words_within(as_mapping(error).get("message")) or words_within(error)


def _written_by_client(data: Mapping[str, object]) -> bool:
    return data.get("isAutopilotContinuation") is True or as_text(data.get("source")).startswith(_SOURCES)


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
        return file.suffix != ".json" or _OLDER in file.parts

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if file.suffix == ".json":
            return b'"chatMessages"' in beginning and b'"sessionId"' in beginning
        return super().recognises_file(file, beginning)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        return "." in as_text(value.get("type")) and isinstance(value.get("data"), dict) and {"id", "parentId"} <= value.keys()

    def make_reader(self, file: Path) -> CopilotReader:
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
