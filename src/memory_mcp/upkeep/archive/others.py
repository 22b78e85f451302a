"""Reads another memory as rows: a closed data directory, a backup, or an archive file.

Nothing of the other memory changes. Rows are read by the names of their columns, so that another version's are understood.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, EventDraft, EventType, OriginalIdentity, Role, Trust
from memory_mcp.model.ids import event_id_from
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.storage.archive import SHARED, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.upkeep.archive.backup import find_backup, list_backups
from memory_mcp.upkeep.archive.reading import Missing, iter_rows

#: Tables besides events that cannot be derived from these: what people and agents decided.
RECORDS = frozenset(
    ("pin", "superseded", "topic_label", "project_alias", "project_split", "segment_cut", "node", "bullet", "bullet_grip")
)
_DATABASE = "memory.duckdb"
#: Marks in the place of a secret, and of what was forgotten.
_REMOVED_MARK = re.compile(r"\[(?:REDACTED:[^\]\n]{1,100}|forgotten)\]")
#: Events of a session that are looked at together.
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Records:
    """Rows of small tables by their columns, by table."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def iter_slices(path: Path, look_at: Callable[[Path], Storage], missing: list[Missing]) -> Iterator[TableRows]:
    """Yield every row of another memory, events first.

    What cannot be read is added to `missing`. A data directory is opened by `look_at` and closed at the end; else a backup
    file, or the newest backup of a folder, is read. Raises SourceUnreadable where there is no memory, and what opening a
    store raises.
    """
    if (path / _DATABASE).is_file():
        storage = look_at(path)
        try:
            with storage.archive.open_snapshot() as snapshot:
                for table in SHARED:
                    yield from snapshot.iter_shared(table, 0)
                yield from snapshot.iter_others()
        finally:
            storage.close()
        return
    if not (path.is_file() or list_backups(path)):
        raise SourceUnreadable(f"there is no memory and no backup in {path}", "Name a data directory, or a backup.")
    yield from iter_rows(find_backup(path), missing=missing)


def parse_drafts(part: TableRows) -> list[EventDraft]:
    """Return events as drafts that keep id, source and trust."""
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


def select_unknown(storage: Storage, drafts: Sequence[EventDraft]) -> list[EventDraft]:
    """Return those events of another memory that are not stored here.

    Also not with parts redacted or forgotten.
    """
    return [draft for draft, stored in zip(drafts, match_events(storage, drafts), strict=True) if stored is None]


def match_events(storage: Storage, drafts: Sequence[EventDraft]) -> list[Event | None]:
    """Return the stored event of each draft, None for a new one.

    It is the one with its id and the same words, else one of the session with the same time, role and words. The two may
    differ in what was redacted or forgotten of either. No stored event is given twice.
    """
    stored_events = storage.events.get_events([draft.original.event_id for draft in drafts if draft.original])
    matched: list[Event | None] = [None] * len(drafts)
    # Something taken out gives an event another id.
    sessions: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        stored = stored_events.get(draft.original.event_id) if draft.original else None
        if stored is None:
            sessions.setdefault(draft.session_id, []).append(index)
        elif is_same_text(stored.text, draft.text):
            matched[index] = stored
    used_ids = set(stored_events)
    for session, indices in sessions.items():
        session_events = _read_session(storage, session, [drafts[index] for index in indices])
        for index in indices:
            draft = drafts[index]
            candidates = session_events.get((draft.timestamp or 0, draft.role), ())
            stored = next((e for e in candidates if e.event_id not in used_ids and is_same_text(e.text, draft.text)), None)
            if stored is not None:
                used_ids.add(stored.event_id)
                matched[index] = stored
    return matched


def _read_session(storage: Storage, session: str, drafts: Sequence[EventDraft]) -> dict[tuple[int, Role], list[Event]]:
    """Return a session's shown events around `drafts`, by time and role."""
    moments = [draft.timestamp for draft in drafts if draft.timestamp is not None]
    events_by_time: dict[tuple[int, Role], list[Event]] = {}
    if not moments:
        return events_by_time
    span, after = Scope(window=TimeWindow(min(moments), max(moments) + 1)), None
    while part := storage.events.list_events(span, session, _BATCH, after):
        for event in part:
            events_by_time.setdefault((event.timestamp, event.role), []).append(event)
        after = (part[-1].timestamp, part[-1].event_id)
        if len(part) < _BATCH:
            break
    return events_by_time


def is_same_text(first: str, second: str) -> bool:
    """Return whether two texts differ only in redacted or forgotten parts."""
    return first == second or _fits_marked(first, second) or _fits_marked(second, first)


def _fits_marked(marked: str, text: str) -> bool:
    return _match_gaps(_REMOVED_MARK.split(marked), text) is not None


def find_forgotten(marked: str, text: str) -> tuple[tuple[int, int], ...] | None:
    """Return spans of `text` that are marks of forgetting in `marked`.

    None where they differ otherwise, or `marked` has no mark; spans that are empty or hold just a mark are left out.
    """
    spans = _match_gaps(_REMOVED_MARK.split(marked), text)
    if spans is None:
        return None
    marked_spans = zip(_REMOVED_MARK.findall(marked), spans, strict=True)
    return tuple(
        (start, end) for mark, (start, end) in marked_spans if mark == FORGOTTEN and text[start:end] not in ("", FORGOTTEN)
    )


def _match_gaps(parts: Sequence[str], text: str) -> tuple[tuple[int, int], ...] | None:
    """Return the spans between each two `parts` of a text, or None.

    The first part has to begin the text, the last to end it; those between are looked for from the left.
    """
    first, *following = parts
    if not following or not text.startswith(first) or not text.endswith(following[-1]):
        return None
    position, last = len(first), len(text) - len(following[-1])
    spans: list[tuple[int, int]] = []
    for part in following[:-1]:
        if (start := text.find(part, position, last)) < 0:
            return None
        spans.append((position, start))
        position = start + len(part)
    return None if position > last else (*spans, (position, last))
