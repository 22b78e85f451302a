"""Says of statements about code what their repository says since: what they are shown with, wherever they are shown.

Invariants
1. Only repositories are read whose project is that of the statement, where its event was recorded or the caller here works.
2. An answer waits for `retrieval.repository_ms`, and for no lock; what is not known by then is not said, and known next time.
3. What cannot be told is not said.
"""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from memory_mcp.base.scope import find_head, is_gone, project_of
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.model.event import SHARED_BY, Event, Trust
from memory_mcp.model.ids import GripId, parse_span_grip
from memory_mcp.model.toc import MemoryKind
from memory_mcp.model.tool_run import KeyKind, make_hashes
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes.file_changes import FileStep
from memory_mcp.tree.outcomes.mentions import names_file
from memory_mcp.tree.outcomes.repository import Checkout, Claim, CodeChange, Repository
from memory_mcp.tree.outcomes.runs import base_name
from memory_mcp.tree.toc.statements import QuotedStatement, StretchView, stretch_rules

log = logging.getLogger(__name__)

#: Kinds of statements that may cease to hold with the code.
BINDING = frozenset((MemoryKind.DECISION, MemoryKind.CONSTRAINT, MemoryKind.PROCEDURE, MemoryKind.DEFINITION))
#: Seconds of one reading of a repository, and readings at once.
_READING, _AT_ONCE = 2.0, 2
#: Answers that are kept, about 300 bytes each, and bytes of lists of files (64 KB for 1,500 files).
_KEPT, _LISTS = 1000, 16 * 1024 * 1024
#: A first change by its own session counts as that of which the statement speaks, if it was committed within so long.
_COMMITTED_MS, _RUNS = 7 * 86_400_000, 20
_DAY_MS = 86_400_000
_COMMIT_WIDTH = 10
#: How many times as long as a statement what it was made from may be.
_LONGER = 3
#: Who asserted what hooks and importers recorded; sessions of a project, and events of each, that are looked at for a directory.
_RECORDED, _SESSIONS, _FIRST = (Trust.USER, Trust.ASSISTANT, Trust.TOOL), 20, 3
#: Seconds for which that is remembered, and what could not be read.
_FRESH = 300.0


#: A reading of a checkout, by what was asked: a claim's words and event, or a path.
_Key = tuple[Checkout, str, str]
#: Reads until a deadline: answers, "" for nothing to say, None where it was too slow or too much.
_Read = Callable[[float], Mapping[_Key, str | None]]


