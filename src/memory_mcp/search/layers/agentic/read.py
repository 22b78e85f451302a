"""Read segments that may answer a query and return hits with exact quotations: the reading part of layer 2."""

import heapq
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import densest, term_set
from memory_mcp.capture.evidence import Evidence, quote_grips
from memory_mcp.indexes.calibrate import REQUEST_FACTOR
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, EventType, note_kind
from memory_mcp.model.exchange import LISTED_LAST, TurnKind, classify_turns, is_prompt, lacks_reply
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, NodeId, span_grip_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.search.layers.agentic.match import TERMS, WeightedQuery, count_terms, text_score
from memory_mcp.search.layers.base import Hit, Query, pending_hit
from memory_mcp.search.layers.showing import AFTER, add_standing, turns_of
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.derive.build import searchable_text
from memory_mcp.tree.toc.tree import Tree

#: Most messages of one segment that become hits.
PER_SEGMENT = 3
#: Weights in a message's score of the messages one and two places away, and of its segment's score.
NEIGHBOURS, SEGMENT = (0.5, 0.35), 0.35
#: The highest sum there can be, so that a score lies within 0..1.
_POSSIBLE = 1 + 2 * sum(NEIGHBOURS) + SEGMENT
#: Terms of an average message, and characters per term; in scripts without spaces each character is a term.
_AVERAGE, _PER_TERM = 16.0, 10
#: Least characters of a query for which a message that holds it verbatim scores 1.
_PHRASE = 10
#: Mean characters per word from which a text counts as one without spaces.
_LONG_WORDS = 12
#: Length in characters of a quotation that no stored grip covers.
_SPAN = 400
#: Factors on the scores of tool calls and output: they rank first only when clearly better than messages.
_VOICE = {EventType.TOOL_CALL: 0.7, EventType.TOOL_RESULT: 0.7}
#: Events without a node that are read at a time.
_WAITING = 5000
#: Events without a node that are split into terms at a time: 0.1 ms each.
_LIKELY = 150
#: Segments whose events are cached, about 16 KB of text each.
_KEPT = 128
#: Share of its score that a message keeps whose exchange came to nothing.
_DOUBTFUL = 0.3
#: Share of what a request scores more than its best reply that goes over to that.
_TAKEN = 0.5
#: Weight of words of a segment's summary; words of the summary alone do not count.
_SUMMARY_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class Message:
    """An event with query terms, and its score with its neighbours'."""

    event: Event
    score: float
    #: Whether it only asks.
    asks: bool = False


@dataclass(frozen=True, slots=True)
class SegmentFind:
    """A segment that holds query terms, and its best messages."""

    segment: Segment
    node: TocNode
    #: The best messages, best first.
    messages: tuple[Message, ...]
    terms: frozenset[str]
    coverage: float
    score: float


