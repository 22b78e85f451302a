"""Segments that may hold the query in, hits with exact quotations out: the part of layer 2 that reads what was said."""

import heapq
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_mcp.events.evidence import Evidence, quotes_in
from memory_mcp.layers.agentic.calibrate import TERMS
from memory_mcp.layers.agentic.match import Weighted, count_terms, text_score
from memory_mcp.layers.base import Hit, unfiled_hit
from memory_mcp.layers.standing import with_standing
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

#: Messages of one segment that may be hits.
PER_SEGMENT = 3
#: Shares of the messages one and two places before and behind in a message's score, and of its segment's.
NEIGHBOURS, SEGMENT = (0.5, 0.35), 0.35
#: The highest sum there can be, so that a score lies within 0..1.
_POSSIBLE = 1 + 2 * sum(NEIGHBOURS) + SEGMENT
#: Terms of an average message, and characters per term of a text in words; of one without spaces each character is a term.
_AVERAGE, _PER_TERM = 16.0, 10
#: Characters from which a query that a message holds word for word is what it was asked for.
_PHRASE = 10
#: Characters per word from which a text is taken for one without spaces.
_LONG_WORDS = 12
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
class Message:
    """An event that holds query terms, with a score, 0..1, that counts its neighbours."""

    event: Event
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """A segment whose own words hold query terms: verified, never by hash alone."""

    segment: Segment
    node: TocNode
    #: The best messages, best first.
    messages: tuple[Message, ...]
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
        scope: Scope,
        mean_tokens: float,
        gone: Callable[[], bool] = lambda: False,
        literal: bool = False,
    ) -> list[Found]:
        """Return those segments whose events in the scope hold query terms, with their scores; none further once `gone`.

        With `literal` what tools printed counts as much as what was said.
        """
        asked = _Asked(query, scope, mean_tokens, literal, folded(query.text))
        nodes = self._tree.nodes([s.node_id for s in segments])
        events = self._events(segments, nodes)
        found = []
        for segment in segments:
            if gone():
                break
            node = nodes.get(segment.node_id)
            if node is not None:
                one = _found(segment, node, events.get(segment.key, ()), asked)
                found += [one] if one is not None else []
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

    def hits(self, chosen: Sequence[tuple[Found, Message]], query: Weighted) -> list[Hit]:
        """Return a hit for each message, in order: its best words, exactly as stored, and the grip that proves them."""
        grips = self._storage.grips.of_events({m.event.event_id for _, m in chosen})
        read = {m.event.event_id: m.event for _, m in chosen}
        quotes = self._quotes([g for several in grips.values() for g in several], read)
        hits = [self._hit(f, m, grips.get(m.event.event_id, ()), quotes, query) for f, m in chosen]
        return with_standing(hits, {f.node.node_id: f.node for f, _ in chosen}, self._storage)

    def _quotes(self, grips: Sequence[Grip], read: Mapping[EventId, Event]) -> dict[GripId, str]:
        """The words of some grips; most are of events that were read already."""
        missing = [g for g in grips if not {g.event_id_start, g.event_id_end} <= read.keys()]
        return quotes_in(grips, read) | (self._evidence.quotes(missing) if missing else {})

    def _hit(self, found: Found, message: Message, grips: Sequence[Grip], quotes: Mapping[GripId, str], query: Weighted) -> Hit:
        event = message.event
        grip, quote = _quote(event, grips, quotes, query)
        return Hit(
            node_id=found.node.node_id,
            title=found.node.title,
            quote=quote,
            grip_ids=(grip,),
            timestamp=event.timestamp,
            session_id=found.segment.session_id,
            project=found.segment.project,
            agent=found.segment.agent,
            role=event.role.value,
            speaker=event.speaker,
            score=round(message.score, 4),
            parts=(("coverage", round(found.coverage, 4)), (TERMS, round(found.score, 4))),
            event_id=event.event_id,
            grip_id=grip,
            keywords=found.node.keywords,
            kind=event.metadata.get("kind", ""),
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
        scored = ((_own_score(query, event, counts), event, counts) for event, counts in matched)
        best = heapq.nlargest(limit, scored, key=lambda found: (found[0], found[1].order))
        hits = []
        for score, event, counts in best:
            hit = _unfiled(event, *_quote(event, [], {}, query), score * (1 + SEGMENT) / _POSSIBLE, query.share(counts))
            hits.append(replace(hit, parts=(*hit.parts, (TERMS, round(text_score(query, counts, 1, 1), 4)))))
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


def best_messages(found: Sequence[Found], limit: int) -> list[tuple[Found, Message]]:
    """Return the best messages of some segments, best first, the newest among equals."""
    every = ((f, m) for f in found for m in f.messages)
    return sorted(every, key=lambda x: (-x[1].score, -x[1].event.timestamp, x[1].event.event_id))[:limit]


def may_show(event: Event, scope: Scope) -> bool:
    """Return whether an event of a segment has a time and a speaker that the scope allows."""
    if scope.window is not None and not scope.window.contains(event.timestamp):
        return False
    if scope.role is not None and event.role.value != scope.role:
        return False
    return scope.speaker is None or event.speaker.casefold() == scope.speaker.casefold()


def folded(text: str) -> str:
    """A text as it is compared word for word: neither case nor the kind of white space matters."""
    return " ".join(text.split()).lower()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What segments are compared with."""

    query: Weighted
    scope: Scope
    mean_tokens: float
    #: What tools printed counts as much as what was said.
    literal: bool
    #: The whole query: a message that holds it word for word answers best.
    phrase: str


def _found(segment: Segment, node: TocNode, events: Sequence[Event], asked: _Asked) -> Found | None:
    """A segment with its best messages; None where no message of the scope holds a term."""
    query, mean_tokens = asked.query, asked.mean_tokens
    counts = [count_terms(query, text) if query.may_be_in(text := searchable(e)) else Counter[str]() for e in events]
    shown = [at for at, event in enumerate(events) if counts[at] and may_show(event, asked.scope)]
    if not shown:
        return None
    total = sum((counts[at] for at in shown), Counter[str]())
    summary = " ".join([node.title, *node.keywords, *(b.text for b in node.bullets)])
    weighted = total + Counter({t: c * _SUMMARY_WEIGHT for t, c in count_terms(query, summary).items() if t in total})
    score = text_score(query, weighted, segment.tokens, mean_tokens)
    own = [_own_score(query, e, c, asked.literal) if c else 0.0 for e, c in zip(events, counts, strict=True)]
    messages = [Message(events[at], (_with_neighbours(own, at) + SEGMENT * score) / _POSSIBLE) for at in shown]
    if len(asked.phrase) >= _PHRASE:
        messages = [replace(m, score=1.0) if asked.phrase in folded(m.event.text) else m for m in messages]
    best = sorted(messages, key=lambda m: (-m.score, m.event.order))[:PER_SEGMENT]
    return Found(segment, node, tuple(best), frozenset(total), query.share(total), score)


def _own_score(query: Weighted, event: Event, counts: Mapping[str, int], literal: bool = False) -> float:
    """How well a message's own words answer, 0..1; what tools printed counts less than what was said."""
    length = len(event.text) / _PER_TERM if event.text.isascii() else _length(event.text)
    return text_score(query, counts, length, _AVERAGE) * (1.0 if literal else _VOICE.get(event.type, 1.0))


def _length(text: str) -> float:
    """About how many terms a text has that is not plain English: where no spaces part the words, every character."""
    words = text.count(" ") + 1
    return len(text) / _PER_TERM if len(text) < _LONG_WORDS * words else float(len(text))


def _with_neighbours(own: Sequence[float], at: int) -> float:
    """A message's score with shares of those beside it."""
    score = own[at]
    for distance, share in enumerate(NEIGHBOURS, start=1):
        before = own[at - distance] if at >= distance else 0.0
        behind = own[at + distance] if at + distance < len(own) else 0.0
        score += share * (before + behind)
    return score


def _quote(event: Event, grips: Sequence[Grip], quotes: Mapping[GripId, str], query: Weighted) -> tuple[GripId, str]:
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
