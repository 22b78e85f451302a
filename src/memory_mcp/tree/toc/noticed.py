"""Find statements that newer ones contradict, following changed nodes; kept in memory only.

Invariants
1. What is marked follows from the statements that are stored now: whatever is derived again, forgotten or moved changes it.
2. Only statements of one project meet, and what an agent wrote never marks what a person said.
3. A step reads the nodes that changed; the store is searched through once per process, and a reader who comes meanwhile gets
   what was known before: of 105,000 events that search took eight seconds and more.
"""

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, EventType, Role, Trust, is_recap
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, CONTRADICTION_REASON, Supersession
from memory_mcp.model.ids import GripId, NodeId, grip_time, segment_key_of
from memory_mcp.model.toc import EXTRACTIVE, MemoryKind
from memory_mcp.storage.base import Storage
from memory_mcp.storage.records import StoredStatement
from memory_mcp.tree.summarize.contradictions import FIRM, Claim, comparable_pattern, contradicts, parse_claim

#: Number of changes from which all nodes are read again, which takes as long as reading this many one by one.
_MANY = 2000
#: A term in more statements of a project than this is too common to compare by.
_COMMON = 200
#: Longest wait of a reader for another thread that is following changes (seconds); a step takes milliseconds.
_PATIENCE = 0.3

_SAYS = frozenset((EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP, EventType.NOTE))


@dataclass(frozen=True, slots=True)
class _Held:
    """A statement that something may contradict; some 1.5 KB."""

    number: int
    stated: StoredStatement
    claim: Claim
    at_ms: int


@dataclass(slots=True)
class _Known:
    """Statements by segment and by project and term, and pairs that contradict each other."""

    by_segment: dict[int | None, list[_Held]] = field(default_factory=dict)
    by_term: dict[tuple[str, str], dict[int, _Held]] = field(default_factory=lambda: defaultdict(dict))
    pairs: dict[tuple[int, int], tuple[_Held, _Held]] = field(default_factory=dict)


