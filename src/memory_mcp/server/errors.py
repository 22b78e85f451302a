"""Turns failures of a call into error results: our code, what happened, a safe next step, and whether a retry helps."""

import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import DiskFull, InvalidQuery, MemoryMcpError, NotFound
from memory_mcp.model.fencing import neutralize

if TYPE_CHECKING:
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

log = logging.getLogger(__name__)

#: Said where an error names no next step of its own.
_HINTS = {
    "INTERNAL": "The log of memory-mcp on stderr has the details; other tools may still answer.",
    "DEADLINE_EXCEEDED": "Give more time with timeout_ms, or narrow the question with since and until.",
    "RESOURCE_EXHAUSTED": "Ask for less at once.",
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
    """Return an error as clients see it, with the next step.

    `CODE: message.`, the next step of `hint_of`, and whether a retry helps. What would spell a tag of ours is changed.
    """
    text = str(error) if error.hint else f"{error} {hint_of(error)}".rstrip()
    return f"{neutralize(text)} {_RETRY[error.retryable]}"


def hint_of(error: MemoryMcpError) -> str:
    """Return the error's own next step, else that of its code."""
    return error.hint or _HINTS.get(error.code, "")


def as_protocol_error(error: Exception, where: str) -> "MCPError":
    """Return any error as one of the protocol, with our text."""
    from mcp.shared.exceptions import MCPError
    from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

    ours = as_ours(error, where)
    return MCPError(INVALID_PARAMS if isinstance(ours, (InvalidQuery, NotFound)) else INTERNAL_ERROR, describe(ours))


def as_ours(error: Exception, where: str) -> MemoryMcpError:
    """Return an error as one of ours.

    `where` names in the log what failed. Ours stay as they are, argument errors are told in plain words, a full disk is
    DiskFull, and anything else is INTERNAL, its traceback in the log alone.
    """
    if isinstance(error, MemoryMcpError):
        if error.code == "INTERNAL":
            log.error("%s failed", where, exc_info=error)
        return error
    if full := DiskFull.of(error):
        return full
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return bad_arguments(error)
    log.error("%s raised an unexpected exception", where, exc_info=error)
    return MemoryMcpError("unexpected failure inside memory-mcp")


def check_names(arguments: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise InvalidQuery for the first argument that is not known."""
    names = list(parameters)
    for name in arguments:
        if name not in names:
            near = get_close_matches(name.rsplit(".", 1)[-1], names, n=1)
            takes = f"Arguments are {', '.join(names)}." if names else "It takes no arguments."
            raise InvalidQuery(f"unknown argument {name!r}", f"Did you mean {near[0]!r}?" if near else takes)


def bad_arguments(error: "ValidationError") -> InvalidQuery:
    """Return one InvalidQuery for up to `_MOST` argument errors.

    Its message has them in our own words, joined by "; ". The validator's texts and echoes of the input are not in it.
    """
    details = error.errors(include_url=False, include_input=False)
    return InvalidQuery("; ".join(_format_message(detail) for detail in details[:_MOST]))


def _format_message(detail: Mapping[str, Any]) -> str:
    """Return one error of the validator in plain words."""
    kind, bound = str(detail["type"]), detail.get("ctx", {})
    name = ".".join(str(part) for part in detail["loc"]) or "the arguments"
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        return f"unknown argument {name!r}"
    if kind == "greater_than_equal":
        return f"{name} must be at least {bound['ge']}"
    if kind == "less_than_equal":
        return f"{name} must be at most {bound['le']}"
    if kind == "literal_error":
        return f"{name} must be {str(bound['expected']).removeprefix(_EMPTY_CHOICE)}"
    if kind in ("string_too_long", "too_long"):
        return f"{name} is too long: at most {bound['max_length']}"
    if kind in ("string_too_short", "too_short"):
        return f"{name} is empty"
    return f"{name} must be {_KINDS.get(kind.partition('_')[0], 'of another type')}"
