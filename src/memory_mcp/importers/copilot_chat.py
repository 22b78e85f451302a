"""Importer of Copilot Chat's sessions, as VS Code stores them.

A session is one JSON object (`.json`), or a log of changes to one (`.jsonl`): kind 0 is the whole object, 1 sets what is at
a path, 2 cuts an array at a path to `i` items and adds to it, 3 takes away what is at a path. VS Code rewrites such a log
when it has grown long, so both are read as a whole.

Ids: `session_id` is the client's own; `source_id` is the request's id for what was typed, a round's id for what the model
said in it, the call's id for a call, that with `#result` for its result. Calls of an answer without rounds are read as VS Code
shows them (`read_shown_call`). Only requests have times: what follows one is
a millisecond after the other, and the last words at the time that the whole took.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from memory_mcp.importers.base import OWN_SESSION, QUOTE_WIDTH, Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import all_words, as_blocks, as_list, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.client_importer import ClientImporter, editor_data
from memory_mcp.importers.json_records import first_values, iter_records, parse_time
from memory_mcp.importers.parts import Part, as_plain, call_part, decode_json, left_out_part, message_part, path_of, result_part
from memory_mcp.importers.session_reader import UNKNOWN, ParsedRecord, RecordItem, SessionReader, count_record
from memory_mcp.importers.wrappers import without_ansi
from memory_mcp.model.event import WORDS_VARY, Role
from memory_mcp.model.sentinel import opens_own_session

_LINK = re.compile(r"\[([^\]\n]{0,400})\]\(((?:file|vscode-\w+|untitled)://?[^)\s]{1,4000})\)")
#: Fields of what a tool shows that are no argument of its call.
_RESULTS = frozenset(
    "kind output result terminalCommandOutput terminalCommandState terminalToolSessionId terminalCommandId".split()
)


def read_shown_call(part: Mapping[str, object], key: str) -> Iterator[RecordItem]:
    """Yield a shown call and its result, without times.

    `key` is the call's id if it has none.
    """
    call_id = as_text(part.get("toolCallId"))
    tool = as_text(part.get("toolId")) or as_text(part.get("toolName"))
    yield RecordItem(call_id or key, (call_part(tool, _shown_arguments(part), call_id),), None)
    details, tool_data = as_mapping(part.get("resultDetails")), as_mapping(part.get("toolSpecificData"))
    text = _result_text(part)
    if text or part.get("isComplete") is True:
        code = as_mapping(tool_data.get("terminalCommandState")).get("exitCode")
        status = str(code) if isinstance(code, int) else ""
        outcome = result_part(tool, call_id, text, is_error=details.get("isError") is True, exit_status=status)
        yield RecordItem(f"{call_id or key}#result", (outcome,), None)


def _shown_arguments(part: Mapping[str, object]) -> Mapping[str, object]:
    tool_data = as_mapping(part.get("toolSpecificData"))
    raw_input = decode_json(as_mapping(part.get("resultDetails")).get("input") or tool_data.get("rawInput"))
    if isinstance(raw_input, Mapping):
        return {"file_path" if name == "filePath" else name: value for name, value in raw_input.items()}
    line = as_mapping(tool_data.get("commandLine"))
    command = as_text(line.get("userEdited")) or as_text(line.get("toolEdited")) or as_text(line.get("original"))
    if command := command or as_text(tool_data.get("command")):
        return {"command": command}
    described = {name: value for name, value in tool_data.items() if name not in _RESULTS}
    if isinstance(raw_input, str) and raw_input:
        described["input"] = raw_input
    message = part.get("invocationMessage")
    paths = [path_of(match[2].partition("#")[0]) for match in _LINK.finditer(_markdown_text(message))]
    file_argument = {"file_path": paths[0]} if len(set(paths)) == 1 else {}
    return {**file_argument, "description": _message_text(message), **described}


def _result_text(part: Mapping[str, object]) -> str:
    details, tool_data = part.get("resultDetails"), as_mapping(part.get("toolSpecificData"))
    terminal = as_text(as_mapping(tool_data.get("terminalCommandOutput")).get("text"))
    output = as_mapping(details).get("output") if isinstance(details, Mapping) else details
    texts = [_output_text(item) for item in as_list(output)] or [as_text(output)]
    texts = list(filter(None, (without_ansi(terminal), *texts)))
    return "\n".join(texts or filter(None, (_shown_text(tool_data), _message_text(part.get("pastTenseMessage")))))


def _shown_text(tool_data: Mapping[str, object]) -> str:
    return as_plain(tool_data.get("output")) or as_plain(tool_data.get("result"))


def _output_text(output: object) -> str:
    described = as_mapping(output)
    if "value" in described:
        return as_text(described.get("value")) if described.get("isText") is not False else f"[{_media_type(described)}]"
    address = as_mapping(described.get("uri")) or described
    path = as_text(address.get("path")) or path_of(address.get("external"))
    line = as_mapping(described.get("range")).get("startLineNumber")
    return f"{path}:{line}" if path and isinstance(line, int) else path or words_within(output)


def _media_type(described: Mapping[str, object]) -> str:
    return as_text(described.get("mimeType")) or "file"


def _markdown_text(message: object) -> str:
    return as_text(message) or as_text(as_mapping(message).get("value"))


def _message_text(message: object) -> str:
    return _LINK.sub(lambda match: match[1] or path_of(match[2].partition("#")[0]), _markdown_text(message)).strip()


AGENT = "copilot-chat"
UNFINISHED = "not finished yet"
#: Folders of sessions, within a workspace's own and of windows without one.
_FOLDERS = frozenset({"chatSessions", "emptyWindowChatSessions"})
_EDITIONS = ("Code", "Code - Insiders", "VSCodium")
#: Parts of an answer that show a call of a tool.
_CALLS = frozenset({"toolInvocationSerialized", "toolInvocation"})
_INITIAL, _SET, _PUSH, _DELETE = range(4)


class CopilotChatImporter(ClientImporter):
    """Reads the sessions of Copilot Chat in VS Code."""

    name = AGENT
    title = "Copilot Chat (VS Code)"
    growth = Growth.REWRITTEN
    endings = (".json", ".jsonl")

    def default_paths(self) -> tuple[Path, ...]:
        storages = ("workspaceStorage", "globalStorage")
        return tuple(editor_data() / edition / "User" / storage for edition in _EDITIONS for storage in storages)

    def wants_file(self, file: Path) -> bool:
        return file.parent.name in _FOLDERS

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if file.suffix == ".json":
            return b'"responderUsername"' in beginning and b'"requests"' in beginning
        values = first_values(beginning) if file.suffix == ".jsonl" else []
        # The whole object is often longer than the beginning; changes to it may be all that is seen.
        return any(v.get("kind") in range(4) and ("k" in v or "requests" in as_mapping(v.get("v"))) for v in values) or (
            file.suffix == ".jsonl" and b'"kind":0' in beginning[:40] and b'"responderUsername"' in beginning
        )

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each request, with all changes applied first.

        Every offset is 0. Changes that do not fit are counted as skipped.
        """
        del offset
        state: dict[str, object] = {}
        for record in iter_records(file):
            value = record.value
            if record.error or not _apply_change(state, value):
                reader = CopilotChatReader(file, {}, self._settings.include_thinking)
                yield ReadStep(
                    count_record(
                        reader, ParsedRecord(skip_reason=record.error or UNKNOWN), report, file, record.line, record.quote
                    ),
                    0,
                )
        listed = as_mappings(state.get("requests"))
        if state.get("requests") and not listed:
            report.lines += 1
            report.skip_record(UNKNOWN, file, 0, as_plain(state["requests"])[:QUOTE_WIDTH])
        reader = CopilotChatReader(file, state, self._settings.include_thinking)
        is_own = bool(listed) and opens_own_session(as_text(as_mapping(listed[0].get("message")).get("text")))
        for number, request in enumerate(listed, 1):
            parsed_record = (
                ParsedRecord(skip_reason=OWN_SESSION) if is_own else reader.read_record(dict(request, last=number == len(listed)))
            )
            yield ReadStep(count_record(reader, parsed_record, report, file, number, request), 0)


