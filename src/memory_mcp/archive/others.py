"""Reads another memory as rows: a data directory that nobody has open, a backup, or any archive file.

Nothing of the other memory changes. Rows are read by the names of their columns, so that another version's are
understood.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_mcp.archive.backup import backups, find
from memory_mcp.archive.reading import Missing, rows_of
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, EventDraft, EventType, OriginalIdentity, Role, Trust
from memory_mcp.model.ids import event_id_from
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.storage.archive import SHARED, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope

#: Tables besides events that cannot be derived from these: what people and agents decided.
RECORDS = frozenset(
    ("pin", "superseded", "topic_label", "project_alias", "project_split", "segment_cut", "node", "bullet", "bullet_grip")
)
_DATABASE = "memory.duckdb"
#: Marks in the place of a secret, and of what was forgotten.
_TAKEN_OUT = re.compile(r"\[(?:REDACTED:[^\]\n]{1,100}|forgotten)\]")
#: Events of a session that are looked at together.
_PART = 1000


@dataclass(frozen=True, slots=True)
class Records:
    """Rows of small tables by their columns, by table."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def slices_of(place: Path, look_at: Callable[[Path], Storage], missing: list[Missing]) -> Iterator[TableRows]:
    """Yield every row of another memory, events first; what cannot be read is added to `missing`.

    A data directory is opened by `look_at` and closed at the end; else a backup file, or the newest backup of a
    folder, is read. Raises SourceUnreadable where there is no memory, and what opening a store raises.
    """
    if (place / _DATABASE).is_file():
        storage = look_at(place)
        try:
            with storage.archive.open_snapshot() as snapshot:
                for table in SHARED:
                    yield from snapshot.iter_shared(table, 0)
                yield from snapshot.iter_others()
        finally:
            storage.close()
        return
    if not (place.is_file() or backups(place)):
        raise SourceUnreadable(f"there is no memory and no backup in {place}", "Name a data directory, or a backup.")
    yield from rows_of(find(place), missing=missing)


def drafts_in(part: TableRows) -> list[EventDraft]:
    """Return the events of a slice of the table of events as drafts that keep id, source and trust."""
    return [
        EventDraft(
            session_id=row["session_id"],
            role=Role(row["role"]),
            type=EventType(row["type"]),
            text=row["text"],
            timestamp=row["ts"],
            source_id=row["source_id"],
            agent=row["agent"],
            project=row["project"],
            thread=row["thread"],
            speaker=row["speaker"],
            metadata=json.loads(row["metadata"]) if row["metadata"] else {},
            original=OriginalIdentity(event_id_from(int(row["event_id"])), row["source"], Trust(row["trust"])),
        )
        for row in (dict(zip(part.columns, values, strict=True)) for values in part.rows)
    ]


def unknown(storage: Storage, drafts: Sequence[EventDraft]) -> list[EventDraft]:
    """Return those events of another memory, in order, that are not stored here, be it with parts redacted or forgotten."""
    return [draft for draft, own in zip(drafts, matches(storage, drafts), strict=True) if own is None]


def matches(storage: Storage, drafts: Sequence[EventDraft]) -> list[Event | None]:
    """Return for each event of another memory the stored event that it is, None for a new one, in their order.

    It is the one with its id and the same words, else one of the session with the same time, role and words. The two
    may differ in what was redacted or forgotten of either. No stored event is given twice.
    """
    here = storage.events.get_events([draft.original.event_id for draft in drafts if draft.original])
    found: list[Event | None] = [None] * len(drafts)
    # Something taken out gives an event another id.
    sessions: dict[str, list[int]] = {}
    for place, draft in enumerate(drafts):
        own = here.get(draft.original.event_id) if draft.original else None
        if own is None:
            sessions.setdefault(draft.session_id, []).append(place)
        elif same_words(own.text, draft.text):
            found[place] = own
    taken = set(here)
    for session, places in sessions.items():
        said = _said(storage, session, [drafts[place] for place in places])
        for place in places:
            draft = drafts[place]
            there = said.get((draft.timestamp or 0, draft.role), ())
            own = next((e for e in there if e.event_id not in taken and same_words(e.text, draft.text)), None)
            if own is not None:
                taken.add(own.event_id)
                found[place] = own
    return found


def _said(storage: Storage, session: str, drafts: Sequence[EventDraft]) -> dict[tuple[int, Role], list[Event]]:
    """Return a session's shown events, by time and role, from first to last time of `drafts`; {} where none has a time."""
    moments = [draft.timestamp for draft in drafts if draft.timestamp is not None]
    found: dict[tuple[int, Role], list[Event]] = {}
    if not moments:
        return found
    span, after = Scope(window=TimeWindow(min(moments), max(moments) + 1)), None
    while part := storage.events.list_events(span, session, _PART, after):
        for event in part:
            found.setdefault((event.timestamp, event.role), []).append(event)
        after = (part[-1].timestamp, part[-1].event_id)
        if len(part) < _PART:
            break
    return found


def same_words(one: str, other: str) -> bool:
    """Return whether two texts are the same but for marks in the place of what was redacted or forgotten.

    One of them has to be the other with marks in the place of some of its words.
    """
    return one == other or _fits(one, other) or _fits(other, one)


def _fits(marked: str, whole: str) -> bool:
    """Return whether `whole` is `marked` with any text in the place of its marks; False where `marked` has no mark."""
    return _filled(_TAKEN_OUT.split(marked), whole) is not None


def forgotten_in(marked: str, whole: str) -> tuple[tuple[int, int], ...] | None:
    """Return (start, end) of the parts of `whole` that are marks of forgetting in `marked`; None where they differ otherwise.

    Also None where `marked` has no mark; spans that are empty or hold just a mark are left out.
    """
    spans = _filled(_TAKEN_OUT.split(marked), whole)
    if spans is None:
        return None
    told = zip(_TAKEN_OUT.findall(marked), spans, strict=True)
    return tuple((start, end) for mark, (start, end) in told if mark == FORGOTTEN and whole[start:end] not in ("", FORGOTTEN))


def _filled(parts: Sequence[str], whole: str) -> tuple[tuple[int, int], ...] | None:
    """Return (start, end) of the text between each two `parts`; None where one is missing or out of order, or there is only one.

    The first part has to begin the text, the last to end it; those between are looked for from the left.
    """
    first, *rest = parts
    if not rest or not whole.startswith(first) or not whole.endswith(rest[-1]):
        return None
    at, last = len(first), len(whole) - len(rest[-1])
    spans: list[tuple[int, int]] = []
    for part in rest[:-1]:
        if (found := whole.find(part, at, last)) < 0:
            return None
        spans.append((at, found))
        at = found + len(part)
    return None if at > last else (*spans, (at, last))
