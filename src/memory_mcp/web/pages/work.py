"""A file and an error: what is recalled of them before one acts, and the calls that changed the one or met the other."""

from typing import Any

from starlette.responses import Response

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.recall_for import RecallFor
from memory_mcp.requests.run_list import ListRuns
from memory_mcp.web.asking import PageRequest

#: Characters of an error that are asked about, and that are shown.
_ERROR, _SHOWN = 20_000, 1200
#: What a page calls the outcomes that say something.
_OUTCOMES = {
    "resolved": "It came to an end before.",
    "unresolved": "Seen, never resolved.",
    "not_seen": "Nothing in this memory is about it.",
}
#: What statements are called that are not called what they are about.
_LABELS = {"in_vain": "tried in vain", "then": "after which", "why": "because", "asked": "asked for"}


async def show_file(ask: PageRequest) -> Response:
    """Show what was said about a file, and who changed it; InvalidQuery without a path."""
    path = ask.argument("path")
    if not path:
        raise InvalidQuery("no file is named", "Follow a link of a file on another page.")
    recalled = await ask.memory.ask(RecallFor(file=path, **ask.scope_arguments))
    runs = await ask.memory.ask(ListRuns(file=path, **ask.scope_arguments))
    return _render(ask, "file", path, recalled, runs)


async def show_error(ask: PageRequest) -> Response:
    """Show how an error went before, by the citation of one.

    Raises InvalidQuery without a citation, NotFound for an unknown one.
    """
    grip = ask.argument("grip")
    if not grip:
        raise InvalidQuery("no error is named", "Follow a link of an error on another page.")
    runs = await ask.memory.ask(ListRuns(grip=grip, **ask.scope_arguments))
    recalled = await ask.memory.ask(RecallFor(error=runs["error"][-_ERROR:], **ask.scope_arguments))
    return _render(ask, "error", runs["error"][:_SHOWN], recalled, runs)


def _render(ask: PageRequest, kind: str, subject: str, recalled: dict[str, Any], runs: dict[str, Any]) -> Response:
    statements = [
        {**statement, "label": _LABELS.get(statement["about"], statement["about"])} for statement in recalled["statements"]
    ]
    values = {"kind": kind, "subject": subject, "outcome": _OUTCOMES.get(recalled["outcome"], ""), "statements": statements}
    calls = {name: runs[name] for name in ("runs", "total", "sessions")}
    return ask.render_template("work.html", **values, **calls, found=recalled)
