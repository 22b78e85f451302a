"""Convert one message and its parts to drafts.

Ids: `session_id` is the client's own (a subagent's is that of the session it was begun in, with its own id as thread);
`source_id` is the message's id for what the user said, a part's id for what the model said, the call's id for a call, that
with `#result` for its result. Times follow from the message alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, result_text, words_of, words_within
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import (
    Part,
    call_part,
    left_out_part,
    message_part,
    note_part,
    result_part,
    separate_prompts,
    unknown_block_notes,
)
from memory_mcp.importers.session_reader import UNKNOWN, ParsedRecord, RecordItem, SessionReader
from memory_mcp.importers.wrappers import INJECTED, find_author, without_ansi
from memory_mcp.model.event import RECAP, EventType, Role

AGENT = "opencode"
UNFINISHED = "not finished yet"
#: Parts without words.
_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch", "agent", "subtask", "compaction", "retry"})


#: Parts with their ids, in their order.
Parts = Sequence[tuple[str, dict[str, object]]]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The session of a message."""

    id: str
    #: The session it was begun in, at the top; "" when it is no subagent's.
    root: str = ""
    directory: str = ""
    version: str = ""
    #: The first prompt.
    prompt: str = ""
    #: The folder of the project's main working tree; "" where it is not stored.
    origin: str = ""


class OpencodeReader(SessionReader):
    """One read of one store."""

    def convert_message(self, info: Mapping[str, object], message_id: str, parts: Parts, whose: SessionInfo) -> ParsedRecord:
        """Return what a message gives, in the order of its parts.

        The error that ended an answer follows as a note.
        """
        self.session.session_id = whose.root or whose.id
        self.session.thread = whose.id if whose.root else ""
        self.cwd = as_text(as_mapping(info.get("path")).get("cwd")) or whose.directory
        self.worktree_origin = whose.origin
        self.version = whose.version
        self.model = as_text(info.get("modelID"))
        time = parse_time(as_mapping(info.get("time")).get("created"))
        if info.get("role") == "user":
            return ParsedRecord([RecordItem(message_id, tuple(self._iter_prompt_parts(parts, whose)), time)])
        if info.get("role") != "assistant":
            texts = "\n".join(filter(None, (words_within(part.get("text")) for _, part in parts)))
            record = as_text(info.get("role"))
            return (
                ParsedRecord([RecordItem(message_id, (note_part(texts, record=record),), time)])
                if texts and record
                else ParsedRecord(skip_reason=UNKNOWN)
            )
        items = [item for key, part in parts for item in self._iter_answer_items(key, part, info.get("summary") is True, time)]
        error = as_mapping(info.get("error"))
        problem = filter(None, (as_text(error.get("name")), words_within(as_mapping(error.get("data")).get("message"))))
        if text := ": ".join(problem):
            items.append(RecordItem(f"{message_id}#error", (note_part(text, record="error"),), time))
        # One at exactly the time of the one before it comes a millisecond later; earlier times stay.
        last: int | None = None
        for number, item in enumerate(items):
            last = item.time + 1 if item.time is not None and item.time == last else item.time
            items[number] = replace(item, time=last)
        return ParsedRecord(items)

    def _iter_prompt_parts(self, parts: Parts, whose: SessionInfo) -> Iterator[Part]:
        texts: list[str] = []
        left_out: list[Part] = []
        for _, part in parts:
            kind = as_text(part.get("type"))
            if kind == "text" and (part.get("synthetic") is True or part.get("ignored") is True):
                left_out.append(left_out_part(INJECTED))
            elif kind == "text":
                author, words = find_author(part), words_within(part.get("text"))
                texts += [words] if not author else []
                left_out += separate_prompts([message_part(Role.USER, words)], part) if author else []
            elif kind == "file":
                texts.append(f"[{as_text(part.get('mime')) or 'file'} {as_text(part.get('filename'))}]".replace(" ]", "]"))
            elif kind not in _SILENT:
                left_out += unknown_block_notes(part) or [left_out_part(UNKNOWN)]
        text = "\n".join(filter(str.strip, texts)).strip()
        if text and not whose.root:
            yield message_part(Role.USER, text)
        elif text:
            yield Part(Role.ASSISTANT, EventType.SUBAGENT_START if text == whose.prompt else EventType.NOTE, text)
        yield from left_out

    def _iter_answer_items(self, key: str, part: Mapping[str, object], summary: bool, time: int | None) -> Iterator[RecordItem]:
        kind, text = as_text(part.get("type")), words_within(part.get("text"))
        own_time = parse_time(as_mapping(part.get("time")).get("start"))
        when = time if own_time is None else own_time
        if kind == "tool":
            yield from self._iter_tool_items(key, part, when)
        elif kind == "reasoning":
            yield RecordItem(key, (self.make_thought(text),), when)
        elif kind == "text" and summary:
            yield RecordItem(key, (note_part(text, record="compacted", **{RECAP: "true"}),), when)
        elif kind == "text":
            injected = part.get("synthetic") is True or part.get("ignored") is True
            yield RecordItem(key, (left_out_part(INJECTED) if injected else message_part(Role.ASSISTANT, text),), when)
        elif kind not in _SILENT and kind != "file":
            yield RecordItem(key, tuple(unknown_block_notes(part)) or (left_out_part(UNKNOWN),), when)

    @staticmethod
    def _iter_tool_items(key: str, part: Mapping[str, object], time: int | None) -> Iterator[RecordItem]:
        state, name = as_mapping(part.get("state")), as_text(part.get("tool"))
        call_id = as_text(part.get("callID"))
        times = as_mapping(state.get("time"))
        began, ended = parse_time(times.get("start")), parse_time(times.get("end"))
        arguments = as_mapping(state.get("input"))
        readable = {"file_path" if k == "filePath" else k: v for k, v in arguments.items()}
        yield RecordItem(call_id or key, (call_part(name, readable, call_id),), time if began is None else began)
        failed = state.get("status") == "error"
        if not failed and state.get("status") != "completed":
            return
        details = as_mapping(state.get("metadata"))
        status = str(details["exit"]) if isinstance(details.get("exit"), int) else ""
        text = without_ansi(words_of(state.get("error" if failed else "output")))
        child = as_text(details.get("sessionId"))
        outcome = replace(
            result_part(name, call_id, text, is_error=failed, exit_status=status, agent_id=child), result_details=details
        )
        outcome = replace(outcome, type=EventType.SUBAGENT_STOP) if child else outcome
        yield RecordItem(f"{call_id or key}#result", (outcome,), time if ended is None else ended)


