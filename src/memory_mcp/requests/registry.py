"""All requests by the name of their tool, one line each; those that only commands use are named alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery
from memory_mcp.requests import (
    activity,
    capturing,
    clients,
    correct,
    events,
    excluding,
    expand,
    forget,
    indexes,
    jobs,
    nodes,
    one_topic,
    overview,
    pins,
    plans,
    projects,
    refine,
    refine_show,
    search,
    share,
    shown,
    spend,
    status,
    teleport,
    timeline,
    today,
    topic_map,
    topics,
    walk,
    words,
)
from memory_mcp.requests.limits import Bounds
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.response import with_loss
from memory_mcp.requests.scope import Caller


@dataclass(frozen=True, slots=True)
class Entry:
    """A request type and the function that handles it."""

    request: type[Any]
    handle: Callable[[App, Any, Caller], Any]


REQUESTS: Mapping[str, Entry] = {
    "intelligent_search": Entry(search.SearchRequest, search.search),
    "teleport_search": Entry(teleport.TeleportSearch, teleport.teleport),
    "vector_teleport": Entry(teleport.VectorTeleport, teleport.teleport),
    "hybrid_search": Entry(teleport.HybridSearch, teleport.teleport),
    "topics_by_query": Entry(topics.TopicsByQuery, topics.topics_by_query),
    "get_top_topics": Entry(topics.TopTopics, topics.top_topics),
    "get_topic_map": Entry(topic_map.GetTopicMap, topic_map.get_topic_map),
    "get_topic": Entry(one_topic.GetTopic, one_topic.get_topic),
    "get_toc_nodes_for_topic": Entry(one_topic.TopicNodes, one_topic.topic_nodes),
    "get_related_topics": Entry(one_topic.RelatedTopics, one_topic.related_topics),
    "label_topic": Entry(one_topic.LabelTopic, one_topic.label_topic),
    "export_shown": Entry(shown.ExportShown, shown.export_shown),
    "expand_grip": Entry(expand.ExpandRequest, expand.expand),
    "browse_toc": Entry(nodes.Browse, nodes.browse),
    "get_node": Entry(nodes.GetNode, nodes.get_node),
    "get_events": Entry(events.GetEvents, events.get_events),
    "search_children": Entry(words.SearchChildren, words.search_children),
    "search_node": Entry(words.SearchNode, words.search_node),
    "navigate": Entry(walk.Navigate, walk.navigate),
    "plan_query": Entry(plans.PlanQuery, plans.plan_query),
    "classify_query": Entry(plans.ClassifyQuery, plans.classify_query),
    "get_retrieval_status": Entry(status.GetStatus, status.get_status),
    "get_overview": Entry(overview.GetOverview, overview.get_overview),
    "get_spend": Entry(spend.GetSpend, spend.get_spend),
    "get_teleport_status": Entry(indexes.GetTeleportStatus, indexes.teleport_status),
    "get_vector_index_status": Entry(indexes.GetVectorStatus, indexes.vector_status),
    "get_topic_graph_status": Entry(indexes.GetTopicGraphStatus, indexes.topic_graph_status),
    "rebuild_index": Entry(indexes.RebuildIndex, indexes.rebuild_index),
    "refine_due": Entry(refine.RefineDue, refine.refine_due),
    "refine_show": Entry(refine_show.RefineShow, refine_show.refine_show),
    "refine_summary": Entry(refine.RefineSummary, refine.refine_summary),
    "prune_index": Entry(indexes.PruneIndex, indexes.prune_index),
    "pin": Entry(pins.Pin, pins.pin),
    "correct": Entry(correct.Correct, correct.correct),
    "retract": Entry(correct.Retract, correct.retract),
    "audit": Entry(correct.Audit, correct.audit),
    "forget": Entry(forget.Forget, forget.forget),
    "list_clients": Entry(clients.ListClients, clients.list_clients),
    "list_jobs": Entry(jobs.ListJobs, jobs.list_jobs),
    "run_job": Entry(jobs.RunJob, jobs.run_job),
    "pause_job": Entry(jobs.PauseJob, jobs.pause_job),
    "resume_job": Entry(jobs.ResumeJob, jobs.resume_job),
    "list_projects": Entry(projects.ListProjects, projects.list_projects),
    "list_agents": Entry(projects.ListAgents, projects.list_agents),
    "get_agent_activity": Entry(activity.GetAgentActivity, activity.get_agent_activity),
    "get_timeline": Entry(timeline.GetTimeline, timeline.get_timeline),
    "get_today": Entry(today.GetToday, today.get_today),
    "alias_project": Entry(projects.AliasProject, projects.alias_project),
    "split_project": Entry(projects.SplitProject, projects.split_project),
    "pause_capture": Entry(capturing.PauseCapture, capturing.pause_capture),
    "list_paused": Entry(capturing.ListPaused, capturing.list_paused),
    "resume_capture": Entry(capturing.ResumeCapture, capturing.resume_capture),
    "list_excluded": Entry(excluding.ListExcluded, excluding.list_excluded),
    "exclude": Entry(excluding.Exclude, excluding.exclude),
    "include": Entry(excluding.Include, excluding.include),
    "undo_project": Entry(projects.UndoProject, projects.undo_project),
    "share_to": Entry(share.ShareTo, share.share_to),
    "share_project": Entry(share.ShareProject, share.share_project),
    "unshare_project": Entry(share.UnshareProject, share.unshare_project),
    "share_now": Entry(share.ShareNow, share.share_now),
    "share_status": Entry(share.ShareStatus, share.share_status),
    "share_off": Entry(share.ShareOff, share.share_off),
}
#: Names of the requests that change stored data or settings.
WRITING = frozenset(
    {
        *("label_topic", "rebuild_index", "refine_summary", "prune_index", "pin", "correct", "retract", "forget"),
        *("alias_project", "split_project", "undo_project", "pause_capture", "resume_capture"),
        *("exclude", "include", "run_job", "pause_job", "resume_job"),
        *("share_to", "share_project", "unshare_project", "share_now", "share_off"),
    }
)
_HANDLERS = {entry.request: entry.handle for entry in REQUESTS.values()}


def respond(app: App, request: Any, caller: Caller) -> Any:
    """Run the handler of a request, found by its type, and return its response.

    Raises KeyError for a type that is not in `REQUESTS`, and what the handler raises.
    """
    return _HANDLERS[type(request)](app, request, caller)


def reading(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return a read-only request made from its name and arguments.

    Raises InvalidQuery when no read-only request has that name, or an argument is missing, unknown or of another
    type.
    """
    if name not in REQUESTS or name in WRITING:
        raise InvalidQuery(f"no reading request is called {name!r}", "Both sides must be of the same version.")
    kind = REQUESTS[name].request
    known = get_type_hints(kind)
    given = dict(arguments)
    try:
        if isinstance(bounds := given.get("bounds"), Mapping):
            given["bounds"] = Bounds(**bounds)
    except TypeError as error:
        raise InvalidQuery(f"bounds of {name} cannot be read: {error}") from None
    for key, value in given.items():
        if key not in known:
            raise InvalidQuery(f"{name} has no argument {key!r}", f"Its arguments are {', '.join(known)}.")
        if not isinstance(value, known[key]):
            raise InvalidQuery(f"{key} of {name} cannot be {value!r:.80}")
    try:
        return kind(**given)
    except TypeError as error:
        raise InvalidQuery(f"{name} cannot be asked so: {error}") from None


def answer(app: App, request: Any, caller: Caller) -> dict[str, Any]:
    """Run a request and return its response as JSON values, with a notice where events are lost.

    Raises what its handler raises.
    """
    shaped: dict[str, Any] = as_json(respond(app, request, caller))
    return with_loss(app, shaped)
