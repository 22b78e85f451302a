"""Find what the id of a node, grip or event stands for in a result."""

from collections import Counter

from memory_mcp.errors import NotFound
from memory_mcp.events.evidence import quoted
from memory_mcp.layers.base import Target
from memory_mcp.model.calendar import TocLevel, level_of, parents
from memory_mcp.model.event import Event
from memory_mcp.model.ids import ROOT, NodeId, event_id_from, event_key, parse_node_id, parse_span_grip, segment_key_of
from memory_mcp.storage.base import Storage
from memory_mcp.text import STOPWORDS, term_hash, terms
from memory_mcp.toc.tree import Tree

#: Most words returned for a text.
_WORDS = 12


def target(storage: Storage, tree: Tree, missing: str, project: str | None = None) -> Target:
    """Return the target of a node's, a grip's or an event's id.

    Raises NotFound for an unknown id, and for one of another project than `project` (None: any). Malformed
    node ids raise as `parse_node_id`.
    """
    if missing.startswith("toc:"):
        return _node(storage, tree, missing, project)
    found = _quoted(storage, tree, missing)
    if found is None or (project is not None and storage.projects.names.of(found.project) != project):
        raise NotFound(f"nothing has the id {missing[:80]}", "Take an id from results, a node (browse_toc) or a grip.")
    return found


def _quoted(storage: Storage, tree: Tree, missing: str) -> Target | None:
    """Return the target of a grip's or an event's id; None if there is no such grip or event.

    The ids of a longer duplicate stand for an event as well, and for a whole event those of all its grips.
    """
    span = parse_span_grip(missing)
    grip = storage.grips.find(missing) if span is None and missing.startswith("grip:") else None
    if grip is not None:
        events = storage.events.get_many([grip.event_id_start, grip.event_id_end])
        pair = sorted(events.values(), key=lambda e: e.event_id != grip.event_id_start)
        return _said(tree, missing, pair[0], quoted(grip, pair), {grip.grip_id})
    try:
        event = storage.events.find(span[0] if span else event_id_from(event_key(missing)))
    except (ValueError, NotFound):
        return None
    if event is None:
        return None
    # Of duplicate texts the longer one is shown, whichever is asked for.
    told = {event.event_id, *storage.events.duplicates([event.event_id]).values()}
    own = {g.grip_id for several in storage.grips.of_events(told).values() for g in several}
    text = event.text[span[1] : span[2]] if span else event.text
    return _said(tree, missing, event, text, {missing, *told} if span else {*told, *own})


def _said(tree: Tree, missing: str, event: Event, text: str, ids: set[str]) -> Target:
    """Return the target `missing` for a text of an event, with its project, agent and time; `ids` stand for it in results."""
    telling = _telling(tree, text)
    return Target(missing, frozenset(ids), event.project, event.agent, event.timestamp, telling)


def _node(storage: Storage, tree: Tree, missing: str, project: str | None) -> Target:
    """Return the target of a node's id. Raises NotFound for one that this project does not have.

    A period has the words of its keywords and bullets, and "" as project and agent; a segment has those of its events.
    """
    node = tree.node(parse_node_id(missing), project)
    ids = frozenset({node.node_id})
    if level_of(node.node_id) is not TocLevel.SEGMENT:
        words = _telling(tree, " ".join((*node.keywords, *(b.text for b in node.bullets))))
        # The periods above, nearest first, and then its own; the root, which is all time, is left out.
        above: list[NodeId] = list(parents(node.node_id))
        for other in above:
            above += [n for n in parents(other) if n not in above]
        listed_in = tuple(tree.calendar.window(n) for n in (*above, node.node_id) if n != ROOT)
        return Target(missing, ids, "", "", node.start_ms, words, True, listed_in)
    key = segment_key_of(node.node_id)
    segment = storage.toc.segments([key]).get(key) if key is not None else None
    said = storage.events.in_segment(segment) if segment is not None else []
    words = _telling(tree, " ".join(e.text for e in said))
    project, agent = (segment.project, segment.agent) if segment is not None else ("", "")
    return Target(missing, ids, project, agent, node.start_ms, words)


def _telling(tree: Tree, text: str) -> tuple[str, ...]:
    """Return the up to 12 rarest words of a text by segment frequency, as written but in lower case."""
    frequencies = tree.frequencies()
    counts = Counter(w.strip(".,;:!?()[]{}<>\"'`").lower() for w in text.split())
    ranked: list[tuple[int, int, str]] = []
    for word, count in counts.items():
        found = terms(word)
        if word and word not in STOPWORDS and len(word) > 1 and found:
            ranked.append((max(1, min(frequencies.of(term_hash(t), None) for t in found)), -count, word))
    return tuple(word for _, _, word in sorted(ranked)[:_WORDS])