class CopilotChatReader(SessionReader):
    """One session."""

    def __init__(self, file: Path, session: Mapping[str, object], include_thinking: bool) -> None:
        super().__init__(AGENT, as_text(session.get("sessionId")) or file.stem, include_thinking)
        workspace_file = file.parent.parent / "workspace.json"
        workspace = next((r.value for r in iter_records(workspace_file)), {}) if workspace_file.is_file() else {}
        self.cwd = path_of(workspace.get("folder")) or str(Path(path_of(workspace.get("workspace"))).parent).strip(".")

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return words, answer and calls of one request.

        They are a millisecond apart, the last at the time that the answer took. An answer still being written, the last one
        without a result, is left out for now.
        """
        self.model = as_text(record.get("modelId")).rsplit("/", 1)[-1]
        self.version = as_text(as_mapping(record.get("agent")).get("extensionVersion"))
        key, time = as_text(record.get("requestId")), parse_time(record.get("timestamp"))
        typed = words_within(as_mapping(record.get("message")).get("text")) or words_within(as_text(record.get("message")))
        if not key:
            return ParsedRecord(skip_reason=UNKNOWN)
        items = [RecordItem(key, (message_part(Role.USER, typed),), time)]
        if "result" not in record and record.get("last") is True:
            # An answer that is still being written would be known by its id ever after.
            return ParsedRecord([*items, RecordItem(f"{key}#answer", (left_out_part(UNFINISHED),), None)])
        outcome = as_mapping(record.get("result"))
        rounds = list(self._iter_rounds(as_mapping(outcome.get("metadata"))))
        if not rounds:
            shown_calls = [item for item in as_mappings(record.get("response")) if as_text(item.get("kind")) in _CALLS]
            rounds = [
                call_item for number, item in enumerate(shown_calls) for call_item in read_shown_call(item, f"{key}#tool{number}")
            ]
            answer = _shown_answer(record)
            answer = replace(answer, metadata={WORDS_VARY: "true"}) if shown_calls else answer
            rounds.append(RecordItem(as_text(record.get("responseId")) or f"{key}#answer", (answer,), None))
        items += rounds
        if time is not None:
            took = as_mapping(outcome.get("timings")).get("totalElapsed")
            items = [replace(item, time=time + number) for number, item in enumerate(items)]
            if len(items) > 1 and isinstance(took, int) and took >= len(items):
                items[-1] = replace(items[-1], time=time + took)
        return ParsedRecord(items)

    def _iter_rounds(self, metadata: Mapping[str, object]) -> Iterator[RecordItem]:
        """Yield thoughts ("<round>#t"), words, calls and results ("<call>#result"), without times."""
        results = as_mapping(metadata.get("toolCallResults"))
        for tool_round in as_mappings(metadata.get("toolCallRounds")):
            key = as_text(tool_round.get("id"))
            thinking = as_plain(as_mapping(tool_round.get("thinking")).get("text"))
            if thinking.strip():
                yield RecordItem(f"{key}#t", (self.make_thought(thinking),), None)
            if (words := words_within(tool_round.get("response"))).strip():
                yield RecordItem(key, (message_part(Role.ASSISTANT, words),), None)
            for tool_call in as_mappings(tool_round.get("toolCalls")):
                name, call_id = as_text(tool_call.get("name")), as_text(tool_call.get("id"))
                arguments = decode_json(tool_call.get("arguments"))
                if isinstance(arguments, Mapping):
                    arguments = {"file_path" if k == "filePath" else k: v for k, v in arguments.items()}
                yield RecordItem(call_id, (call_part(name, arguments, call_id),), None)
                if call_id in results:
                    blocks = as_blocks(as_mapping(results[call_id]).get("content"))
                    texts = [_layout_text(block.get("value")) or all_words(block) for block in blocks]
                    yield RecordItem(f"{call_id}#result", (result_part(name, call_id, "\n".join(filter(None, texts))),), None)


def _shown_answer(request: Mapping[str, object]) -> Part:
    texts = []
    for piece in as_mappings(request.get("response")):
        if piece.get("kind") in (None, "markdownContent"):
            texts.append(words_within(piece.get("value")) or words_within(as_mapping(piece.get("content")).get("value")))
        elif piece.get("kind") == "inlineReference":
            target = as_mapping(piece.get("inlineReference"))
            texts.append(as_text(target.get("name")) or as_text(target.get("path")).rsplit("/", 1)[-1])
        elif as_text(piece.get("kind")) in _CALLS and texts and not texts[-1].endswith("\n"):
            texts.append("\n")
    return message_part(Role.ASSISTANT, "".join(texts))


def _layout_text(value: object) -> str:
    if not isinstance(value, Mapping) or "node" not in value:
        return words_within(value) if isinstance(value, Mapping) else as_plain(value)
    texts: list[str] = []
    waiting: list[object] = [value.get("node")]
    while waiting:
        node = as_mapping(waiting.pop())
        if words := as_text(node.get("text")):
            breaks = node.get("lineBreakBefore") is True and bool(texts) and not texts[-1].endswith("\n")
            texts.append("\n" * breaks + words)
        waiting += reversed(as_list(node.get("children")))
    return "".join(texts)


def _apply_change(state: dict[str, object], change: dict[str, object]) -> bool:
    """Apply a change to `state`; return False if it does not fit.

    A change that does not fit may leave a part of itself done.
    """
    kind, path = change.get("kind"), change.get("k")
    session_value = change.get("v") if kind == _INITIAL else change if "requests" in change else None
    if isinstance(session_value, dict):
        state.clear()
        state.update(session_value)
        return True
    if kind not in (_SET, _PUSH, _DELETE) or not isinstance(path, list) or not path:
        return False
    try:
        container: object = state
        for step in path[:-1]:
            container = container[step]  # type: ignore[index]
        if change["kind"] == _SET:
            container[path[-1]] = change.get("v")  # type: ignore[index]
        elif change["kind"] == _DELETE:
            del container[path[-1]]  # type: ignore[attr-defined]
        else:
            target, more, cut = container[path[-1]], change.get("v"), change.get("i")  # type: ignore[index]
            if isinstance(cut, int):
                del target[cut:]
            target.extend(as_list(more))
        return True
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
