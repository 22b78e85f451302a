"""Put the statements that replaced superseded ones, and the latest decisions, among the hits."""

from collections.abc import Iterable, Set
from dataclasses import replace

from memory_mcp.base.errors import NotFound
from memory_mcp.base.text import term_set
from memory_mcp.capture.evidence import Evidence
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.grip import RETRACTED
from memory_mcp.model.ids import GripId, grip_time
from memory_mcp.model.toc import MemoryKind
from memory_mcp.search.layers.base import Hit, pending_hit
from memory_mcp.search.layers.showing import add_standing
from memory_mcp.storage.base import Storage

#: Share of the query's terms that a decision must hold.
_NAMED = 0.5
#: Share of the best decision's terms that another one must hold.
_NEAR = 0.6
#: A pattern that matches nothing: decisions are selected by their kind.
_NOTHING = "a^"


class Successors:
    """Finds what supersedes a statement; as `policy.search.Successors`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def put_before(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return the hits, each superseded one after the statement that holds now.

        That statement scores at least as much as the best one it replaced. Retracted ones, and successors that were forgotten
        or are of another project, get none.
        """
        hits = list(hits)
        worth: dict[str, float] = {}
        for hit in hits:
            if hit.superseded_by:
                worth[hit.superseded_by] = max(hit.score, worth.get(hit.superseded_by, 0.0))
        if not worth:
            return hits
        known_grips = {grip for hit in hits for grip in (*hit.grip_ids, hit.grip_id)}
        hits_with_successors: list[Hit] = []
        for hit in hits:
            successor = hit.superseded_by
            if successor and successor != RETRACTED and successor not in known_grips:
                known_grips.add(GripId(successor))
                hits_with_successors += self._read_statement(GripId(successor), hit.project, worth[successor])
            shown_grip = hit.grip_id or next(iter(hit.grip_ids), "")
            hits_with_successors.append(replace(hit, score=max(hit.score, worth.get(shown_grip, 0.0))))
        return hits_with_successors

    def list_decisions(self, project: str | None, subject_terms: Set[str], window: TimeWindow | None, most: int) -> list[Hit]:
        """Return the newest `most` decisions on these terms, oldest first.

        A decision must hold half of the terms, and 60% of what the best one holds. Each comes after its successor. Reads every
        decision. `project` None means all.
        """
        decisions: list[tuple[float, int, GripId, str]] = []
        for statement in self._storage.superseded.list_statements([MemoryKind.DECISION.value], _NOTHING):
            share = len(subject_terms & term_set(statement.text)) / len(subject_terms) if subject_terms else 1.0
            at_ms = grip_time(statement.grip_id)
            if project in (None, statement.project) and share >= _NAMED and (window is None or window.contains(at_ms)):
                decisions.append((share, at_ms, statement.grip_id, statement.project))
        best = max((share for share, *_ in decisions), default=0.0)
        newest = sorted((at_ms, grip_id, of) for share, at_ms, grip_id, of in decisions if share >= _NEAR * best)[-most:]
        hits = [hit for _, grip_id, of in newest for hit in self._read_statement(grip_id, of, best)]
        return self.put_before(hits)

    def _read_statement(self, grip_id: GripId, project: str, score: float) -> list[Hit]:
        try:
            expanded = Evidence(self._storage).expand_grip(grip_id, 0, 0)
        except NotFound:
            return []
        event = expanded.excerpt[0]
        if event.project != project:
            return []
        hit = pending_hit(event, expanded.grip_id, expanded.quote, score)
        if expanded.node_segment is not None:
            [segment] = self._storage.toc.get_segments([expanded.node_segment]).values()
            heads = self._storage.toc.get_heads([segment.node_id])
            hit = replace(hit, node_id=segment.node_id, grip_id=expanded.grip_id, title="".join(h.title for h in heads.values()))
        return add_standing([hit], {}, self._storage)