def prompt_of(parts: Parts) -> str:
    """Return what the user typed in these parts."""
    texts = (words_within(p.get("text")) for _, p in parts if p.get("type") == "text" and p.get("synthetic") is not True)
    return "\n".join(filter(str.strip, texts)).strip()


def is_finished(info: Mapping[str, object]) -> bool:
    """Return whether nothing more is written into a message."""
    done = as_mapping(info.get("time")).get("completed")
    return info.get("role") != "assistant" or done is not None or "error" in info


def message_of(kind: str, data: Mapping[str, object], created: int) -> dict[str, object]:
    """Return a message of one row (OpenCode 2) in the older form.

    A summary is the assistant's, a command that the person ran the person's; any other kind is a role of its own.
    """
    roles = {"compaction": "assistant", "shell": "user"}
    info: dict[str, object] = {"role": roles.get(kind, kind), "kind": kind, "time": data.get("time") or {"created": created}}
    info["modelID"] = as_mapping(data.get("model")).get("id")
    info["content"] = data
    if kind == "compaction":
        info |= {"summary": True, "time": {**as_mapping(info["time"]), "completed": created}}
    if error := as_mapping(data.get("error")):
        info["error"] = {"name": error.get("type") or error.get("name"), "data": {"message": error.get("message")}}
    return info


def parts_of(message_id: str, info: Mapping[str, object]) -> Parts:
    """Return a one-row message's parts in the older form."""
    data, kind = as_mapping(info.get("content")), as_text(info.get("kind"))
    if kind == "shell":
        command = f"! {as_text(data.get('command'))}\n{as_text(data.get('output'))}".strip()
        return [(message_id, {"type": "text", "text": command})]
    if kind == "assistant":
        items = [as_mapping(item) for item in as_blocks(data.get("content"))]
        return [(as_text(item.get("id")) or f"{message_id}#{n}", _item_of(item)) for n, item in enumerate(items)]
    text = words_within(data.get("text")) or words_within(data.get("summary")) or words_of(data.get("content"))
    if not text and kind != "user":
        text = words_within({k: v for k, v in data.items() if k not in ("time", "metadata")})
    files = [{"type": "file", "mime": f.get("mime"), "filename": f.get("name")} for f in as_mappings(data.get("files"))]
    return [(message_id, {"type": "text", "text": text}), *((f"{message_id}#f{n}", file) for n, file in enumerate(files))]


def _item_of(item: Mapping[str, object]) -> dict[str, object]:
    if item.get("type") != "tool":
        return dict(item)
    state, times = dict(as_mapping(item.get("state"))), as_mapping(item.get("time"))
    problem = state.get("error")
    state["error"] = as_text(problem) or as_text(as_mapping(problem).get("message"))
    state["output"] = as_text(state.get("output")) or result_text(state.get("content"), state.get("result"))
    state["time"] = {"start": times.get("ran") or times.get("created"), "end": times.get("completed")}
    return {"type": "tool", "tool": item.get("name"), "callID": item.get("id"), "state": state}