class Contradictions:
    """What newer statements contradict, followed along the outbox."""

    def __init__(self, storage: Storage, calendar: Calendar) -> None:
        """Begin with nothing known; the first `marks` reads the statements of the whole store."""
        self._storage = storage
        self._calendar = calendar
        self._lock = threading.Lock()
        self._known = _Known()
        self._numbers = itertools.count()
        #: How often everything was to be dropped: counted without the lock, because the caller may hold the store's.
        self._dropped = 0
        #: That, and the last change, as they were when the store was followed; None before that.
        self._seen: tuple[int, int] | None = None
        #: How much the word behind a quotation counts.
        self._weights: dict[GripId, int] = {}
        self._marks: dict[GripId, tuple[Supersession, ...]] = {}

    def drop_cache(self) -> None:
        """Have the next `marks` read everything anew; takes no lock, because the caller may hold the store's."""
        self._dropped += 1

    def find_contradictions(self) -> Mapping[GripId, Sequence[Supersession]]:
        """Return the supersessions of each contradicted statement, by its grip, oldest contradiction first.

        Reads what changed first; while another thread does that for more than 0.3 s, the former result is returned.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return self._marks
        try:
            now = (self._dropped, self._storage.toc.current_version())
            if self._seen != now:
                self._follow(now)
            return self._marks
        finally:
            self._lock.release()

    def _follow(self, now: tuple[int, int]) -> None:
        """Read the changed segments, or all statements at first, after `forget` or over 2000 changes; then mark anew.

        An older statement is marked if its author counts and counts no more than the newer one's; that of an unknown grip and
        of one that joins two events does not count.
        """
        last = self._seen[1] if self._seen is not None and self._seen[0] == now[0] else None
        changes = [] if last is None else self._storage.outbox.read_after(last, _MANY)
        before = set(self._known.pairs)
        if last is None or len(changes) == _MANY:
            self._known, self._weights = _Known(), {}
            self._add(self._storage.superseded.list_statements([kind.value for kind in FIRM], comparable_pattern()))
        else:
            ids = list(dict.fromkeys(NodeId(c.subject) for c in changes if segment_key_of(c.subject) is not None))
            gone = [held for node_id in ids for held in self._known.by_segment.pop(segment_key_of(node_id), ())]
            for held in gone:
                for term in held.claim.terms:
                    self._known.by_term[held.stated.project, term].pop(held.number, None)
            numbers = {held.number for held in gone}
            self._known.pairs = {key: pair for key, pair in self._known.pairs.items() if numbers.isdisjoint(key)}
            for node_id, node in self._storage.toc.get_nodes(ids).items():
                if node.author == EXTRACTIVE:
                    bullets = (b for b in node.bullets if b.grip_ids)
                    self._add(StoredStatement(node_id, b.text, b.kind, b.project, b.grip_ids[0]) for b in bullets)
        self._seen = now
        if set(self._known.pairs) != before:
            # Mark each older statement whose author counts no more than that of the newer one.
            pairs = self._known.pairs.values()
            fresh = {held.stated.grip_id for pair in pairs for held in pair} - self._weights.keys()
            grips = self._storage.grips.get_grips(fresh)
            event_ids = {g.event_id_start for g in grips.values() if g.event_id_start == g.event_id_end}
            said = self._storage.events.get_events(event_ids)
            self._weights |= dict.fromkeys(fresh, 0) | {i: _weight(said.get(g.event_id_start)) for i, g in grips.items()}
            found: dict[GripId, list[Supersession]] = defaultdict(list)
            for older, newer in sorted(pairs, key=lambda pair: (pair[1].at_ms, pair[1].stated.grip_id)):
                old, new = older.stated.grip_id, newer.stated.grip_id
                if old != new and 0 < self._weights[old] <= self._weights[new]:
                    origin = (newer.at_ms, CONTRADICTION_REASON, CONTRADICTION_AUTHOR)
                    found[old].append(Supersession(old, new, *origin, older.stated.text))
            self._marks = {old: tuple(several) for old, several in found.items()}

    def _add(self, several: Iterable[StoredStatement]) -> None:
        """Add statements that claim something and belong to a project, and find what they contradict."""
        for stated in several:
            claim = parse_claim(stated.text, MemoryKind(stated.kind)) if stated.project else None
            if claim is not None:
                held = _Held(next(self._numbers), stated, claim, grip_time(stated.grip_id))
                self._meet(held)
                self._known.by_segment.setdefault(segment_key_of(stated.node_id), []).append(held)
                for term in claim.terms:
                    self._known.by_term[stated.project, term][held.number] = held

    def _meet(self, held: _Held) -> None:
        """Add to the pairs those of this statement and each it contradicts, or that contradicts it.

        Compared are statements of its project that share a term which at most 200 of them have.
        """
        sharing: dict[int, _Held] = {}
        for term in held.claim.terms:
            others = self._known.by_term.get((held.stated.project, term), {})
            if len(others) <= _COMMON:
                sharing |= others
        for other in sharing.values():
            older, newer = (other, held) if other.at_ms < held.at_ms else (held, other)
            passing = older.claim.is_passing or newer.claim.is_passing
            apart = passing and self._calendar.day_of(older.at_ms) != self._calendar.day_of(newer.at_ms)
            if older.at_ms < newer.at_ms and contradicts(newer.claim, older.claim, apart):
                self._known.pairs[older.number, newer.number] = (older, newer)


def _weight(event: Event | None) -> int:
    """Return how much a statement counts: 2 a person's, 1 an agent's, 0 a subagent's, a recap, or one without an author."""
    if event is None or event.thread or event.type not in _SAYS or is_recap(event):
        return 0
    if event.trust is Trust.USER and event.role is Role.USER:
        return 2
    return 1 if event.trust is Trust.AGENT_NOTE or event.role in (Role.USER, Role.ASSISTANT) else 0
