"""Choose nodes for better summaries, collect what they are written from, and publish the new text.

Invariants
1. What an agent refined or a user pinned is left alone, and so is what a language model wrote of what is there now.
2. New words are published only where the node still holds what they were written from.

Change here: which nodes a language model is asked about, and in which order.
"""

from collections.abc import Iterable
from dataclasses import field, replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import term_hash
from memory_mcp.capture.evidence import Evidence
from memory_mcp.model.calendar import Calendar, TocLevel, level_of, rollup_targets
from memory_mcp.model.ids import NodeId, day_id, segment_key_of
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocNode, make_llm_author
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.build import salience_of, segment_title, source_of_children, source_of_events, with_text_of
from memory_mcp.tree.derive.rollup import RollUps, period_name
from memory_mcp.tree.derive.terms import Frequencies, children_of
from memory_mcp.tree.llm.answer import CheckedSummary, Rarity
from memory_mcp.tree.llm.material import Material, period_material, segment_material
from memory_mcp.tree.summarize.base import Summarizer

#: A segment or day is settled after this time, a longer period a day after its last event (ms).
_SETTLED_MS, _SETTLED_LONG_MS = 3_600_000, 86_400_000
#: Tokens from which a fresh segment is worth asking about, and an older one.
_FRESH_TOKENS, _OLD_TOKENS = 200, 1000
#: A period with less below it says what its one child says.
_MIN_CHILDREN = 2
_PERIOD_ORDER = {TocLevel.MONTH: 0, TocLevel.YEAR: 1, TocLevel.WEEK: 2, TocLevel.DAY: 3}


@dataclass(slots=True)
class _PeriodContents:
    """Counts of what is below a period."""

    events: int = 0
    end_ms: int = 0
    #: The first few of them.
    children: set[NodeId] = field(default_factory=set)


def worth_improving(cuts: Iterable[Segment], taken_ids: frozenset[NodeId], calendar: Calendar, now_ms: int) -> list[NodeId]:
    """Return the nodes that are due, most valuable first.

    Pure; `taken_ids` have a text of their own and are left out. First the segments and days of today and yesterday, then
    longer periods and older days by their events, then older segments by their size. Open segments and days are due an hour
    after their last event, longer periods after a day; segments must have 200 tokens, older ones 1000, and periods two
    children.
    """
    fresh_days = {calendar.day_of(now_ms), calendar.day_of(now_ms - _SETTLED_LONG_MS)}
    ranked: list[tuple[int, int, int, NodeId]] = []
    below: dict[NodeId, _PeriodContents] = {}
    for cut in cuts:
        fresh = cut.day in fresh_days
        if (not cut.open or cut.end[0] <= now_ms - _SETTLED_MS) and cut.tokens >= (_FRESH_TOKENS if fresh else _OLD_TOKENS):
            ranked.append((0, 0, -cut.start[0], cut.node_id) if fresh else (3, 0, -cut.tokens, cut.node_id))
        day, week, month, year = rollup_targets(cut.day)
        for period, child in ((day, cut.node_id), (week, day), (month, day), (year, month)):
            contents = below.setdefault(period, _PeriodContents())
            contents.events += cut.events
            contents.end_ms = max(contents.end_ms, cut.end[0])
            if len(contents.children) < _MIN_CHILDREN:
                contents.children.add(child)
    fresh_ids = {day_id(day) for day in fresh_days}
    for period, contents in below.items():
        level = level_of(period)
        rests = contents.end_ms <= now_ms - (_SETTLED_MS if level is TocLevel.DAY else _SETTLED_LONG_MS)
        if rests and len(contents.children) >= _MIN_CHILDREN:
            ranked.append((1 if period in fresh_ids else 2, _PERIOD_ORDER[level], -contents.events, period))
    return [node_id for *_, node_id in sorted(ranked) if node_id not in taken_ids]


