"""Any failure of a call in, an error result out: our code first, whether a retry helps, a safe next step, no noise."""

import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from mcp.types import CallToolResult, TextContent
from pydantic import ValidationError

from memory_mcp.errors import DiskFull, InvalidQuery, MemoryMcpError
from memory_mcp.model.fencing import neutral

log = logging.getLogger(__name__)

#: Said where an error names no next step of its own.
_HINTS = {
    "INTERNAL": "The log of memory-mcp on stderr has the details; other tools may still answer.",
    "DEADLINE_EXCEEDED": "Give more time with timeout_ms, or narrow the question with since and until.",
    "RESOURCE_EXHAUSTED": "Ask for less at once.",
    "UNAUTHENTICATED": "Send a token of the authorization server or an API key.",
    "PERMISSION_DENIED": "Ask an administrator of the team.",
    "NOT_FOUND": "browse_toc without node_id starts at the root.",
    "LOCKED": "Close the other one, or use its tools.",
    "UNAVAILABLE": "get_retrieval_status says what works.",
    "INVALID_ARGUMENT": "Correct the arguments and call again.",
    "FAILED_PRECONDITION": "What is stored can still be read.",
}
_RETRY = {True: "A retry may help (retryable: true).", False: "A retry of the same call will not help."}
#: Argument errors named in one answer; the rest would only bury them.
_MOST = 3
#: How a choice that may be left out begins in the validator's words.
_EMPTY_CHOICE = "'', "
_KINDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
    "mapping": "an object",
}


def describe(error: MemoryMcpError) -> str:
    """Return the text of an error: `CODE: message.`, a next step, and whether a retry helps."""
    text = str(error) if error.hint else f"{error} {hint_of(error)}".rstrip()
    return f"{neutral(text)} {_RETRY[error.retryable]}"


def hint_of(error: MemoryMcpError) -> str:
    """Return the error's own next step, else that of its code."""
    return error.hint or _HINTS.get(error.code, "")


def error_result(error: MemoryMcpError) -> CallToolResult:
    """Return the error as a tool error, as text only: clients check structured content against the output schema."""
    return CallToolResult(content=[TextContent(type="text", text=describe(error))], is_error=True)


def as_ours(error: Exception, where: str) -> MemoryMcpError:
    """Our own errors unchanged; argument errors in plain words; anything else INTERNAL, its traceback only in the log."""
    if isinstance(error, MemoryMcpError):
        if error.code == "INTERNAL":
            log.error("%s failed", where, exc_info=error)
        return error
    if isinstance(error, ValidationError):
        return bad_arguments(error)
    if full := DiskFull.of(error):
        return full
    log.error("%s raised an unexpected exception", where, exc_info=error)
    return MemoryMcpError("unexpected failure inside memory-mcp")


def check_tool(name: str, known: Iterable[str]) -> None:
    """InvalidQuery for a tool that does not exist, with the nearest one that does."""
    names = list(known)
    if name not in names:
        near = get_close_matches(name, names, n=1)
        raise InvalidQuery(f"unknown tool {name!r}", f"Did you mean {near[0]!r}?" if near else f"Tools are {', '.join(names)}.")


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """InvalidQuery naming the first argument that does not exist, and the nearest one that does."""
    names = list(known)
    for name in given:
        if name not in names:
            near = get_close_matches(name.rsplit(".", 1)[-1], names, n=1)
            takes = f"Arguments are {', '.join(names)}." if names else "It takes no arguments."
            raise InvalidQuery(f"unknown argument {name!r}", f"Did you mean {near[0]!r}?" if near else takes)


def check_prompt(name: str, known: Iterable[str]) -> None:
    """InvalidQuery for a prompt that does not exist."""
    names = list(known)
    if name not in names:
        raise InvalidQuery(f"unknown prompt {name!r}", f"Prompts are {', '.join(names)}.")


def bad_arguments(error: ValidationError) -> InvalidQuery:
    """Return the argument errors in our own words, without the validator's texts and echoes of the input."""
    found = error.errors(include_url=False, include_input=False)
    return InvalidQuery("; ".join(_say(one) for one in found[:_MOST]))


def _say(one: Mapping[str, Any]) -> str:
    kind, bound = str(one["type"]), one.get("ctx", {})
    name = ".".join(str(part) for part in one["loc"]) or "the arguments"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        return f"unknown argument {name!r}"
    for suffix, words in (("greater_than_equal", "at least"), ("less_than_equal", "at most")):
        if kind == suffix:
            return f"{name} must be {words} {bound['ge' if words == 'at least' else 'le']}"
    if kind == "literal_error":
        return f"{name} must be {str(bound['expected']).removeprefix(_EMPTY_CHOICE)}"
    if kind in ("string_too_long", "too_long"):
        return f"{name} is too long: at most {bound['max_length']}"
    if kind in ("string_too_short", "too_short"):
        return f"{name} is empty"
    return f"{name} must be {_KINDS.get(kind.partition('_')[0], 'of another type')}"
