"""Read calls of tools as VS Code shows them in an answer: what is left of a call whose rounds the session does not hold."""

import re
from collections.abc import Iterator, Mapping

from memory_mcp.ingest.claude_code.blocks import as_list, as_mapping, as_text, words_within
from memory_mcp.ingest.claude_code.wrappers import without_ansi
from memory_mcp.ingest.growing import Told
from memory_mcp.ingest.parts import as_plain, call, parsed, path_of, result

_LINK = re.compile(r"\[([^\]\n]{0,400})\]\(((?:file|vscode-\w+|untitled)://?[^)\s]{1,4000})\)")
#: Fields of what a tool shows that are no argument of its call.
_RESULTS = frozenset(
    "kind output result terminalCommandOutput terminalCommandState terminalToolSessionId terminalCommandId".split()
)


def read_shown_call(part: Mapping[str, object], key: str) -> Iterator[Told]:
    """Yield a call of a tool that an answer shows and its result, without times; `key` is the call's id if it has none."""
    call_id = as_text(part.get("toolCallId"))
    tool = as_text(part.get("toolId")) or as_text(part.get("toolName"))
    yield Told(call_id or key, (call(tool, _arguments(part), call_id),), None)
    details, shown = as_mapping(part.get("resultDetails")), as_mapping(part.get("toolSpecificData"))
    text = _result_text(part)
    if text or part.get("isComplete") is True:
        code = as_mapping(shown.get("terminalCommandState")).get("exitCode")
        status = str(code) if isinstance(code, int) else ""
        outcome = result(tool, call_id, text, is_error=details.get("isError") is True, exit_status=status)
        yield Told(f"{call_id or key}#result", (outcome,), None)


def _arguments(part: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments of a call as far as they are shown: those it was given, a command, else what it was said to do."""
    shown = as_mapping(part.get("toolSpecificData"))
    given = parsed(as_mapping(part.get("resultDetails")).get("input") or shown.get("rawInput"))
    if isinstance(given, Mapping):
        return {"file_path" if name == "filePath" else name: value for name, value in given.items()}
    line = as_mapping(shown.get("commandLine"))
    command = as_text(line.get("userEdited")) or as_text(line.get("toolEdited")) or as_text(line.get("original"))
    if command := command or as_text(shown.get("command")):
        return {"command": command}
    described = {name: value for name, value in shown.items() if name not in _RESULTS}
    if isinstance(given, str) and given:
        described["input"] = given
    message = part.get("invocationMessage")
    paths = [path_of(match[2].partition("#")[0]) for match in _LINK.finditer(_markdown(message))]
    named = {"file_path": paths[0]} if len(set(paths)) == 1 else {}
    return {**named, "description": _message_text(message), **described}


def _result_text(part: Mapping[str, object]) -> str:
    """Return what a call brought back: its output, files that it found, else what it was said to have done."""
    details, shown = part.get("resultDetails"), as_mapping(part.get("toolSpecificData"))
    terminal = as_text(as_mapping(shown.get("terminalCommandOutput")).get("text"))
    output = as_mapping(details).get("output") if isinstance(details, Mapping) else details
    texts = [_output_text(one) for one in as_list(output)] or [as_text(output)]
    texts = list(filter(None, (without_ansi(terminal), *texts)))
    return "\n".join(texts or filter(None, (_shown_text(shown), _message_text(part.get("pastTenseMessage")))))


def _shown_text(shown: Mapping[str, object]) -> str:
    return as_plain(shown.get("output")) or as_plain(shown.get("result"))


def _output_text(output: object) -> str:
    """Return one piece of an output as text: its words, or the path of a file, with the line where one is named."""
    described = as_mapping(output)
    if "value" in described:
        return as_text(described.get("value")) if described.get("isText") is not False else f"[{_media(described)}]"
    address = as_mapping(described.get("uri")) or described
    path = as_text(address.get("path")) or path_of(address.get("external"))
    line = as_mapping(described.get("range")).get("startLineNumber")
    return f"{path}:{line}" if path and isinstance(line, int) else path or words_within(output)


def _media(described: Mapping[str, object]) -> str:
    return as_text(described.get("mimeType")) or "file"


def _markdown(message: object) -> str:
    return as_text(message) or as_text(as_mapping(message).get("value"))


def _message_text(message: object) -> str:
    """Return a message as plain text: links to files as their paths."""
    return _LINK.sub(lambda match: match[1] or path_of(match[2].partition("#")[0]), _markdown(message)).strip()
