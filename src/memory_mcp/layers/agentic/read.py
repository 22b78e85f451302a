"""Segments that may hold the query in, hits with exact quotations out: the part of layer 2 that reads what was said."""

import heapq
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_mcp.events.evidence import Evidence, quotes_in
from memory_mcp.layers.agentic.match import Weighted, count_terms, text_score
from memory_mcp.layers.base import Hit, unfiled_hit
from memory_mcp.layers.standing import with_standing
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, EventType
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, NodeId, span_grip_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.text import term_set
from memory_mcp.toc.build import searchable
from memory_mcp.toc.tree import Tree

#: Grips named by one hit.
GRIPS_PER_HIT = 3
#: A quotation of words that no stored grip covers, characters.
_SPAN = 400
#: A tool's output is quoted only when it says clearly more than anybody did.
_VOICE = {EventType.TOOL_CALL: 0.7, EventType.TOOL_RESULT: 0.7}
#: Events not yet in the tree that are read at a time.
_WAITING = 5000
#: Of those, so many at a time are taken apart into terms: a tenth of a millisecond each.
_LIKELY = 150
#: Segments whose events are kept in memory, about 16 KB of text each.
_KEPT = 128
#: How much a segment's own summary counts beside its events' words: it repeats what matters, and never gates.
_SUMMARY_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class Found:
    """A segment whose own words hold query terms: verified, never by hash alone."""

    segment: Segment
    node: TocNode
    #: The events that hold terms, with their counts.
    events: tuple[tuple[Event, Counter[str]], ...]
    terms: frozenset[str]
    coverage: float
    score: float


class Reader:
    """Reads segments and picks the words to quote."""

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree
        self._evidence = Evidence(storage)
        #: By segment key and build.
        self._kept: OrderedDict[tuple[int, int], list[Event]] = OrderedDict()
        self._lock = threading.Lock()

    def verify(
        self,
        segments: Sequence[Segment],
        query: Weighted,
        window: TimeWindow | None,
        mean_tokens: float,
        gone: Callable[[], bool] = lambda: False,
    ) -> list[Found]:
        """Those segments whose events inside the window hold query terms, with their scores; none further once `gone`."""
        nodes = self._tree.nodes([s.node_id for s in segments])
        events = self._events(segments, nodes)
        found = []
        for segment in segments:
            if gone():
                break
            own = [e for e in events.get(segment.key, ()) if window is None or window.contains(e.timestamp)]
            matched = _matching(own, query)
            node = nodes.get(segment.node_id)
            if matched and node:
                found.append(_found(segment, node, matched, query, mean_tokens))
        return found

    def _events(self, segments: Sequence[Segment], nodes: Mapping[NodeId, TocNode]) -> dict[int, list[Event]]:
        """Events by segment key; those read lately are kept, under the very build they were read for."""
        built = {s.key: (s.key, nodes[s.node_id].built) for s in segments if s.node_id in nodes}
        with self._lock:
            kept = {key: self._kept[place] for key, place in built.items() if place in self._kept}
        missing = [s for s in segments if s.key not in kept]
        if missing:
            read = self._without_outdone(self._storage.events.in_segments(missing))
            with self._lock:
                for segment in missing:
                    if segment.key in built:
                        self._kept[built[segment.key]] = read.get(segment.key, [])
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        if kept and self._tree.pending_from() is not None:
            kept = self._still_shown(kept)
        return kept | read if missing else kept

    def _without_outdone(self, read: Mapping[int, list[Event]]) -> dict[int, list[Event]]:
        """Without segments all of whose words are told elsewhere at greater length: those are found there."""
        hidden = self._storage.events.duplicates(own[0].event_id for own in read.values())
        return {key: own for key, own in read.items() if own[0].event_id not in hidden}

    def _still_shown(self, kept: Mapping[int, list[Event]]) -> dict[int, list[Event]]:
        """Without the events whose longer duplicate waits to be filed."""
        hidden = self._storage.events.duplicates(e.event_id for own in kept.values() for e in own)
        return {key: [e for e in own if e.event_id not in hidden] for key, own in kept.items()}

    def hits(self, found: Sequence[Found], query: Weighted) -> list[Hit]:
        """A hit for each, in the order given: its best words, exactly as stored, and the grips that prove them."""
        chosen = {f.segment.key: _best_events(f, query) for f in found}
        grips = self._storage.grips.of_events({e.event_id for events in chosen.values() for e in events})
        read = {e.event_id: e for f in found for e, _ in f.events}
        quotes = self._quotes([g for several in grips.values() for g in several], read)
        hits = [self._hit(f, chosen[f.segment.key], grips, quotes, query) for f in found]
        return with_standing(hits, {f.node.node_id: f.node for f in found}, self._storage)

    def _quotes(self, grips: Sequence[Grip], read: Mapping[EventId, Event]) -> dict[GripId, str]:
        """The words of some grips; most are of events that were read already."""
        missing = [g for g in grips if not {g.event_id_start, g.event_id_end} <= read.keys()]
        return quotes_in(grips, read) | (self._evidence.quotes(missing) if missing else {})

    def _hit(
        self,
        found: Found,
        events: Sequence[Event],
        grips: dict[EventId, list[Grip]],
        quotes: dict[GripId, str],
        query: Weighted,
    ) -> Hit:
        best = events[0]
        named: list[tuple[GripId, str]] = []
        for event in events:
            named.append(_quote(event, grips.get(event.event_id, []), quotes, query))
        ids = tuple(dict.fromkeys(g for g, _ in named))[:GRIPS_PER_HIT]
        return Hit(
            node_id=found.node.node_id,
            title=found.node.title,
            quote=named[0][1],
            grip_ids=ids,
            timestamp=best.timestamp,
            session_id=found.segment.session_id,
            project=found.segment.project,
            agent=found.segment.agent,
            role=best.role.value,
            speaker=best.speaker,
            score=round(found.score, 4),
            parts=(("coverage", round(found.coverage, 4)), ("terms", round(found.score, 4))),
            event_id=best.event_id,
            kind=best.metadata.get("kind", ""),
        )

    def waiting(self, after_seq: int, scope: Scope, stop: Callable[[], bool], probes: Sequence[str] = ()) -> Iterator[Event]:
        """Events that are stored and not yet part of the tree, until `stop` says that there is no time for more.

        With `probes`, the engine leaves out those that hold none of them: during an import thousands wait.
        """
        last = self._storage.events.last_seq()
        while after_seq < last and not stop():
            yield from self._storage.events.arrived(after_seq, after_seq + _WAITING, scope, probes)
            after_seq += _WAITING

    def pending(self, query: Weighted, events: Iterable[Event], limit: int) -> list[Hit]:
        """The best hits among events that are not yet part of the tree.

        Of many that may match, those with most of the query's words are read first, the newest first; the others only
        while none of those does match.
        """
        likely = sorted(events, key=lambda e: (query.probes_in(searchable(e)), e.order), reverse=True)
        parts = (_matching(likely[start : start + _LIKELY], query) for start in range(0, len(likely), _LIKELY))
        matched = next((part for part in parts if part), [])
        scored = ((text_score(query, counts, 1, 1), event, counts) for event, counts in matched)
        best = heapq.nlargest(limit, scored, key=lambda found: (found[0], found[1].order))
        hits = [_unfiled(event, *_quote(event, [], {}, query), score, query.share(counts)) for score, event, counts in best]
        return with_standing(hits, {}, self._storage)

    def listed(self, event: Event) -> Hit:
        """A hit for an event that only its time was asked for."""
        end = min(len(event.text), _SPAN)
        return _unfiled(event, span_grip_id(event.event_id, 0, end), event.text[:end], 1.0, 1.0)


