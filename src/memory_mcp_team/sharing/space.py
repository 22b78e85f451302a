"""The server's half of sharing: a space takes in what its members publish, and gives out what is new.

Invariants
1. What was acknowledged is committed; the same batch again changes nothing: an event is known by its id, also where something
   was taken out of one of the copies.
2. Everything passes this memory's own gate, and tombstones; who published an event is what the server knows, never what it says.
3. Members forget and correct what they published; what others published needs the role that the refusal names.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery, PermissionDenied, ResourceExhausted
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import SHARED_BY, Event, EventDraft, make_carried_draft
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.upkeep.archive.others import match_events
from memory_mcp_team.sharing.position import Position, follow_position
from memory_mcp_team.sharing.removing import Removal, add, find_cuts
from memory_mcp_team.sharing.said import list_corrections, make_corrections_stamp, take
from memory_mcp_team.sharing.wire import (
    MAX_CHARS,
    MAX_EVENTS,
    MAX_IDS,
    corrections_to_json,
    count_chars,
    events_to_json,
    heard,
    mark_publisher,
    parse_corrections,
    parse_ids,
)

#: Roles by what they may do, lowest first.
ROLES = ("reader", "writer", "curator", "admin")
_WRITES, _CORRECTS, _FORGETS = "writer", "curator", "admin"
SOURCE = "share"
#: One batch at a time is compared with what is stored, and stored.
_TURN = threading.Lock()


@dataclass(frozen=True, slots=True)
class SpaceMember:
    """Who calls, with the role in the space."""

    name: str
    role: str

    def is_at_least(self, role: str) -> bool:
        """Return whether the member's role allows what `role` does."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def owns(self, event: Event) -> bool:
        """Return whether the member published an event, by the name that the server put into its metadata."""
        return event.metadata.get(SHARED_BY) == self.name


@dataclass(slots=True)
class ReceiveOutcome:
    """Outcome of a batch, as it is answered."""

    stored: int = 0
    known: int = 0
    forgotten: int = 0
    corrected: int = 0
    #: Events that were left out, by reason.
    left_out: dict[str, int] = field(default_factory=dict)
    #: Events that are stored under other ids, because something was taken out of them.
    renamed: dict[str, str] = field(default_factory=dict)
    #: What the member may not do: what it is about, and the role that may.
    refused: list[dict[str, str]] = field(default_factory=list)


def standing(app: App, space: str, member: SpaceMember) -> dict[str, Any]:
    """Return {space, member, role, may, events}.

    `may` lists what the role allows of read, publish, correct others and forget others; `events` is the
    number of the last stored event.
    """
    acts = {"read": "reader", "publish": _WRITES, "correct others": _CORRECTS, "forget others": _FORGETS}
    may = [act for act, role in acts.items() if member.is_at_least(role)]
    return {"space": space, "member": member.name, "role": member.role, "may": may, "events": app.storage.events.last_seq()}


def receive_batch(app: App, batch: Mapping[str, Any], member: SpaceMember) -> dict[str, Any]:
    """Store a batch of a member's memory, forget and correct what it says.

    It is committed when this returns. `batch` has lists of events, gone (ids) and corrections, each []
    where missing, and a cursor. Returns the fields of `Received` and that cursor. What the member may
    not do is in `refused` and changes nothing. Raises PermissionDenied for a member who may only read,
    InvalidQuery for anything but a batch, ResourceExhausted for one that holds more than a batch may.
    """
    if not member.is_at_least(_WRITES):
        hint = f"Ask an administrator of the space for the role {_WRITES}."
        raise PermissionDenied(f"publishing needs the role {_WRITES} in this space", hint)
    for name in ("events", "gone", "corrections"):
        if not isinstance(batch.get(name, []), list):
            raise InvalidQuery(f"{name} is no list", "Both sides must be of the same version.")
    rows, gone, correction_rows = batch.get("events", []), batch.get("gone", []), batch.get("corrections", [])
    if len(rows) > MAX_EVENTS or len(gone) > MAX_IDS:
        raise ResourceExhausted(f"a batch has at most {MAX_EVENTS} events and {MAX_IDS} ids", "Send several.")
    done, removal = ReceiveOutcome(), Removal()
    drafts, wrong = heard(rows)
    done.left_out.update({"no such event": wrong} if wrong else {})
    with _TURN:
        _store_drafts(app, [mark_publisher(draft, member.name) for draft in drafts], member, done, removal)
    for event in app.storage.events.get_events(parse_ids(gone)).values():
        if _may_forget(member, event, done):
            removal.gone.append(event)
    done.forgotten = removal.carry_out(app, member.name)
    done.corrected, refused = take(
        app, parse_corrections(correction_rows), lambda e: member.owns(e) or member.is_at_least(_CORRECTS), member.name
    )
    done.refused += [_make_refusal("correct", correction.old_event, _CORRECTS) for correction in refused]
    return {"cursor": batch.get("cursor"), **asdict(done)}


