"""A memory of calls alone, filled session by session: what hints are made from, without an index, a tree or a disk.

Calls, results and their keys are made as the real memory makes them; a session is one stream for each thread. What people
demanded of files needs the tree, and is not in it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.ids import EventId, hash_parts
from memory_mcp.model.tool_run import KeyKind, StoredRun
from memory_mcp.tree.outcomes.runs import runs_of


class CallMemory:
    """The part of an App that hints read."""

    def __init__(self) -> None:
        self._app = App(Settings(), in_memory=True)
        self.calendar, self.clock, self.settings = self._app.calendar, self._app.clock, self._app.settings
        self.tree = SimpleNamespace(short_names=dict)
        empty = SimpleNamespace(get_grips=lambda _: {})
        statements = SimpleNamespace(list_statements=lambda *_: [], get_successors=lambda _: {})
        hints = SimpleNamespace(list_hints=list, record_outcomes=lambda _: None)
        self._events, self._runs = _Events(), _Runs()
        self.storage = SimpleNamespace(events=self._events, tool_runs=self._runs, grips=empty, superseded=statements, hints=hints)

    def add_session(self, drafts: Sequence[EventDraft]) -> None:
        """Store the calls of a session."""
        events = self._app.log.make_events(drafts, "bench")
        self._events.by_id |= {event.event_id: event for event in events}
        for thread, several in _group_by_thread(events):
            stream = hash_parts(several[0].session_id, thread, bits=60)
            ordered = sorted(several, key=lambda event: event.order)
            for run in runs_of(ordered, stream):
                self._runs.add_run(StoredRun(run, stream, several[0].project, several[0].session_id))


class _Events:
    def __init__(self) -> None:
        self.by_id: dict[EventId, Event] = {}

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        return {event_id: self.by_id[event_id] for event_id in ids if event_id in self.by_id}


class _Runs:
    def __init__(self) -> None:
        self._by_key: dict[tuple[KeyKind, int, str], list[StoredRun]] = defaultdict(list)
        self._by_stream: dict[int, list[StoredRun]] = defaultdict(list)
        self._failed: dict[str, list[StoredRun]] = defaultdict(list)

    def add_run(self, stored: StoredRun) -> None:
        for kind, value in stored.run.keys:
            self._by_key[kind, value, stored.project].append(stored)
        self._by_stream[stored.stream].append(stored)
        if stored.run.failed:
            self._failed[stored.project].append(stored)

    def find_runs(
        self, kind: KeyKind, hashes: Iterable[int], project: str | None, limit: int, _: TimeWindow | None = None
    ) -> list[StoredRun]:
        several = (stored for value in hashes for stored in self._by_key.get((kind, value, project or ""), ()))
        return sorted(dict.fromkeys(several), key=lambda stored: stored.run.call, reverse=True)[:limit]

    def list_stream_runs(self, streams: Iterable[int]) -> dict[int, list[StoredRun]]:
        return {stream: self._by_stream.get(stream, []) for stream in streams}

    def list_failed_runs(self, project: str) -> list[StoredRun]:
        return self._failed.get(project, [])[::-1]


def began_at(drafts: Sequence[EventDraft]) -> int:
    """Return the time of the first draft that has one; 0: none has."""
    return min((draft.timestamp for draft in drafts if draft.timestamp), default=0)


def _group_by_thread(events: Sequence[Event]) -> Iterator[tuple[str, list[Event]]]:
    threads: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        threads[event.thread].append(event)
    yield from threads.items()