class LaterChanges:
    """Reads what repositories say since, in threads of its own; answers are kept by the commit of HEAD."""

    def __init__(self, storage: Storage, calendar: Calendar, budget_ms: int, reading_s: float = _READING) -> None:
        """An answer waits for `budget_ms`, 0 switches it off; a reading ends after `reading_s`."""
        self._storage, self._calendar, self._budget_ms, self._reading_s = storage, calendar, budget_ms, reading_s
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, str] = OrderedDict()
        self._files: OrderedDict[Checkout, bytes] = OrderedDict()
        self._folders: dict[str, tuple[str, float]] = {}
        self._readings: dict[Checkout | str, threading.Event] = {}
        #: Until when what could not be read is not read again.
        self._failed: dict[Checkout | str | _Key, float] = {}
        self._is_closed = False

    def close(self) -> None:
        """Begin no reading, and wait for those that are under way."""
        with self._lock:
            self._is_closed, readings = True, list(self._readings.values())
        deadline = time.monotonic() + self._reading_s
        for done in readings:
            done.wait(max(0.0, deadline - time.monotonic()))

    def tell(self, statements: Iterable[tuple[str, str, str]], directory: str = "", waits: bool = True) -> dict[str, str]:
        """Return by grip what repositories say since of (grip, words, kind); nothing of the others.

        Args:
            statements: Only those of binding kinds that name a file count.
            directory: Where a caller on this machine works, whose checkout is asked first.
            waits: Whether to wait for what is not known yet; it is read in either case.

        """
        if not self._budget_ms:
            return {}
        deadline = time.monotonic() + (self._budget_ms / 1000 if waits else 0)
        texts = {GripId(grip): text for grip, text, kind in statements if kind in BINDING and grip and names_file(text)}
        events = self._read_events(texts) if texts else {}
        keys: dict[GripId, _Key] = {}
        unknown: dict[Checkout, dict[_Key, tuple[str, Event]]] = {}
        for grip, (text, event) in events.items():
            if (checkout := self._find_checkout(event, directory, deadline)) is not None:
                keys[grip] = (checkout, text, event.event_id)
                if keys[grip] not in self._known and not self._has_failed(keys[grip]):
                    unknown.setdefault(checkout, {})[keys[grip]] = (text, event)
        for checkout, unread in unknown.items():
            self._read_within(checkout, partial(self._describe_events, checkout, unread), deadline)
        return {grip: note for grip, key in keys.items() if (note := self._known.get(key, ""))}

    @property
    def is_reading(self) -> bool:
        """Whether a repository is being read."""
        return bool(self._readings)

    def mark_stretches(self, stretches: Sequence[StretchView], directory: str = "", waits: bool = True) -> list[StretchView]:
        """Return stretches whose rules tell what became of their code."""
        rules = {statement for stretch in stretches for statement, _ in stretch_rules(stretch)}
        since = self.tell(((rule.grip_id, rule.text, MemoryKind.DECISION) for rule in rules), directory, waits)

        def mark(statement: QuotedStatement) -> QuotedStatement:
            is_told = statement in rules and statement.grip_id in since
            return replace(statement, since=since[statement.grip_id]) if is_told else statement

        return [replace(each, statements=tuple(map(mark, each.statements))) for each in stretches] if since else list(stretches)

    def list_names(self, path: str, project: str | None, directory: str) -> list[str]:
        """Return the other paths of a file by the renames that git knows, where a caller on this machine works or it lies.

        Raises nothing: a path may be any text.
        """
        if not self._budget_ms or not directory:
            return []
        file = Path(os.path.normpath(Path(directory, path)))
        # A path from the repository's top may be meant as well.
        is_place = Path(path).is_absolute() or os.path.lexists(file)
        folders = map(str, file.parents) if is_place else (directory,)
        head = next((head for folder in folders if (head := find_head(folder)) is not None), None)
        if head is None or (is_place and not file.is_relative_to(head[0])):
            return []
        checkout, deadline = Checkout(*head), time.monotonic() + self._budget_ms / 1000
        own_project = self._storage.projects.names.resolve_alias(project_of(checkout.tree))
        if project not in (None, own_project) or not self._find_folder(own_project, deadline):
            return []
        name = file.relative_to(checkout.tree).as_posix() if is_place else path
        key = (checkout, name, "")
        if key not in self._known and not self._has_failed(key):
            self._read_within(checkout, partial(self._describe_names, checkout, key), deadline)
        return [name for name in self._known.get(key, "").split("\0") if name]

    def _read_events(self, texts: Mapping[GripId, str]) -> dict[GripId, tuple[str, Event]]:
        """Return the words of each grip, with their code marked as it was said, and the event that it begins in."""
        spans = {grip: span for grip in texts if (span := parse_span_grip(grip))}
        stored = self._storage.grips.get_grips([grip for grip in texts if grip not in spans])
        spans |= {
            grip_id: (grip.event_id_start, grip.span_start, grip.span_end if grip.event_id_end == grip.event_id_start else 0)
            for grip_id, grip in stored.items()
        }
        events = self._storage.events.get_events({event_id for event_id, *_ in spans.values()})
        read: dict[GripId, tuple[str, Event]] = {}
        for grip, (event_id, start, end) in spans.items():
            if (event := events.get(event_id)) is not None:
                quote = event.text[start:end]
                is_quote = len(quote) < _LONGER * len(texts[grip]) and names_file(quote)
                read[grip] = (quote if is_quote else texts[grip], event)
        return read

    def _find_checkout(self, event: Event, directory: str, deadline: float) -> Checkout | None:
        """Return the caller's checkout of an event's project, else that of the event, else that of its newest sessions."""
        names = self._storage.projects.names

        def find_own(folder: str) -> Checkout | None:
            is_known = folder and names.display_name(project_of(folder), event.session_id) == event.project
            return Checkout(*head) if is_known and (head := find_head(folder)) is not None else None

        own_checkout = find_own(directory) or find_own(folder_of(event))
        return own_checkout or find_own(self._find_folder(event.project, deadline))

    def _find_folder(self, project: str, deadline: float) -> str:
        """Return the directory of the newest session of a project that has one; remembered for a while."""
        if is_gone(project) or not project:
            return ""
        if self._folders.get(project, ("", 0.0))[1] < time.monotonic():
            self._read_within(project, partial(self._look_for_folder, project), deadline)
        return self._folders.get(project, ("", 0.0))[0]

    def _look_for_folder(self, project: str, _: float) -> dict[_Key, str | None]:
        newest = self._storage.events.list_sessions(Scope(project=project), _SESSIONS)
        events = (self._storage.events.list_events(Scope(project=project), each.session_id, _FIRST) for each in newest)
        folders = (folder_of(event) for first in events for event in first)
        folder = next((folder for folder in folders if find_head(folder) is not None), "")
        self._folders[project] = (folder, time.monotonic() + _FRESH)
        return {}

    def _has_failed(self, subject: Checkout | str | _Key) -> bool:
        return self._failed.get(subject, 0.0) > time.monotonic()

    def _read_within(self, subject: Checkout | str, read: _Read, deadline: float) -> None:
        """Wait until a repository is read, after another reading of it; a reading goes on after the deadline."""
        is_begun = False
        while not is_begun:
            with self._lock:
                if self._is_closed or self._has_failed(subject):
                    return
                done = self._readings.get(subject)
                if done is None and len(self._readings) < _AT_ONCE:
                    is_begun, done = True, threading.Event()
                    self._readings[subject] = done
            if is_begun:
                threading.Thread(target=self._keep_answers, args=(subject, read, done), name="later-changes", daemon=True).start()
            if done is None or not done.wait(max(0.0, deadline - time.monotonic())):
                return

    def _keep_answers(self, subject: Checkout | str, read: _Read, done: threading.Event) -> None:
        failed_subjects: list[Checkout | str | _Key] = [subject]
        answers: Mapping[_Key, str | None] = {}
        try:
            answers = read(time.monotonic() + self._reading_s)
            unread_keys = [key for key, note in answers.items() if note is None]
            if not answers or len(unread_keys) < len(answers):
                failed_subjects = [*unread_keys]
        except Exception:
            log.exception("what is known since of %s could not be read", subject)
        now = time.monotonic()
        with self._lock:
            self._failed = {key: end for key, end in self._failed.items() if end > now}
            self._failed |= dict.fromkeys(failed_subjects, now + _FRESH)
            self._known |= {key: note for key, note in answers.items() if note is not None}
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            del self._readings[subject]
        done.set()

    def _describe_events(
        self, checkout: Checkout, statements: Mapping[_Key, tuple[str, Event]], deadline: float
    ) -> dict[_Key, str | None]:
        repository = self._open_repository(checkout, deadline)
        claims = [
            Claim(text, event.timestamp, folder_of(event), partial(self._is_own, event)) for text, event in statements.values()
        ]
        changes = zip(statements, repository.find_changes(claims), strict=True)
        return {key: None if of_claim is None else self._word_changes(of_claim) for key, of_claim in changes}

    def _describe_names(self, checkout: Checkout, key: _Key, deadline: float) -> dict[_Key, str | None]:
        names = self._open_repository(checkout, deadline).find_names(key[1])
        return {key: None if names is None else "\0".join(names)}

    def _open_repository(self, checkout: Checkout, deadline: float) -> Repository:
        repository = Repository(checkout, self._files.get(checkout), deadline)
        if repository.files is not None:
            with self._lock:
                self._files[checkout] = repository.files
                self._files.move_to_end(checkout)
                while sum(map(len, self._files.values())) > _LISTS:
                    self._files.popitem(last=False)
        return repository

    def _word_changes(self, changes: Iterable[CodeChange]) -> str:
        return "; ".join(dict.fromkeys(change.words + self._cite_commit(change.step) for change in changes))

    def _cite_commit(self, step: FileStep | None) -> str:
        return f" ({step.by.commit[:_COMMIT_WIDTH]}, {self._calendar.day_of(step.by.at_ms)})" if step is not None else ""

    def _is_own(self, event: Event, step: FileStep) -> bool:
        """Return whether the session of an event itself changed the file before a commit did."""
        if step.by.at_ms > event.timestamp + _COMMITTED_MS:
            return False
        hashes = make_hashes(KeyKind.FILE, [base_name(step.edit.old_path)])
        window = TimeWindow(event.timestamp - _DAY_MS, step.by.at_ms)
        runs = self._storage.tool_runs.find_runs(KeyKind.FILE, hashes, event.project, _RUNS, window)
        return any(stored.session_id == event.session_id and not stored.run.failed for stored in runs)


def folder_of(event: Event) -> str:
    """Return where an event was recorded on this machine; "" for what was sent or shared, as anyone may send any path."""
    return event.metadata.get("cwd", "") if event.trust in _RECORDED and SHARED_BY not in event.metadata else ""
