"""All requests by the name of their tool, one line each; those that only commands use are named alike.

Change here: add an argument to a tool or a command.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, NamedTuple

from memory_mcp.app import App
from memory_mcp.base import extensions
from memory_mcp.base.storable import storable_value
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.response import with_loss
from memory_mcp.requests.scope import Caller


class Entry(NamedTuple):
    """A module with the names of a request type and of the function that handles it; it is loaded when used.

    All modules together take 150 ms to load, and a process that was started for one question uses a few.
    """

    #: Of this package by its name alone, of another by its full name.
    module: str
    request_name: str
    handler_name: str

    @property
    def request(self) -> type[Any]:
        """The request type; its module is loaded if necessary."""
        return self._load(self.request_name)  # type: ignore[no-any-return]

    @property
    def handle(self) -> Callable[[App, Any, Caller], Any]:
        """The function that handles a request; its module is loaded."""
        return self._load(self.handler_name)  # type: ignore[no-any-return]

    @property
    def path(self) -> str:
        """The module's full name."""
        return self.module if "." in self.module else f"{__package__}.{self.module}"

    def _load(self, name: str) -> Any:
        return getattr(import_module(self.path), name)


REQUESTS: Mapping[str, Entry] = {
    "intelligent_search": Entry("search", "SearchRequest", "search"),
    "teleport_search": Entry("teleport", "TeleportSearch", "teleport"),
    "vector_teleport": Entry("teleport", "VectorTeleport", "teleport"),
    "hybrid_search": Entry("teleport", "HybridSearch", "teleport"),
    "topics_by_query": Entry("topics", "TopicsByQuery", "topics_by_query"),
    "get_top_topics": Entry("topics", "TopTopics", "top_topics"),
    "get_topic_map": Entry("topic_map", "GetTopicMap", "get_topic_map"),
    "get_topic": Entry("one_topic", "GetTopic", "get_topic"),
    "get_toc_nodes_for_topic": Entry("one_topic", "TopicNodes", "topic_nodes"),
    "get_related_topics": Entry("one_topic", "RelatedTopics", "related_topics"),
    "label_topic": Entry("one_topic", "LabelTopic", "label_topic"),
    "export_shown": Entry("shown", "ExportShown", "export_shown"),
    "expand_grip": Entry("expand", "ExpandRequest", "expand"),
    "browse_toc": Entry("nodes", "Browse", "browse"),
    "get_node": Entry("nodes", "GetNode", "get_node"),
    "get_events": Entry("events", "GetEvents", "get_events"),
    "search_children": Entry("words", "SearchChildren", "search_children"),
    "search_node": Entry("words", "SearchNode", "search_node"),
    "navigate": Entry("walk", "Navigate", "navigate"),
    "plan_query": Entry("plans", "PlanQuery", "plan_query"),
    "classify_query": Entry("plans", "ClassifyQuery", "classify_query"),
    "get_retrieval_status": Entry("status", "GetStatus", "get_status"),
    "get_overview": Entry("overview", "GetOverview", "get_overview"),
    "get_spend": Entry("spend", "GetSpend", "get_spend"),
    "get_teleport_status": Entry("indexes", "GetTeleportStatus", "teleport_status"),
    "get_vector_index_status": Entry("indexes", "GetVectorStatus", "vector_status"),
    "get_topic_graph_status": Entry("indexes", "GetTopicGraphStatus", "topic_graph_status"),
    "rebuild_index": Entry("indexes", "RebuildIndex", "rebuild_index"),
    "refine_due": Entry("refine", "RefineDue", "refine_due"),
    "refine_show": Entry("refine_show", "RefineShow", "refine_show"),
    "refine_summary": Entry("refine", "RefineSummary", "refine_summary"),
    "prune_index": Entry("indexes", "PruneIndex", "prune_index"),
    "pin": Entry("pins", "Pin", "pin"),
    "correct": Entry("correct", "Correct", "correct"),
    "retract": Entry("correct", "Retract", "retract"),
    "audit": Entry("correct", "Audit", "audit"),
    "forget": Entry("forget", "Forget", "forget"),
    "list_clients": Entry("clients", "ListClients", "list_clients"),
    "list_jobs": Entry("jobs", "ListJobs", "list_jobs"),
    "run_job": Entry("jobs", "RunJob", "run_job"),
    "pause_job": Entry("jobs", "PauseJob", "pause_job"),
    "resume_job": Entry("jobs", "ResumeJob", "resume_job"),
    "list_projects": Entry("projects", "ListProjects", "list_projects"),
    "list_agents": Entry("projects", "ListAgents", "list_agents"),
    "get_agent_activity": Entry("activity", "GetAgentActivity", "get_agent_activity"),
    "get_timeline": Entry("timeline", "GetTimeline", "get_timeline"),
    "get_today": Entry("today", "GetToday", "get_today"),
    "alias_project": Entry("projects", "AliasProject", "alias_project"),
    "split_project": Entry("projects", "SplitProject", "split_project"),
    "pause_capture": Entry("capturing", "PauseCapture", "pause_capture"),
    "list_paused": Entry("capturing", "ListPaused", "list_paused"),
    "resume_capture": Entry("capturing", "ResumeCapture", "resume_capture"),
    "list_excluded": Entry("excluding", "ListExcluded", "list_excluded"),
    "exclude": Entry("excluding", "Exclude", "exclude"),
    "include": Entry("excluding", "Include", "include"),
    "undo_project": Entry("projects", "UndoProject", "undo_project"),
}


def all_requests() -> Mapping[str, Entry]:
    """Return all packages' requests by name; entry points are read."""
    return {**REQUESTS, **extensions.load_all(extensions.REQUESTS)}


def _by_type(requests: Mapping[str, Entry]) -> dict[tuple[str, str], Entry]:
    return {(entry.path, entry.request_name): entry for entry in requests.values()}


_BY_TYPE = _by_type(REQUESTS)


def respond(app: App, request: Any, caller: Caller) -> Any:
    """Run the handler of a request and return its response.

    Raises KeyError for a type that is not in `all_requests`, and what the handler raises.
    """
    kind = type(request)
    field_values = {field.name: getattr(request, field.name) for field in fields(request)}
    mended = {name: clean for name, value in field_values.items() if (clean := storable_value(value)) is not value}
    if mended:
        # No engine takes a NUL byte or half a character, and one refuses what another would keep.
        request = replace(request, **mended)
    name = (kind.__module__, kind.__name__)
    entry = _BY_TYPE.get(name) or _by_type(all_requests())[name]
    return entry.handle(app, request, caller)


def answer(app: App, request: Any, caller: Caller) -> dict[str, Any]:
    """Run a request and return its response as JSON values.

    Raises what its handler raises.
    """
    shaped: dict[str, Any] = as_json(respond(app, request, caller))
    return with_loss(app, shaped)
