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
_MAX_CHANGES = 2000
#: A term in more statements of a project than this is too common to compare by.
_MAX_SHARING = 200
#: Longest wait of a reader for another thread that is following changes (seconds); a step takes milliseconds.
_PATIENCE = 0.3

_SAYS = frozenset((EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP, EventType.NOTE))


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement that something may contradict; some 1.5 KB."""

    number: int
    stated: StoredStatement
    claim: Claim
    at_ms: int


@dataclass(slots=True)
class _StatementIndex:
    """Statements by segment and by project and term, and pairs that contradict each other."""

    by_segment: dict[int | None, list[_Statement]] = field(default_factory=dict)
    by_term: dict[tuple[str, str], dict[int, _Statement]] = field(default_factory=lambda: defaultdict(dict))
    pairs: dict[tuple[int, int], tuple[_Statement, _Statement]] = field(default_factory=dict)


class Contradictions:
    """What newer statements contradict, followed along the outbox."""

    def __init__(self, storage: Storage, calendar: Calendar) -> None:
        self._storage = storage
        self._calendar = calendar
        self._lock = threading.Lock()
        self._index = _StatementIndex()
        self._numbers = itertools.count()
        #: How often everything was to be dropped: counted without the lock, because the caller may hold the store's.
        self._reset_count = 0
        #: That, and the last change, as they were when the store was followed; None before that.
        self._followed_to: tuple[int, int] | None = None
        #: How much the speaker of a quotation counts.
        self._weights: dict[GripId, int] = {}
        self._marks: dict[GripId, tuple[Supersession, ...]] = {}

    def drop_cache(self) -> None:
        """Have the next `marks` read everything again.

        Takes no lock, because the caller may hold the store's.
        """
        self._reset_count += 1

    def find_contradictions(self) -> Mapping[GripId, Sequence[Supersession]]:
        """Return supersessions by grip, oldest contradiction first.

        Reads what changed first; while another thread does that for more than 0.3 s, the former result is returned.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return self._marks
        try:
            now = (self._reset_count, self._storage.toc.current_version())
            if self._followed_to != now:
                self._follow_changes(now)
            return self._marks
        finally:
            self._lock.release()

    def _follow_changes(self, position: tuple[int, int]) -> None:
        """Read the changed segments, or everything, then mark again.

        Everything at first, after `forget` and over 2000 changes. An older statement is marked if its author counts and counts no
        more than the newer one's.
        """
        last_seq = self._followed_to[1] if self._followed_to is not None and self._followed_to[0] == position[0] else None
        changes = [] if last_seq is None else self._storage.outbox.read_after(last_seq, _MAX_CHANGES)
        former_pairs = set(self._index.pairs)
        if last_seq is None or len(changes) == _MAX_CHANGES:
            self._index, self._weights = _StatementIndex(), {}
            self._add_statements(self._storage.superseded.list_statements([kind.value for kind in FIRM], comparable_pattern()))
        else:
            ids = list(dict.fromkeys(NodeId(c.subject) for c in changes if segment_key_of(c.subject) is not None))
            dropped = [statement for node_id in ids for statement in self._index.by_segment.pop(segment_key_of(node_id), ())]
            for statement in dropped:
                for term in statement.claim.terms:
                    self._index.by_term[statement.stated.project, term].pop(statement.number, None)
            numbers = {statement.number for statement in dropped}
            self._index.pairs = {key: pair for key, pair in self._index.pairs.items() if numbers.isdisjoint(key)}
            for node_id, node in self._storage.toc.get_nodes(ids).items():
                if node.author == EXTRACTIVE:
                    self._add_statements(
                        StoredStatement(node_id, b.text, b.kind, b.project, b.grip_ids[0]) for b in node.bullets if b.grip_ids
                    )
        self._followed_to = position
        if set(self._index.pairs) != former_pairs:
            self._mark_contradicted()

    def _mark_contradicted(self) -> None:
        """An older statement is marked if its author counts no more than that of the newer one."""
        pairs = self._index.pairs.values()
        new_grip_ids = {statement.stated.grip_id for pair in pairs for statement in pair} - self._weights.keys()
        grips = self._storage.grips.get_grips(new_grip_ids)
        quoted_events = self._storage.events.get_events(
            {g.event_id_start for g in grips.values() if g.event_id_start == g.event_id_end}
        )
        self._weights |= dict.fromkeys(new_grip_ids, 0) | {
            i: _author_weight(quoted_events.get(g.event_id_start)) for i, g in grips.items()
        }
        marks: dict[GripId, list[Supersession]] = defaultdict(list)
        for older, newer in sorted(pairs, key=lambda pair: (pair[1].at_ms, pair[1].stated.grip_id)):
            old, new = older.stated.grip_id, newer.stated.grip_id
            if old != new and 0 < self._weights[old] <= self._weights[new]:
                reason, author = CONTRADICTION_REASON, CONTRADICTION_AUTHOR
                marks[old].append(Supersession(old, new, newer.at_ms, reason, author, older.stated.text))
        self._marks = {old: tuple(supersessions) for old, supersessions in marks.items()}

    def _add_statements(self, statements: Iterable[StoredStatement]) -> None:
        for stated in statements:
            claim = parse_claim(stated.text, MemoryKind(stated.kind)) if stated.project else None
            if claim is not None:
                statement = _Statement(next(self._numbers), stated, claim, grip_time(stated.grip_id))
                self._add_pairs(statement)
                self._index.by_segment.setdefault(segment_key_of(stated.node_id), []).append(statement)
                for term in claim.terms:
                    self._index.by_term[stated.project, term][statement.number] = statement

    def _add_pairs(self, statement: _Statement) -> None:
        sharing: dict[int, _Statement] = {}
        for term in statement.claim.terms:
            candidates = self._index.by_term.get((statement.stated.project, term), {})
            if len(candidates) <= _MAX_SHARING:
                sharing |= candidates
        for candidate in sharing.values():
            older, newer = (candidate, statement) if candidate.at_ms < statement.at_ms else (statement, candidate)
            passing = older.claim.is_passing or newer.claim.is_passing
            is_other_day = passing and self._calendar.day_of(older.at_ms) != self._calendar.day_of(newer.at_ms)
            if older.at_ms < newer.at_ms and contradicts(newer.claim, older.claim, is_other_day):
                self._index.pairs[older.number, newer.number] = (older, newer)


def _author_weight(event: Event | None) -> int:
    if event is None or event.thread or event.type not in _SAYS or is_recap(event):
        return 0
    if event.trust is Trust.USER and event.role is Role.USER:
        return 2
    return 1 if event.trust is Trust.AGENT_NOTE or event.role in (Role.USER, Role.ASSISTANT) else 0