def _store_drafts(app: App, drafts: Sequence[EventDraft], member: SpaceMember, done: ReceiveOutcome, removal: Removal) -> None:
    """Store what is new of the drafts, in this space, and count in `done`; events without a project are left out.

    What is forgotten in the copy of a known event is added to `removal`; nothing is removed yet.
    """
    report, fresh = ImportReport(), list[EventDraft]()
    for draft, stored_event in zip(drafts, match_events(app.storage, drafts), strict=True):
        if stored_event is not None:
            done.known += 1
            _compare_copy(stored_event, draft, member, done, removal)
        elif not draft.project:
            report.dropped["no project"] += 1
        elif (clean := app.gate.clean_draft(draft, report)) is not None:
            fresh.append(clean)
            old_id, new_id = (original.original.event_id if original.original else "" for original in (draft, clean))
            if old_id != new_id:
                done.renamed[old_id] = new_id
    stored = app.append(fresh, SOURCE)
    done.stored, done.known = len(stored.new_ids), done.known + len(stored.known_ids)
    done.left_out.update(report.dropped)


def _compare_copy(stored_event: Event, draft: EventDraft, member: SpaceMember, done: ReceiveOutcome, removal: Removal) -> None:
    """Add to `removal` what is forgotten in the copy `draft` of the stored event `stored_event`, if the member may forget it.

    Where the copy has another id, `done.renamed` gets the pair; a refusal is noted in `done`.
    """
    if draft.original is not None and draft.original.event_id != stored_event.event_id:
        done.renamed[draft.original.event_id] = stored_event.event_id
    told_texts = (draft.text, *draft.metadata.values())
    if any(FORGOTTEN in text for text in told_texts):
        cuts = find_cuts(stored_event, draft)
        if (cuts is None or cuts) and _may_forget(member, stored_event, done):
            add(removal, stored_event, cuts)


def _may_forget(member: SpaceMember, event: Event, done: ReceiveOutcome) -> bool:
    if member.owns(event) or member.is_at_least(_FORGETS):
        return True
    done.refused.append(_make_refusal("forget", event.event_id, _FORGETS))
    return False


def _make_refusal(what: str, event_id: EventId, role: str) -> dict[str, str]:
    return {"what": what, "event": event_id, "needs": role}


def changes(app: App, after: str) -> dict[str, Any]:
    """Return what is new after a cursor, "" for the beginning, as {events, gone, more, cursor, perhaps corrections}.

    `gone` are ids of forgotten events. At most `MAX_EVENTS` events, or some `MAX_CHARS` characters;
    `more` is True where others may follow, and only the last page has corrections, all of them, if any
    is new. Where events were forgotten, what lies behind the first of them comes once more, under the
    ids it has.
    """
    position_text, _, stamp = after.rpartition("~")
    at, gone = follow_position(app.storage, Position.parse(position_text))
    events = app.storage.events.read_after(at.seq, MAX_EVENTS)
    drafts, chars, more = list[EventDraft](), 0, len(events) == MAX_EVENTS
    for stored in events:
        draft = make_carried_draft(stored.event)
        drafts.append(replace(draft, project=stored.event.project))
        at, chars = at.move_to(stored.seq, stored.event.event_id), chars + count_chars(draft)
        if chars > MAX_CHARS:
            more = True
            break
    now = make_corrections_stamp(app.storage.superseded.list_recorded())
    page: dict[str, Any] = {"events": events_to_json(drafts), "gone": gone, "more": more}
    # Behind all events, since they speak of them.
    if not more and now != stamp:
        page["corrections"] = corrections_to_json(list_corrections(app, lambda event: event.event_id))
        stamp = now
    return {**page, "cursor": f"{at}~{stamp}"}