def _unfiled(event: Event, grip: GripId, quote: str, score: float, coverage: float) -> Hit:
    return replace(unfiled_hit(event, grip, quote, round(score, 4)), parts=(("coverage", round(coverage, 4)),))


def _matching(events: Iterable[Event], query: Weighted) -> list[tuple[Event, Counter[str]]]:
    matched = []
    for event in events:
        text = searchable(event)
        if not query.may_be_in(text):
            continue
        counts = count_terms(query, text)
        if counts:
            matched.append((event, counts))
    return matched


def _found(
    segment: Segment, node: TocNode, matched: list[tuple[Event, Counter[str]]], query: Weighted, mean_tokens: float
) -> Found:
    total: Counter[str] = Counter()
    for _, counts in matched:
        total.update(counts)
    coverage = query.share(total)
    summary = " ".join([node.title, *node.keywords, *(b.text for b in node.bullets)])
    weighted = total + Counter({t: c * _SUMMARY_WEIGHT for t, c in count_terms(query, summary).items() if t in total})
    score = text_score(query, weighted, segment.tokens, mean_tokens)
    return Found(segment, node, tuple(matched), frozenset(total), coverage, score)


def _best_events(found: Found, query: Weighted) -> list[Event]:
    """The event that answers best, then those that add terms it lacks; what was said goes before what tools printed."""
    ranked = sorted(found.events, key=lambda e: (-text_score(query, e[1], 1, 1) * _VOICE.get(e[0].type, 1.0), e[0].order))
    chosen, seen = [ranked[0][0]], set(ranked[0][1])
    for event, counts in ranked[1:]:
        if len(chosen) < GRIPS_PER_HIT and set(counts) - seen:
            chosen.append(event)
            seen |= set(counts)
    return chosen


def _quote(event: Event, grips: Sequence[Grip], quotes: dict[GripId, str], query: Weighted) -> tuple[GripId, str]:
    """The grip of this event that holds most of the query, and its words; else a span made for the match."""
    scored = []
    for grip in grips:
        text = quotes.get(grip.grip_id, "")
        share = query.share(query.wanted & term_set(text))
        if share:
            scored.append((-share, len(text), grip.grip_id, text))
    needed = query.share(query.wanted & term_set(event.text))
    if scored and -min(scored)[0] >= needed * 0.6:
        _, _, grip_id, text = min(scored)
        return grip_id, text
    start, end = _span_of(event.text, query)
    return span_grip_id(event.event_id, start, end), event.text[start:end]


def _span_of(text: str, query: Weighted) -> tuple[int, int]:
    """The window of the text in which most of the query meets, cut at white space."""
    if len(text) <= _SPAN:
        return 0, len(text)
    best, best_share = 0, -1.0
    step = _SPAN // 2
    for start in range(0, len(text), step):
        share = query.share(query.wanted & term_set(text[start : start + _SPAN]))
        if share > best_share:
            best, best_share = start, share
    start = text.rfind(" ", max(0, best - 40), best + 1) + 1 if best else 0
    start = start or best
    end = min(len(text), best + _SPAN)
    gap = text.find(" ", end, end + 40)
    return start, gap if gap > 0 else end
