"""Completes ids, projects, agents, sessions and topics that a person begins to type in a client."""

from typing import Any

from mcp.server import MCPServer
from mcp.types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

from memory_mcp.app import App
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.fencing import neutralize
from memory_mcp.model.ids import ROOT
from memory_mcp.requests.scope import scope_of
from memory_mcp.server.calls import Kit
from memory_mcp.server.errors import as_protocol_error
from memory_mcp.storage.values import Scope

#: The protocol allows no more.
_MOST = 100
_PERIODS = (TocLevel.YEAR, TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY)
#: Sessions looked through, latest first, and topics, by importance.
_SESSIONS, _TOPICS = 1000, 1000


def add_completion(server: MCPServer, kit: Kit) -> None:
    """Let the server complete arguments of prompts and resources."""

    async def complete(
        ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
    ) -> Completion | None:
        """Return up to `_MOST` completions, and how many there are.

        Values that spell a tag of ours are left out and not counted. Raises MCPError with our text, as the library puts words
        of its own in the place of any other error.
        """
        del ref, context
        try:
            values = await kit.host.read(lambda app: _list_values(app, kit, argument.name, argument.value))
        except Exception as error:
            raise as_protocol_error(error, "completion") from error
        # An ending is passed back as it is: one that spells a tag of ours cannot be told otherwise, so it is not told.
        safe_values = [value for value in values if neutralize(value) == value]
        return Completion(values=safe_values[:_MOST], total=len(safe_values), has_more=len(safe_values) > _MOST)

    register: Any = server.completion  # the library leaves its decorator untyped
    register()(complete)


def _list_values(app: App, kit: Kit, name: str, typed: str) -> list[str]:
    """Return the visible values that may follow `typed`.

    Periods and sessions come newest first, topics by importance. Ids, sessions and agents must begin with
    `typed`, projects and topics' labels hold it anywhere, whatever its case. [] for any other argument.
    """
    project, bound = scope_of(app, "", "", kit.caller).project, kit.caller.bound(app)
    if name in ("node_id", "week"):
        levels = (TocLevel.WEEK,) if name == "week" else _PERIODS
        if typed.startswith("toc:segment:"):
            levels = (TocLevel.SEGMENT,)
        node_ids: list[str] = [i for level in levels for i in reversed(app.tree.descendants(ROOT, level, project))]
        if typed[:1].isdigit():  # the short form: 2026-W04
            node_ids = [i.rpartition(":")[2] for i in node_ids]
        return [i for i in node_ids if i.startswith(typed)]
    if name == "topic_id":
        # Areas, then topics, by importance; a word of a label completes to the topic's id.
        if not app.topics.status().usable:
            return []
        graph, view = app.topics.read_graph(), app.topics.read_view(project)
        topics = [*graph.list_topics(view, _TOPICS)[0], *graph.list_topics(view, _TOPICS, areas=False)[0]]
        return [t.topic_id for t in topics if t.topic_id.startswith(typed) or typed.lower() in t.label.lower()]
    if name == "session_id":
        sessions = app.storage.events.list_sessions(Scope(project=project), _SESSIONS)
        return [s.session_id for s in sessions if s.session_id.startswith(typed)]
    tally = app.tree.tally(bound)
    if name == "project":
        return [p for p in (tally.projects if bound is None else (bound,)) if typed.lower() in p.lower()]
    if name == "agent":
        return [a for a in tally.agents if a.startswith(typed.lower())]
    return []
