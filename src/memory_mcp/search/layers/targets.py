"""Find what the id of a node, grip or event stands for in a result."""

from memory_mcp.base.errors import NotFound
from memory_mcp.model.calendar import TocLevel, level_of, parents_of
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId, event_id_from, event_key, parse_node_id, parse_span_grip, segment_key_of
from memory_mcp.search.layers.base import Target
from memory_mcp.storage.base import Storage
from memory_mcp.tree.toc.tree import Tree


def find_target(storage: Storage, tree: Tree, missing: str, project: str | None = None) -> Target:
    """Return the target of a node's, a grip's or an event's id.

    Raises NotFound for an unknown id, and for one of another project than `project` (None: any). Malformed node ids raise as
    `parse_node_id`.
    """
    if missing.startswith("toc:"):
        return _node_target(storage, tree, missing, project)
    quoted_target = _find_quoted(storage, missing)
    if quoted_target is None or (project is not None and storage.projects.names.resolve_alias(quoted_target.project) != project):
        raise NotFound(f"nothing has the id {missing[:80]}", "Take an id from results, a node (browse_toc) or a grip.")
    return quoted_target


def _find_quoted(storage: Storage, missing: str) -> Target | None:
    """Return the target of a grip's or an event's id, if there is one.

    The ids of a longer duplicate stand for an event as well, and for a whole event those of all its grips.
    """
    span = parse_span_grip(missing)
    grip = storage.grips.find_grip(missing) if span is None and missing.startswith("grip:") else None
    if grip is not None:
        events = storage.events.get_events([grip.event_id_start, grip.event_id_end])
        return _make_target(missing, min(events.values(), key=lambda e: e.event_id != grip.event_id_start), {grip.grip_id})
    try:
        event = storage.events.find_event(span[0] if span else event_id_from(event_key(missing)))
    except (ValueError, NotFound):
        return None
    if event is None:
        return None
    # Of duplicate texts the longer one is shown, whichever is asked for.
    event_ids = {event.event_id, *storage.events.find_duplicates([event.event_id]).values()}
    grip_ids = {g.grip_id for several in storage.grips.grips_by_event(event_ids).values() for g in several}
    return _make_target(missing, event, {missing, *event_ids} if span else {*event_ids, *grip_ids})


def _make_target(missing: str, event: Event, ids: set[str]) -> Target:
    return Target(missing, frozenset(ids), event.project, event.agent, event.timestamp)


def _node_target(storage: Storage, tree: Tree, missing: str, project: str | None) -> Target:
    node = tree.node(parse_node_id(missing), project)
    ids = frozenset({node.node_id})
    if level_of(node.node_id) is not TocLevel.SEGMENT:
        # The periods above, nearest first, and then its own; the root, which is all time, is left out.
        above: list[NodeId] = list(parents_of(node.node_id))
        for other in above:
            above += [n for n in parents_of(other) if n not in above]
        listed_in = tuple(tree.calendar.node_window(n) for n in (*above, node.node_id) if n != ROOT)
        return Target(missing, ids, "", "", node.start_ms, True, listed_in)
    key = segment_key_of(node.node_id)
    segment = storage.toc.get_segments([key]).get(key) if key is not None else None
    project, agent = (segment.project, segment.agent) if segment is not None else ("", "")
    return Target(missing, ids, project, agent, node.start_ms)
