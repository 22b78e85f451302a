"""A superseded statement in, the one that stands in its place out: it answers, whether or not the question's words are in it."""

from collections.abc import Iterable
from dataclasses import replace

from memory_mcp.errors import NotFound
from memory_mcp.events.evidence import Evidence
from memory_mcp.layers.base import Hit, unfiled_hit
from memory_mcp.layers.standing import with_standing
from memory_mcp.model.ids import GripId
from memory_mcp.model.superseded import RETRACTED
from memory_mcp.storage.base import Storage


def with_successors(hits: Iterable[Hit], storage: Storage) -> list[Hit]:
    """`hits`, each superseded one behind the statement that holds now, with the same score; free where none is superseded."""
    hits = list(hits)
    if not any(hit.superseded_by for hit in hits):
        return hits
    known = {grip for hit in hits for grip in (*hit.grip_ids, hit.grip_id)}
    made: list[Hit] = []
    for hit in hits:
        successor = hit.superseded_by
        if successor and successor != RETRACTED and successor not in known:
            known.add(GripId(successor))
            made += _shown(GripId(successor), hit, storage)
        made.append(hit)
    return made


def _shown(grip_id: GripId, old: Hit, storage: Storage) -> list[Hit]:
    """The statement as a hit; none where it was forgotten, or belongs to another project."""
    try:
        found = Evidence(storage).expand(grip_id, 0, 0)
    except NotFound:
        return []
    event = found.excerpt[0]
    if event.project != old.project:
        return []
    hit = unfiled_hit(event, found.grip_id, found.quote, old.score)
    if found.node_segment is not None:
        [segment] = storage.toc.segments([found.node_segment]).values()
        heads = storage.toc.heads([segment.node_id])
        hit = replace(hit, node_id=segment.node_id, grip_id=found.grip_id, title="".join(h.title for h in heads.values()))
    return with_standing([hit], {}, storage)
