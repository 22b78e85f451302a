"""Find statements that newer ones contradict, following changed nodes.

Invariants
1. What is marked follows from the statements that are stored now: whatever is derived again, forgotten or moved changes it.
2. Only statements of one project meet, and what an agent wrote never marks what a person said.
3. A step reads the nodes that changed; before the first of them the store is searched through once per process, and a reader
   who comes meanwhile gets what was known before: of 105,000 events that search took eight seconds and more.
4. The file for the next process holds ids and checksums, no word of a statement: the words are read from the store.
5. It counts only for the store, the last change and the rules it was written for; without it the store is searched.
"""

import itertools
import json
import logging
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, EventType, Role, Trust, is_recap
from memory_mcp.model.grip import CONTRADICTION_AUTHOR, CONTRADICTION_REASON, Supersession
from memory_mcp.model.ids import GripId, NodeId, grip_time, segment_key_of
from memory_mcp.model.toc import EXTRACTIVE, MemoryKind
from memory_mcp.storage.base import Storage
from memory_mcp.storage.records import StoredStatement
from memory_mcp.tree.summarize.contradictions import FIRM, VERSION, Claim, comparable_pattern, contradicts, parse_claim

log = logging.getLogger(__name__)

#: Number of changes from which all nodes are read again, which takes as long as reading this many one by one.
_MAX_CHANGES = 2000
#: A term in more statements of a project than this is too common to compare by.
_MAX_SHARING = 200
#: Longest wait of a reader for another thread that is following changes (seconds); a step takes milliseconds.
_PATIENCE = 0.3

_SAYS = frozenset((EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE, EventType.ASSISTANT_STOP, EventType.NOTE))
PATH = Path("indexes") / "contradictions.json"
#: A longer file is none of ours (bytes); a mark has some 150.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Mark:
    """A contradicted statement, and the node that has it."""

    node_id: NodeId
    supersession: Supersession


