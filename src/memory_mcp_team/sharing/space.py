"""The server's half of sharing: a space takes in what its members publish, and gives out what is new.

Invariants
1. What was acknowledged is committed; the same batch again changes nothing: an event is known by its id, also where something
   was taken out of one of the copies.
2. Everything passes this memory's own gate, and tombstones; who published an event is what the server knows, never what it says.
3. Members forget and correct what they published; what others published needs the role that the refusal names.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, ResourceExhausted
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import SHARED_BY, Event, EventDraft, make_carried_draft
from memory_mcp.model.ids import EventId
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.upkeep.archive.others import match_events
from memory_mcp_team.errors import PermissionDenied
from memory_mcp_team.sharing.amendments import (
    Removal,
    add_event,
    find_cuts,
    list_corrections,
    make_corrections_stamp,
    record_corrections,
)
from memory_mcp_team.sharing.position import Position, follow_position
from memory_mcp_team.sharing.wire import (
    MAX_CHARS,
    MAX_EVENTS,
    MAX_IDS,
    corrections_to_json,
    count_chars,
    events_to_json,
    mark_publisher,
    parse_corrections,
    parse_events,
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
        """Return whether the member published an event, as the server noted."""
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


def describe_permissions(app: App, space: str, member: SpaceMember) -> dict[str, Any]:
    """Return {space, member, role, may, events} of a member.

    `may` lists acts in words; `events` is the number of the last stored event.
    """
    acts = {"read": "reader", "publish": _WRITES, "correct others": _CORRECTS, "forget others": _FORGETS}
    may = [act for act, role in acts.items() if member.is_at_least(role)]
    return {"space": space, "member": member.name, "role": member.role, "may": may, "events": app.storage.events.last_seq()}


def receive_batch(app: App, batch: Mapping[str, Any], member: SpaceMember) -> dict[str, Any]:
    """Store, forget and correct what a member's batch says.

    It is committed when this returns, with the fields of `ReceiveOutcome`. What the member may not do is in `refused`. Raises
    PermissionDenied for a member who may only read, InvalidQuery for anything but a batch, ResourceExhausted for a too large one.
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
    drafts, wrong = parse_events(rows)
    done.left_out.update({"no such event": wrong} if wrong else {})
    with _TURN:
        _store_drafts(app, [mark_publisher(draft, member.name) for draft in drafts], member, done, removal)
    for event in app.storage.events.get_events(parse_ids(gone)).values():
        if _may_forget(member, event, done):
            removal.whole_events.append(event)
    done.forgotten = removal.carry_out(app, member.name)
    done.corrected, refused = record_corrections(
        app, parse_corrections(correction_rows), lambda e: member.owns(e) or member.is_at_least(_CORRECTS), member.name
    )
    done.refused += [_make_refusal("correct", correction.old_event, _CORRECTS) for correction in refused]
    return {"cursor": batch.get("cursor"), **asdict(done)}


def _store_drafts(app: App, drafts: Sequence[EventDraft], member: SpaceMember, done: ReceiveOutcome, removal: Removal) -> None:
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
    if draft.original is not None and draft.original.event_id != stored_event.event_id:
        done.renamed[draft.original.event_id] = stored_event.event_id
    told_texts = (draft.text, *draft.metadata.values())
    if any(FORGOTTEN in text for text in told_texts):
        cuts = find_cuts(stored_event, draft)
        if (cuts is None or cuts) and _may_forget(member, stored_event, done):
            add_event(removal, stored_event, cuts)


def _may_forget(member: SpaceMember, event: Event, done: ReceiveOutcome) -> bool:
    if member.owns(event) or member.is_at_least(_FORGETS):
        return True
    done.refused.append(_make_refusal("forget", event.event_id, _FORGETS))
    return False


def _make_refusal(what: str, event_id: EventId, role: str) -> dict[str, str]:
    return {"what": what, "event": event_id, "needs": role}


def read_changes(app: App, after: str) -> dict[str, Any]:
    """Return what is new after a cursor as {events, gone, more, cursor}.

    Only the last page has `corrections`, all of them, if any is new. If events were forgotten, what is after the first of them
    comes once more, under the ids it has.
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
