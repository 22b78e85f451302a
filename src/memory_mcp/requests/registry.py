"""The module of every request, by the request's name, and its function.

Change here: add a request.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memory_mcp.base import extensions
from memory_mcp.base.storable import storable_value
from memory_mcp.requests.entry import BY_TYPE, ENTRIES, Entry
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.response import with_loss
from memory_mcp.requests.scope import Caller

if TYPE_CHECKING:
    from memory_mcp.app import App

# Requests by name with their modules, of this package or by a full name. All together take 150 ms to load, so each is loaded
# when it is used.

#: Tools of the default profile, in the order in which they are listed.
DEFAULT_TOOLS = {
    "intelligent_search": "search",
    "recall_for": "recall_for",
    "continue_session": "continuing",
    "get_retrieval_status": "status",
    "browse_toc": "nodes",
    "search_children": "words",
    "teleport_search": "teleport",
    "vector_teleport": "teleport",
    "topics_by_query": "topics",
    "expand_grip": "expand",
    "remember": "writing",
}
#: Tools that the full profile adds.
FULL_TOOLS = {
    "get_toc_root": "nodes",
    "get_node": "nodes",
    "get_events": "events",
    "search_node": "words",
    "navigate": "walk",
    "plan_query": "search",
    "classify_query": "search",
    "hybrid_search": "teleport",
    "get_teleport_status": "indexes",
    "get_vector_index_status": "indexes",
    "rebuild_index": "indexes",
    "prune_index": "indexes",
    "get_top_topics": "topics",
    "get_toc_nodes_for_topic": "one_topic",
    "get_related_topics": "one_topic",
    "label_topic": "one_topic",
    "get_topic_graph_status": "indexes",
    "ingest_events": "writing",
    "handoff": "continuing",
    "refine_due": "refine_show",
    "refine_show": "refine_show",
    "refine_summary": "refine",
    "pin": "pins",
    "correct": "correct",
    "retract": "correct",
    "list_projects": "projects",
    "list_agents": "projects",
    "get_agent_activity": "activity",
    "alias_project": "projects",
    "split_project": "projects",
    "undo_project": "projects",
    "forget": "forget",
    "pause_capture": "capturing",
    "resume_capture": "capturing",
}
#: Requests of commands and pages alone.
WITHOUT_TOOLS = {
    "get_topic": "one_topic",
    "audit": "correct",
    "list_paused": "capturing",
    "exclude": "excluding",
    "include": "excluding",
    "list_excluded": "excluding",
    "list_jobs": "jobs",
    "run_job": "jobs",
    "pause_job": "jobs",
    "resume_job": "jobs",
    "get_topic_map": "topics",
    "export_shown": "shown",
    "get_overview": "overview",
    "get_spend": "spend",
    "list_clients": "clients",
    "list_hints": "hints",
    "reject_hint": "hints",
    "get_timeline": "timeline",
    "get_today": "today",
    "get_friction": "friction",
    "list_runs": "run_list",
}
#: The full name of each request's module, by the request's name.
REQUESTS: Mapping[str, str] = {
    name: f"{__package__}.{module}" for name, module in (DEFAULT_TOOLS | FULL_TOOLS | WITHOUT_TOOLS).items()
}


def all_requests() -> Mapping[str, str]:
    """Return the module of every request by name, of other packages too; entry points are read."""
    return {**REQUESTS, **extensions.load_all(extensions.REQUESTS)}


def load_entry(name: str) -> Entry:
    """Return a request's entry; its module is loaded. Raises KeyError for an unknown name."""
    import_module(REQUESTS[name] if name in REQUESTS else all_requests()[name])
    return ENTRIES[name]


def respond(app: "App", request: Any, caller: Caller) -> Any:
    """Run the function of a request and return its response; raises what that raises."""
    field_values = {field.name: getattr(request, field.name) for field in fields(request)}
    mended = {name: clean for name, value in field_values.items() if (clean := storable_value(value)) is not value}
    if mended:
        # No engine takes a NUL byte or half a character, and one refuses what another would keep.
        request = replace(request, **mended)
    return BY_TYPE[type(request)].handle(app, request, caller)


def answer(app: "App", request: Any, caller: Caller) -> dict[str, Any]:
    """Return a request's response as JSON values; raises what its function raises."""
    shaped: dict[str, Any] = as_json(respond(app, request, caller))
    return with_loss(app, shaped)
