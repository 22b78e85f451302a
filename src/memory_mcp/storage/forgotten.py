"""What of a store's events goes or changes when something is forgotten (pure); shared by the engines."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_mcp.model.change import ChangeKind
from memory_mcp.model.event import Event
from memory_mcp.model.ids import event_id_from, event_key
from memory_mcp.model.renaming import renamed
from memory_mcp.storage.rows import EVENT, event_columns, event_of
from memory_mcp.storage.values import Cleaner

#: Events that are read at once.
READ = 2000
#: Text columns of rows that stand for themselves: what is cleaned there, and where the whole row goes with a name in it.
CLEANED = {
    "superseded": ("reason", "author"),
    "spending": ("reason", "model"),
    "pin": ("set_by",),
    "audit": ("author", "subject", "reason"),
}
DROPPED = {
    "checkpoint": ("name", "value"),
    "topic_label": ("label", "author"),
    "project_alias": ("old", "new", "author"),
    "project_split": ("project", "session_id", "folder", "new"),
}
#: Table, column and what is counted of rows that hang on a quotation.
BY_GRIP = (("usage", "grip_id", "openings"), ("superseded", "old_id", "superseded"), ("pin", "target", "pins"))
#: As `event_columns` gives them.
EVENT_COLUMNS = (
    *("seq", "event_id", "ts", "stream", "session_id", "agent", "project", "thread", "speaker", "type", "role", "trust"),
    *("source", "source_id", "content", "text", "metadata"),
)


@dataclass(frozen=True, slots=True)
class Going:
    """What is still asked of an event that goes."""

    event_id: str
    ts: int
    stream: int
    project: str


@dataclass(slots=True)
class Look:
    """What of the events goes or changes, as far as they were looked through."""

    #: Number of the last event that was looked at.
    last: int = 0
    #: By key; changed ones with their number and as they will be, by the key they had.
    gone: dict[int, Going] = field(default_factory=dict)
    changed: dict[int, tuple[int, Event]] = field(default_factory=dict)
    #: Streams they belong to, before and after.
    streams: set[int] = field(default_factory=set)

    def go_on(self, read: Callable[[int], Sequence[Sequence[Any]]], keep: Cleaner) -> None:
        """Look through the events behind the last; `read` returns some behind a number: that of each, and `EVENT`."""
        while found := read(self.last):
            for row in found:
                self._take(row[0], event_of(row[1:]), keep)
            self.last = found[-1][0]

    def _take(self, seq: int, event: Event, keep: Cleaner) -> None:
        kept = keep.cleaned(event)
        if kept is event:
            return
        self.streams.add(event.stream)
        if kept is None:
            self.drop(event)
        else:
            named = replace(kept, event_id=event_id_from(_key_now(event, kept)))
            self.streams.add(named.stream)
            self.changed[event_key(event.event_id)] = (seq, named)

    def news(self, first: int) -> list[tuple[ChangeKind, str]]:
        """Return what followers are told: ids that are gone, and the first number that is another event's now."""
        others = [key for key, (_, event) in self.changed.items() if event_key(event.event_id) != key]
        gone = [(ChangeKind.EVENT_DROPPED, str(event_id_from(key))) for key in (*self.gone, *others)]
        return [*gone, (ChangeKind.EVENTS_MOVED, str(first))]

    def drop(self, event: Event) -> None:
        """It goes."""
        key = event_key(event.event_id)
        self.streams.add(event.stream)
        self.changed.pop(key, None)
        self.gone[key] = Going(event.event_id, event.timestamp, event.stream, event.project)


def spellings(project: str) -> set[str]:
    """Return how a project is named in positions: clients name folders of session files after its path."""
    return {project, re.sub(r"[^A-Za-z0-9]", "-", project)}


def _key_now(before: Event, now: Event) -> int:
    """The key that an import gives an event whose text changed: that of its source's id stays."""
    return renamed(event_key(before.event_id), before.source, before, now)


def kept_row(keep: Cleaner, table: str, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A row of a copy of the store without what was forgotten: itself where it holds nothing of that, None where it goes."""
    if table == "event":
        event = event_of([row[name] for name in EVENT.split(", ")])
        kept = keep.cleaned(event)
        if kept is None or kept is event:
            return None if kept is None else row
        named = replace(kept, event_id=event_id_from(_key_now(event, kept)))
        columns = event_columns([named], row["seq"])
        return {**row, **dict(zip(EVENT_COLUMNS, (column[0] for column in columns), strict=True))}
    now = {name: _clean_cell(keep, value) for name, value in row.items()}
    if now == dict(row):
        return row
    return None if table in DROPPED else now


def _clean_cell(keep: Cleaner, value: Any) -> Any:
    if isinstance(value, str):
        return keep.clean(value)
    return [_clean_cell(keep, one) for one in value] if isinstance(value, list) else value