class SegmentReader:
    """Reads segments and chooses the words to quote."""

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree
        self._evidence = Evidence(storage)
        #: Cached events by segment key and build.
        self._kept: OrderedDict[tuple[int, int], list[Event]] = OrderedDict()
        self._lock = threading.Lock()

    def find_messages(
        self,
        segments: Sequence[Segment],
        query: WeightedQuery,
        scope: Scope,
        mean_tokens: float,
        gone: Callable[[], bool] = lambda: False,
        literal: bool = False,
    ) -> list[SegmentFind]:
        """Return the segments whose events hold query terms, with scores.

        Each has at most three messages. With `literal`, tool output counts as much as messages. Segments without a node are left
        out. Stops once `gone()`.
        """
        nodes = self._tree.nodes([s.node_id for s in segments])
        events = self._read_events(segments, nodes)
        continued = self._find_continued(segments, events)
        finds = []
        for segment in segments:
            if gone():
                break
            node = nodes.get(segment.node_id)
            if node is not None:
                segment_events = events.get(segment.key, ())
                turns = self._classify_turns(segment, segment_events, query, segment.stream in continued)
                find = _find_in_segment(segment, node, segment_events, turns, query, scope, mean_tokens, literal)
                finds += [find] if find is not None else []
        return finds

    def _find_continued(self, segments: Sequence[Segment], events: Mapping[int, Sequence[Event]]) -> set[int]:
        """Return the streams of segments without a reply that go on.

        Each costs a read of what follows: most prompts without a reply are the last of their session.
        """
        unanswered = [s for s in segments if lacks_reply(events.get(s.key, ()))]
        if not unanswered:
            return set()
        streams = {s.stream for s in unanswered}
        cuts = self._storage.toc.get_cuts(streams)
        continued = {s.stream for s in unanswered if any(cut.cut_no > s.cut_no for cut in cuts[s.stream])}
        derived, last = self._tree.pending_from(), self._storage.events.last_seq()
        if derived is None or continued == streams:
            return continued
        if last - derived > _WAITING:
            return streams
        return continued | {event.stream for event in self._storage.events.list_arrivals(derived, last, Scope())} & streams

    def _classify_turns(
        self, segment: Segment, events: Sequence[Event], query: WeightedQuery, is_continued: bool
    ) -> dict[EventId, TurnKind]:
        if not any(query.may_be_in(searchable_text(e)) for e in events):
            return {}
        after = self._storage.events.get_neighbours(events[-1], 0, AFTER)[1] if is_continued and lacks_reply(events) else []
        return classify_turns((*events, *after), segment.is_begin)

    def _read_events(self, segments: Sequence[Segment], nodes: Mapping[NodeId, TocNode]) -> dict[int, list[Event]]:
        """Return events by segment key, cached under their build.

        Segments that begin with a shorter duplicate of another event are left out.
        """
        built = {s.key: (s.key, nodes[s.node_id].built) for s in segments if s.node_id in nodes}
        with self._lock:
            cached_events = {key: self._kept[cache_key] for key, cache_key in built.items() if cache_key in self._kept}
        missing = [s for s in segments if s.key not in cached_events]
        if missing:
            read = self._storage.events.events_by_segment(missing)
            # Segments that repeat a longer duplicate are found there.
            hidden = self._storage.events.find_duplicates(segment_events[0].event_id for segment_events in read.values())
            read = {key: segment_events for key, segment_events in read.items() if segment_events[0].event_id not in hidden}
            with self._lock:
                for segment in missing:
                    if segment.key in built:
                        self._kept[built[segment.key]] = read.get(segment.key, [])
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        if cached_events and self._tree.pending_from() is not None:
            # An event whose longer duplicate has no node yet is found with that.
            hidden = self._storage.events.find_duplicates(
                e.event_id for segment_events in cached_events.values() for e in segment_events
            )
            cached_events = {
                key: [e for e in segment_events if e.event_id not in hidden] for key, segment_events in cached_events.items()
            }
        return cached_events | read if missing else cached_events

    def quote_messages(self, chosen: Sequence[tuple[SegmentFind, Message]], query: WeightedQuery) -> list[Hit]:
        """Return a hit for each message, with its best words and grip."""
        grips = self._storage.grips.grips_by_event({m.event.event_id for _, m in chosen})
        read = {m.event.event_id: m.event for _, m in chosen}
        every = [g for several in grips.values() for g in several]
        missing = [g for g in every if not {g.event_id_start, g.event_id_end} <= read.keys()]
        quotes = quote_grips(every, read) | (self._evidence.read_quotes(missing) if missing else {})
        hits = [self._message_hit(f, m, grips.get(m.event.event_id, ()), quotes, query) for f, m in chosen]
        return add_standing(hits, {f.node.node_id: f.node for f, _ in chosen}, self._storage)

    def _message_hit(
        self, find: SegmentFind, message: Message, grips: Sequence[Grip], quotes: Mapping[GripId, str], query: WeightedQuery
    ) -> Hit:
        event = message.event
        grip, quote = _choose_quote(event, grips, quotes, query)
        return Hit(
            node_id=find.node.node_id,
            title=find.node.title,
            quote=quote,
            grip_ids=(grip,),
            timestamp=event.timestamp,
            session_id=find.segment.session_id,
            project=find.segment.project,
            agent=find.segment.agent,
            role=event.role.value,
            speaker=event.speaker,
            score=round(message.score, 4),
            parts=(("coverage", round(find.coverage, 4)), (TERMS, round(find.score, 4))),
            event_id=event.event_id,
            grip_id=grip,
            keywords=find.node.keywords,
            kind=note_kind(event),
            asks=message.asks,
        )

    def iter_pending(self, after_seq: int, scope: Scope, stop: Callable[[], bool], probes: Sequence[str] = ()) -> Iterator[Event]:
        """Yield the events of the scope after `after_seq`, until `stop()`.

        With `probes` the store leaves out events that hold none of them: during an import thousands wait.
        """
        last = self._storage.events.last_seq()
        while after_seq < last and not stop():
            yield from self._storage.events.list_arrivals(after_seq, after_seq + _WAITING, scope, probes)
            after_seq += _WAITING

    def search_pending(self, query: WeightedQuery, events: Iterable[Event], limit: int) -> list[Hit]:
        """Return the best hits among events without a node.

        Those with most of the query's words are read first, the others only while none of those matches.
        """
        likely = sorted(events, key=lambda e: (query.probes_in(searchable_text(e)), e.order), reverse=True)
        matched: list[tuple[Event, Counter[str]]] = []
        for start in range(0, len(likely), _LIKELY):
            for event in likely[start : start + _LIKELY]:
                text = searchable_text(event)
                if query.may_be_in(text) and (counts := count_terms(query, text)):
                    matched.append((event, counts))
            if matched:
                break
        scored = ((_own_score(query, event, counts), event, counts) for event, counts in matched)
        best = heapq.nlargest(limit, scored, key=lambda match: (match[0], match[1].order))
        turns = turns_of(self._storage, (event for _, event, _ in best))
        hits = []
        for own_score, event, counts in best:
            turn = turns.get(event.event_id, TurnKind.PLAIN)
            if turn & TurnKind.TO_MEMORY:
                continue
            score = own_score * _turn_factor(turn)
            hit = _pending_hit(
                event, *_choose_quote(event, [], {}, query), score * (1 + SEGMENT) / _POSSIBLE, query.share_of(counts)
            )
            parts = (*hit.parts, (TERMS, round(text_score(query, counts, 1, 1), 4)))
            hits.append(replace(hit, parts=parts, asks=bool(turn & LISTED_LAST)))
        hits.sort(key=lambda hit: hit.asks)
        return add_standing(hits, {}, self._storage)

    def event_hit(self, event: Event) -> Hit:
        """Return a hit for an event found by its time alone."""
        end = min(len(event.text), _SPAN)
        return _pending_hit(event, span_grip_id(event.event_id, 0, end), event.text[:end], 1.0, 1.0)


