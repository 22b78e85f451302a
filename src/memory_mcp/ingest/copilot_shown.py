"""Read calls of tools as VS Code shows them in an answer: what is left of a call whose rounds the session does not hold."""

import re
from collections.abc import Iterator, Mapping

from memory_mcp.ingest.claude_code.blocks import as_list, as_mapping, as_text, words_within
from memory_mcp.ingest.claude_code.wrappers import without_ansi
from memory_mcp.ingest.growing import RecordItem
from memory_mcp.ingest.parts import as_plain, call_part, decode_json, path_of, result_part

_LINK = re.compile(r"\[([^\]\n]{0,400})\]\(((?:file|vscode-\w+|untitled)://?[^)\s]{1,4000})\)")
#: Fields of what a tool shows that are no argument of its call.
_RESULTS = frozenset(
    "kind output result terminalCommandOutput terminalCommandState terminalToolSessionId terminalCommandId".split()
)


def read_shown_call(part: Mapping[str, object], key: str) -> Iterator[RecordItem]:
    """Yield a call of a tool that an answer shows and its result, without times; `key` is the call's id if it has none."""
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
    """Return the arguments of a call as far as they are shown: those it was given, a command, else what it was said to do."""
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
    """Return what a call brought back: its output, files that it found, else what it was said to have done."""
    details, tool_data = part.get("resultDetails"), as_mapping(part.get("toolSpecificData"))
    terminal = as_text(as_mapping(tool_data.get("terminalCommandOutput")).get("text"))
    output = as_mapping(details).get("output") if isinstance(details, Mapping) else details
    texts = [_output_text(item) for item in as_list(output)] or [as_text(output)]
    texts = list(filter(None, (without_ansi(terminal), *texts)))
    return "\n".join(texts or filter(None, (_shown_text(tool_data), _message_text(part.get("pastTenseMessage")))))


def _shown_text(tool_data: Mapping[str, object]) -> str:
    return as_plain(tool_data.get("output")) or as_plain(tool_data.get("result"))


def _output_text(output: object) -> str:
    """Return one piece of an output as text: its words, or the path of a file, with the line where one is named."""
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
    """Return a message as plain text: links to files as their paths."""
    return _LINK.sub(lambda match: match[1] or path_of(match[2].partition("#")[0]), _markdown_text(message)).strip()
