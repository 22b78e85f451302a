"""Calls of tools: a request with its caller in, an answer as text and as JSON out. Loads nothing of the protocol's library."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeGuard

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.base import metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.scope import caller_project
from memory_mcp.model.fencing import fence_text, neutralize, neutralize_json
from memory_mcp.requests.entry import Effect, Entry
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import DEFAULT_TOOLS, FULL_TOOLS, respond
from memory_mcp.requests.scope import Caller
from memory_mcp.server.caller import CALLER
from memory_mcp.server.host import Host
from memory_mcp.server.markdown import markdown

log = logging.getLogger(__name__)

#: Revisions of the protocol whose clients greet before they call, and fields of a plain call.
REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
_CALL_FIELDS = frozenset({"name", "arguments", "_meta"})
#: What the server says of itself, in every result of the newest revision in this order.
SERVER_INFO = {
    "name": "memory-mcp",
    "title": "Memory",
    "version": __version__,
    "description": "Long-term memory for coding agents: a time tree of cited evidence",
}
#: Fields that the server fills: who acts, and the key under which a call is carried out once.
_AUTHOR, _KEY = "by", "idempotency_key"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers; an error is text alone."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False

    def as_result(self, is_modern: bool) -> dict[str, Any]:
        """Return the result of a call as it is sent, to clients of the newest revision with what that asks for."""
        result: dict[str, Any] = {"content": [{"text": self.text, "type": "text"}], "isError": self.is_error}
        if is_modern:
            result["resultType"] = "complete"
        if self.structured is not None:
            result["structuredContent"] = self.structured
        if is_modern:
            result["_meta"] = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
        return result


@dataclass(frozen=True, slots=True)
class Kit:
    """The host and the caller, as tools, resources and prompts have them."""

    host: Host
    #: The project of callers whose connection names none.
    usual_project: str = ""

    @property
    def project(self) -> str:
        """The project that the calling client works on; "" where it is not known."""
        return CALLER.get().project or self.usual_project

    @property
    def caller(self) -> Caller:
        """The calling client as requests take it: its project, the deriver's last error, whether it is bound to the project."""
        locked = CALLER.get().locked or self.host.settings.server.scope_lock
        connection = CALLER.get().connection
        return Caller(self.project, self.host.deriver_error(), locked, connection() if connection else None)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools of the settings' profile."""
        return (*DEFAULT_TOOLS, *(FULL_TOOLS if self.host.settings.server.profile == "full" else ()))

    async def answer(self, entry: Entry, request: Any) -> Answer:
        """Carry out a request; one that writes to its end even if the client cancels.

        Raises what its handler or opening raises.
        """
        run = self.host.read if entry.effect is Effect.READS else self.host.write
        return await run(self._responder(request))

    def _responder(self, request: Any) -> Callable[[App], Answer]:
        """Return what carries out a request and renders its response, both in the thread of the call."""
        caller = self.caller
        return lambda app: _render_answer(self.host.with_notices(app, as_json(respond(app, request, caller))))


def make_kit(host: Host, project: str = "") -> Kit:
    """Return the kit of a host.

    `project` is used for connections that name none; where it is "" too, the setting server.project.
    """
    return Kit(host, project or caller_project({}, "", configured=host.settings.server.project))


def make_answer(value: object) -> Answer:
    """Return an answer with `value` as structured content and as Markdown, fenced if it carries recalled words."""
    return _render_answer(as_json(value))


def _render_answer(json_object: dict[str, Any]) -> Answer:
    structured: dict[str, Any] = neutralize_json(json_object)
    text = markdown(structured)
    # Text that is not fenced still has names of projects and sessions, which must not form a tag of ours.
    return Answer(fence_text(text) if "origin" in structured else neutralize(text), structured)


def make_request(kind: type[Any], arguments: Mapping[str, Any], agent: str, key: Callable[[str], str]) -> Any:
    """Return the request of checked arguments, by an agent; what is None is left to its default.

    `key` returns the idempotency key of the call whose arguments name one, or "". Raises what the request refuses.
    """
    values, names = dict(arguments), {field.name for field in fields(kind)}
    if _AUTHOR in names:
        values[_AUTHOR] = agent
    if _KEY in names:
        values[_KEY] = key(values.get(_KEY, ""))
    return kind(**{name: _as_tuple(value) for name, value in values.items() if value is not None})


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value


def is_plain_call(params: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a call has only a name, arguments and metadata."""
    return (
        isinstance(params, dict)
        and params.keys() <= _CALL_FIELDS
        and isinstance(params.get("name"), str)
        and isinstance(params.get("arguments"), dict | None)
    )


def note_call(tool: str, outcome: str, began: float) -> None:
    """Count, time and log a call that has ended.

    `began` is of `time.perf_counter`. The log has the tool, its outcome and its time, and nothing of what was said.
    """
    seconds = time.perf_counter() - began
    metrics.count("tool_calls_total", tool=tool, outcome=outcome)
    metrics.observe("tool_latency_seconds", seconds, tool=tool)
    log.info("%s %s %.1f ms", tool, outcome, 1000 * seconds)