def _pending_hit(event: Event, grip: GripId, quote: str, score: float, coverage: float) -> Hit:
    return replace(pending_hit(event, grip, quote, round(score, 4)), parts=(("coverage", round(coverage, 4)),))


def best_messages(finds: Sequence[SegmentFind], limit: int) -> list[tuple[SegmentFind, Message]]:
    """Return the best messages of some segments, best first, then newest."""
    every = ((f, m) for f in finds for m in f.messages)
    return sorted(every, key=lambda x: (-x[1].score, -x[1].event.timestamp, x[1].event.event_id))[:limit]


def scope_of(query: Query, window: TimeWindow | None) -> Scope:
    """Return a query's filters as a scope of this window."""
    return Scope(query.project, query.agent, window, query.role, query.speaker, query.excluded)


def may_show(event: Event, scope: Scope) -> bool:
    """Return whether an event fits a scope's time, role and speaker.

    Project and agent are not compared.
    """
    if any(event.session_id == session.session_id and event.timestamp >= session.since_ms for session in scope.excluded):
        return False
    if scope.window is not None and not scope.window.contains(event.timestamp):
        return False
    if scope.role is not None and event.role.value != scope.role:
        return False
    return scope.speaker is None or event.speaker.casefold() == scope.speaker.casefold()


def fold_text(text: str) -> str:
    """Return a text in lower case with single spaces."""
    return " ".join(text.split()).lower()


def _find_in_segment(
    segment: Segment,
    node: TocNode,
    events: Sequence[Event],
    turns: Mapping[EventId, TurnKind],
    query: WeightedQuery,
    scope: Scope,
    mean_tokens: float,
    literal: bool,
) -> SegmentFind | None:
    counts = [count_terms(query, text) if query.may_be_in(text := searchable_text(e)) else Counter[str]() for e in events]
    for at, event in enumerate(events):
        if turns.get(event.event_id, TurnKind.PLAIN) & TurnKind.TO_MEMORY:
            counts[at] = Counter[str]()
    positions = [at for at, event in enumerate(events) if counts[at] and may_show(event, scope)]
    if not positions:
        return None
    total = sum((counts[at] for at in positions), Counter[str]())
    summary = " ".join([node.title, *node.keywords, *(b.text for b in node.bullets)])
    weighted = total + Counter({t: c * _SUMMARY_WEIGHT for t, c in count_terms(query, summary).items() if t in total})
    score = text_score(query, weighted, segment.tokens, mean_tokens)
    own_scores = [_own_score(query, e, c, literal) if c else 0.0 for e, c in zip(events, counts, strict=True)]
    messages = [Message(events[at], (_with_neighbours(own_scores, at) + SEGMENT * score) / _POSSIBLE) for at in positions]
    phrase = fold_text(query.text)
    if len(phrase) >= _PHRASE:
        messages = [replace(m, score=1.0) if phrase in fold_text(m.event.text) else m for m in messages]
    messages = _by_exchange(messages, events, turns)
    best = sorted(messages, key=lambda m: (-m.score, m.event.order))[:PER_SEGMENT]
    # A segment that only asks must not keep the walk from reading on.
    worth = REQUEST_FACTOR if all(m.asks for m in best) else 1.0
    return SegmentFind(segment, node, tuple(best), frozenset(total), query.share_of(total) * worth, score * worth)