class MarksFile:
    """The file of one memory."""

    def __init__(self, directory: Path, storage: Storage) -> None:
        self._path = directory / PATH
        self._storage = storage

    def load_marks(self, version: int) -> list[Mark] | None:
        """Return the marks of the tree's version, None if there are none saved."""
        try:
            saved = json.loads(foreign_files.read_file(self._path, _LONGEST))
            if saved["of"] != self._describe_version(version):
                return None
            nodes = self._storage.toc.get_nodes({NodeId(node_id) for node_id, *_ in saved["marks"]})
            texts = {
                (node.node_id, bullet.grip_ids[0], zlib.crc32(bullet.text.encode())): bullet.text
                for node in nodes.values()
                for bullet in node.bullets
                if bullet.grip_ids
            }
            return [
                Mark(
                    node_id,
                    Supersession(old, new, at_ms, CONTRADICTION_REASON, CONTRADICTION_AUTHOR, texts[node_id, old, checksum]),
                )
                for node_id, old, checksum, new, at_ms in saved["marks"]
            ]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the contradictions that were saved cannot be used: %s", error)
            return None

    def save_marks(self, version: int, marks: Iterable[Mark]) -> None:
        """Write the marks of the tree's version; a failure is logged."""
        rows = [(mark.node_id, (s := mark.supersession).old, zlib.crc32(s.words.encode()), s.new, s.at_ms) for mark in marks]
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            machine.put(self._path, json.dumps({"of": self._describe_version(version), "marks": rows}).encode())
        except OSError as error:
            log.info("contradictions are not saved: %s", error)

    def remove(self) -> None:
        """Remove the file, if any; a failure is logged."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self._path, error)

    def _describe_version(self, version: int) -> str:
        """Return what tells this state of this store from any other."""
        last_changes = self._storage.outbox.read_after(version - 1, 1)
        return f"{VERSION} {self._storage.get_stats(text=False).store_id} {self._storage.timezone} {version} {last_changes}"


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

    def __init__(self, storage: Storage, calendar: Calendar, directory: Path | None = None) -> None:
        """Follow a store; what was found is saved in its `directory`, if any."""
        self._storage = storage
        self._calendar = calendar
        self._file = None if directory is None else MarksFile(directory, storage)
        self._lock = threading.Lock()
        #: None until the store was searched through.
        self._index: _StatementIndex | None = None
        self._numbers = itertools.count()
        #: How often everything was to be dropped: counted without the lock, because the caller may hold the store's.
        self._reset_count = 0
        #: That, and the last change, as they were when the store was followed; None before that.
        self._followed_to: tuple[int, int] | None = None
        #: The same of what the file has; None if it has nothing.
        self._saved_at: tuple[int, int] | None = None
        #: How much the speaker of a quotation counts.
        self._weights: dict[GripId, int] = {}
        self._marks: dict[GripId, tuple[Supersession, ...]] = {}
        #: The nodes of the contradicted statements, in the order of `_marks`.
        self._marked_nodes: list[NodeId] = []

    def drop_cache(self) -> None:
        """Have the next `find_contradictions` read everything again.

        Takes no lock, because the caller may hold the store's.
        """
        self._reset_count += 1
        if self._file is not None:
            self._file.remove()

    def find_contradictions(self) -> Mapping[GripId, Sequence[Supersession]]:
        """Return supersessions by grip, oldest contradiction first.

        Reads what changed first; while another thread does that for more than 0.3 s, the former result is returned.
        """
        if not self._lock.acquire(timeout=_PATIENCE):
            return self._marks
        try:
            now = self._position()
            if self._followed_to is None and self._file is not None and (marks := self._file.load_marks(now[1])) is not None:
                self._followed_to = self._saved_at = now
                self._keep_marks(marks)
            if self._followed_to == now:
                return self._marks
            if self._followed_to is None or self._index is not None:
                self._follow_changes(now)
                return self._marks
        finally:
            self._lock.release()
        # Only the marks are known: they hold until the store has been searched through.
        search = threading.Thread(target=self._search_aside, name="contradictions", daemon=True)
        search.start()
        search.join(_PATIENCE)
        return self._marks

    def save(self) -> None:
        """Write what was found for the next process.

        Not while another thread follows changes, nor what is saved already or is no longer the last state.
        """
        if self._file is None or self._saved_at == self._followed_to or not self._lock.acquire(timeout=_PATIENCE):
            return
        try:
            if self._followed_to == self._position():
                pairs = zip(self._marked_nodes, itertools.chain.from_iterable(self._marks.values()), strict=True)
                self._file.save_marks(self._followed_to[1], itertools.starmap(Mark, pairs))
        finally:
            self._lock.release()

    def _position(self) -> tuple[int, int]:
        return self._reset_count, self._storage.toc.current_version()

    def _search_aside(self) -> None:
        try:
            with self._lock:
                if self._followed_to != (now := self._position()):
                    self._follow_changes(now)
        except MemoryMcpError as error:
            log.info("contradictions are looked for again: %s", error)

    def _follow_changes(self, position: tuple[int, int]) -> None:
        """Read the changed segments, or everything, then mark again.

        Everything at first, after `forget` and over 2000 changes. An older statement is marked if its author counts and counts no
        more than the newer one's.
        """
        index, followed_to = self._index, self._followed_to
        is_following = index is not None and followed_to is not None and followed_to[0] == position[0]
        changes = self._storage.outbox.read_after(followed_to[1], _MAX_CHANGES) if is_following and followed_to else []
        if index is None or not is_following or len(changes) == _MAX_CHANGES:
            former_pairs = None
            index, self._weights = _StatementIndex(), {}
            self._add_statements(
                index, self._storage.superseded.list_statements([kind.value for kind in FIRM], comparable_pattern())
            )
        else:
            former_pairs = set(index.pairs)
            ids = list(dict.fromkeys(NodeId(c.subject) for c in changes if segment_key_of(c.subject) is not None))
            dropped = [statement for node_id in ids for statement in index.by_segment.pop(segment_key_of(node_id), ())]
            for statement in dropped:
                for term in statement.claim.terms:
                    index.by_term[statement.stated.project, term].pop(statement.number, None)
            numbers = {statement.number for statement in dropped}
            index.pairs = {key: pair for key, pair in index.pairs.items() if numbers.isdisjoint(key)}
            for node_id, node in self._storage.toc.get_nodes(ids).items():
                if node.author == EXTRACTIVE:
                    self._add_statements(
                        index,
                        (StoredStatement(node_id, b.text, b.kind, b.project, b.grip_ids[0]) for b in node.bullets if b.grip_ids),
                    )
        self._index, self._followed_to = index, position
        if set(index.pairs) != former_pairs:
            self._mark_contradicted(index)

    def _mark_contradicted(self, index: _StatementIndex) -> None:
        """An older statement is marked if its author counts no more than that of the newer one."""
        pairs = index.pairs.values()
        new_grip_ids = {statement.stated.grip_id for pair in pairs for statement in pair} - self._weights.keys()
        grips = self._storage.grips.get_grips(new_grip_ids)
        quoted_events = self._storage.events.get_events(
            {g.event_id_start for g in grips.values() if g.event_id_start == g.event_id_end}
        )
        self._weights |= dict.fromkeys(new_grip_ids, 0) | {
            i: _author_weight(quoted_events.get(g.event_id_start)) for i, g in grips.items()
        }
        marks: list[Mark] = []
        for older, newer in sorted(pairs, key=lambda pair: (pair[1].at_ms, pair[1].stated.grip_id)):
            old, new = older.stated.grip_id, newer.stated.grip_id
            if old != new and 0 < self._weights[old] <= self._weights[new]:
                reason, author = CONTRADICTION_REASON, CONTRADICTION_AUTHOR
                supersession = Supersession(old, new, newer.at_ms, reason, author, older.stated.text)
                marks.append(Mark(older.stated.node_id, supersession))
        self._keep_marks(marks)

    def _keep_marks(self, marks: Sequence[Mark]) -> None:
        by_grip: dict[GripId, list[Mark]] = defaultdict(list)
        for mark in marks:
            by_grip[mark.supersession.old].append(mark)
        self._marked_nodes = [mark.node_id for several in by_grip.values() for mark in several]
        self._marks = {old: tuple(mark.supersession for mark in several) for old, several in by_grip.items()}

    def _add_statements(self, index: _StatementIndex, statements: Iterable[StoredStatement]) -> None:
        for stated in statements:
            claim = parse_claim(stated.text, MemoryKind(stated.kind)) if stated.project else None
            if claim is not None:
                statement = _Statement(next(self._numbers), stated, claim, grip_time(stated.grip_id))
                self._add_pairs(index, statement)
                index.by_segment.setdefault(segment_key_of(stated.node_id), []).append(statement)
                for term in claim.terms:
                    index.by_term[stated.project, term][statement.number] = statement

    def _add_pairs(self, index: _StatementIndex, statement: _Statement) -> None:
        sharing: dict[int, _Statement] = {}
        for term in statement.claim.terms:
            candidates = index.by_term.get((statement.stated.project, term), {})
            if len(candidates) <= _MAX_SHARING:
                sharing |= candidates
        for candidate in sharing.values():
            older, newer = (candidate, statement) if candidate.at_ms < statement.at_ms else (statement, candidate)
            passing = older.claim.is_passing or newer.claim.is_passing
            is_other_day = passing and self._calendar.day_of(older.at_ms) != self._calendar.day_of(newer.at_ms)
            if older.at_ms < newer.at_ms and contradicts(newer.claim, older.claim, is_other_day):
                index.pairs[older.number, newer.number] = (older, newer)


def _author_weight(event: Event | None) -> int:
    if event is None or event.thread or event.type not in _SAYS or is_recap(event):
        return 0
    if event.trust is Trust.USER and event.role is Role.USER:
        return 2
    return 1 if event.trust is Trust.AGENT_NOTE or event.role in (Role.USER, Role.ASSISTANT) else 0