class Improver:
    """Collects what nodes are written from, and publishes the answers of a language model."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer) -> None:
        self._storage = storage
        self._calendar = calendar
        self._evidence = Evidence(storage)
        self._rollups = RollUps(storage, calendar, summarizer)

    def due(self, now_ms: int, model: str) -> list[NodeId]:
        """Return the nodes worth improving, most valuable first; see `worth_improving`.

        Left out are nodes that are pinned or have another author, and those that this model failed on, unchanged since.
        """
        toc = self._storage.toc
        taken_ids = frozenset(toc.get_authors()) | frozenset(NodeId(target) for target in toc.list_pins())
        due_ids = worth_improving(toc.iter_cuts(), taken_ids, self._calendar, now_ms)
        unusable = self._storage.spending.list_unusable(model)
        failed_ids = {node_id for node_id, _ in unusable}
        return [i for i in due_ids if i not in failed_ids or (i, self._source_digest(i)) not in unusable]

    def collect_material(self, node_id: NodeId) -> Material | None:
        """Return what a node is written from; None if nothing can be cited."""
        if level_of(node_id) is not TocLevel.SEGMENT:
            children = self._stored_children(node_id)
            cited = self._storage.grips.get_grips({g for child in children for b in child.bullets for g in b.grip_ids})
            cuts = self._storage.toc.get_segments({grip.segment for grip in cited.values()})
            owners = {grip_id: cuts[grip.segment] for grip_id, grip in cited.items() if grip.segment in cuts}
            words = self._evidence.read_quotes(list(cited.values()))
            material = period_material(node_id, children, words, owners, source_of_children(children))
        elif (cut := self._find_segment(node_id)) is not None:
            events = self._storage.events.segment_events(cut)
            grips = self._storage.grips.grips_by_event(e.event_id for e in events)
            words = self._evidence.read_quotes(
                list({g.grip_id: g for event_grips in grips.values() for g in event_grips}.values())
            )
            material = segment_material(cut, events, grips, words, source_of_events(events))
        else:
            return None
        return material if material.quotations else None

    def read_rarity(self) -> Rarity:
        """Return how rare words are in the memory now."""
        frequencies = Frequencies(self._storage.toc.list_frequencies())
        segments = sum(count for _, count in self._storage.toc.count_segments_by_day())
        return Rarity(lambda term, project: frequencies.segment_count(term_hash(term), project), segments)

    def publish(self, material: Material, written: CheckedSummary, model: str) -> bool:
        """Give a node its new words in one transaction.

        The caller holds the publishing lock. Return False, writing nothing, when it is gone, pinned, has other words by now,
        or holds something else than `material`.
        """
        stored = self._storage.toc.get_nodes([material.node_id]).get(material.node_id)
        if (
            stored is None
            or stored.author != EXTRACTIVE
            or stored.pinned
            or self._source_digest(material.node_id) != material.source
        ):
            return False
        is_segment = stored.level is TocLevel.SEGMENT
        name = "" if is_segment else period_name(stored.node_id)
        written_node = replace(
            stored,
            title=segment_title(self._calendar, stored.start_ms, written.title) if is_segment else f"{name} · {written.title}",
            summary=written.summary or written.title,
            bullets=written.bullets,
            kind=written.kind,
            salience=salience_of(written.bullets),
            author=make_llm_author(model, material.source),
        )
        if is_segment:
            node = replace(written_node, version=stored.version + 1)
        else:
            [now] = self._rollups.compute_nodes([stored.node_id], {stored.node_id: stored})
            node = with_text_of(written_node, now)
        self._storage.toc.publish_build(Build(nodes=(node,)))
        return True

    def _source_digest(self, node_id: NodeId) -> str:
        if level_of(node_id) is not TocLevel.SEGMENT:
            return source_of_children(self._stored_children(node_id))
        cut = self._find_segment(node_id)
        return source_of_events(self._storage.events.segment_events(cut)) if cut else ""

    def _find_segment(self, node_id: NodeId) -> Segment | None:
        key = segment_key_of(node_id)
        return self._storage.toc.get_segments([key]).get(key) if key is not None else None

    def _stored_children(self, node_id: NodeId) -> list[TocNode]:
        ids = children_of(self._storage.toc, node_id)
        return sorted(self._storage.toc.get_nodes(ids).values(), key=lambda n: (n.start_ms, n.node_id))