def _by_exchange(messages: Sequence[Message], events: Sequence[Event], turns: Mapping[EventId, TurnKind]) -> list[Message]:
    """Put requests last, and let their best replies take over a share."""
    if not any(turns.get(m.event.event_id, TurnKind.PLAIN) & (LISTED_LAST | TurnKind.DOUBTFUL) for m in messages):
        return list(messages)
    begun = list(accumulate(is_prompt(e) for e in events))
    exchange = {e.event_id: number for e, number in zip(events, begun, strict=True)}
    scores = {m.event.event_id: m.score for m in messages}
    for message in messages:
        name = message.event.event_id
        if turns.get(name, TurnKind.PLAIN) & TurnKind.ASKS:
            replies = [i for i in scores if turns.get(i, TurnKind.PLAIN) & TurnKind.REPLY and exchange[i] == exchange[name]]
            if best := max(replies, key=scores.__getitem__, default=None):
                scores[best] += _TAKEN * max(0.0, message.score - scores[best])
    asking = {i for i in scores if turns.get(i, TurnKind.PLAIN) & LISTED_LAST}
    return [
        replace(m, score=scores[i] * _turn_factor(turns.get(i, TurnKind.PLAIN)), asks=i in asking)
        for m in messages
        for i in [m.event.event_id]
    ]


def _turn_factor(turn: TurnKind) -> float:
    return REQUEST_FACTOR if turn & LISTED_LAST else _DOUBTFUL if turn & TurnKind.DOUBTFUL else 1.0


def _own_score(query: WeightedQuery, event: Event, counts: Mapping[str, int], literal: bool = False) -> float:
    """Return the score of a message's own words, 0..1.

    Tool output counts .7 of it unless `literal`; longer messages score less.
    """
    length = len(event.text) / _PER_TERM
    if not event.text.isascii() and len(event.text) >= _LONG_WORDS * (event.text.count(" ") + 1):
        length = float(len(event.text))
    return text_score(query, counts, length, _AVERAGE) * (1.0 if literal else _VOICE.get(event.type, 1.0))


def _with_neighbours(own_scores: Sequence[float], at: int) -> float:
    score = own_scores[at]
    for distance, share in enumerate(NEIGHBOURS, start=1):
        earlier_score = own_scores[at - distance] if at >= distance else 0.0
        later_score = own_scores[at + distance] if at + distance < len(own_scores) else 0.0
        score += share * (earlier_score + later_score)
    return score


def _choose_quote(event: Event, grips: Sequence[Grip], quotes: Mapping[GripId, str], query: WeightedQuery) -> tuple[GripId, str]:
    """Return the stored grip that holds most of the query, or a span.

    A stored grip must hold 60% of what the whole event holds; of equals the shortest is taken.
    """
    scored = []
    for grip in grips:
        text = quotes.get(grip.grip_id, "")
        share = query.share_of(query.distinct_terms & term_set(text))
        if share:
            scored.append((-share, len(text), grip.grip_id, text))
    needed = query.share_of(query.distinct_terms & term_set(event.text))
    if scored and -min(scored)[0] >= needed * 0.6:
        _, _, grip_id, text = min(scored)
        return grip_id, text
    start, end = 0, len(event.text)
    if end > _SPAN:
        best = densest(event.text, _SPAN, lambda part: query.share_of(query.distinct_terms & term_set(part)))
        start = (event.text.rfind(" ", max(0, best - 40), best + 1) + 1 if best else 0) or best
        end = min(end, best + _SPAN)
        gap = event.text.find(" ", end, end + 40)
        end = gap if gap > 0 else end
    return span_grip_id(event.event_id, start, end), event.text[start:end]
