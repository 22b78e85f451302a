"""The tree as it will be once a build is published, so that its periods can be published with it."""

from collections.abc import Iterable, Sequence

from memory_mcp.model.ids import NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import TocStore
from memory_mcp.storage.values import Build, Tally


class PendingToc:
    """What `store` returns once `build` is published. Of all projects together."""

    def __init__(self, store: TocStore, build: Build) -> None:
        """Look through to `store` for what `build` leaves as it is."""
        self._store = store
        self._nodes = {node.node_id: node for node in build.nodes}
        self._cuts = build.segments

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the latest versions of existing nodes."""
        wanted_ids = set(ids)
        pending_nodes = {i: node for i, node in self._nodes.items() if i in wanted_ids}
        return self._store.get_nodes(wanted_ids - pending_nodes.keys()) | pending_nodes

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        """Return the days of a span with a segment, in order."""
        pending_days = {cut.day for cut in self._list_cuts(first_day, after_day)}
        return sorted(pending_days.union(self._store.list_days(project, first_day, after_day)))

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Return the segments of a span by start."""
        cuts = {cut.key: cut for cut in self._store.list_day_segments(first_day, after_day, project)}
        cuts |= {cut.key: cut for cut in self._list_cuts(first_day, after_day)}
        return sorted(cuts.values(), key=lambda cut: cut.start)

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:  # noqa: ARG002
        """Return the counts of a span. Raises LookupError if the store cannot tell."""
        tally = self._store.tally_with(first_day, after_day, self._cuts)
        if tally is None:
            raise LookupError("the store does not count what is not published")
        return tally

    def _list_cuts(self, first_day: str, after_day: str) -> Sequence[Segment]:
        return [cut for cut in self._cuts if first_day <= cut.day < after_day]


#: What periods are made from.
PeriodSource = TocStore | PendingToc
