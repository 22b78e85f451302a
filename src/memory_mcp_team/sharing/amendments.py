"""What changes after an event was shared: corrections of statements, and removal of what others forgot."""

from collections.abc import Callable, Sequence
from dataclasses import field

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.tombstones import ForgetRequest, TextCut
from memory_mcp.forgetting.act import Forgetting
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import EventId, hash_parts
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.sentinel import FORGOTTEN
from memory_mcp.upkeep.archive.others import find_forgotten
from memory_mcp_team.sharing.wire import MAX_CORRECTIONS, Correction


def list_corrections(app: App, may: Callable[[Event], EventId | None]) -> list[Correction]:
    """Return the latest correction of each statement, by time.

    `may` gives the id under which an event is known there; corrections of other events are left out. Looks at the latest 5000.
    """
    recorded = app.storage.superseded.list_recorded()[-MAX_CORRECTIONS:]
    grips = app.storage.grips.get_grips({g for correction in recorded for g in (correction.old, correction.new) if g})
    events = app.storage.events.get_events({e for grip in grips.values() for e in (grip.event_id_start, grip.event_id_end)})
    ids = {event_id: may(event) for event_id, event in events.items()}
    corrections = []
    for correction in recorded:
        of = [grips.get(grip) for grip in (correction.old, correction.new) if grip]
        starts = [ids.get(grip.event_id_start) for grip in of if grip and ids.get(grip.event_id_end)]
        if len(starts) == len(of) and all(starts):
            corrections.append(Correction(correction, starts[0] or EventId(""), starts[1] if correction.new else None))
    return corrections


def make_corrections_stamp(recorded: Sequence[Supersession]) -> str:
    """Return a digest of corrections, without their reasons."""
    parts = (f"{correction.old} {correction.new or ''} {correction.at_ms}" for correction in recorded)
    return f"{hash_parts('said', *parts, bits=60):x}"


def record_corrections(
    app: App, corrections: Sequence[Correction], may: Callable[[Event], bool], author: str = ""
) -> tuple[int, list[Correction]]:
    """Record corrections later than what is recorded; return count and refused.

    At the same time the one whose successor sorts last counts as later. `may` is asked with the first event of the statement.
    `author` is recorded in place of the one that they name. Unknown quotations are skipped.
    """
    recorded_by_statement = {correction.old: correction for correction in app.storage.superseded.list_recorded()}
    new = []
    for correction in corrections:
        incoming, recorded = correction.superseded, recorded_by_statement.get(correction.superseded.old)
        if recorded is None or (incoming.at_ms, incoming.new or "") > (recorded.at_ms, recorded.new or ""):
            new.append(correction)
    if not new:
        return 0, []
    # Quotations are made when their events are filed.
    app.derivation.run()
    grips = app.storage.grips.get_grips(
        {g for correction in new for g in (correction.superseded.old, correction.superseded.new) if g}
    )
    events = app.storage.events.get_events({grip.event_id_start for grip in grips.values()})
    refused, count = [], 0
    for correction in new:
        incoming = correction.superseded
        if incoming.old not in grips or (incoming.new and incoming.new not in grips):
            continue
        event = events.get(grips[incoming.old].event_id_start)
        if event is None or not may(event):
            refused.append(correction)
            continue
        who, reason = author or app.gate.clean_name(incoming.author), app.gate.clean_text(incoming.reason)
        app.storage.superseded.record_supersession(Supersession(incoming.old, incoming.new, incoming.at_ms, reason, who))
        what = "correct" if incoming.new else "retract"
        subject = f"{incoming.old} {incoming.new or ''}".strip()
        app.storage.audit.record_entry(AuditEntry(what, app.clock.now_ms(), who, subject, reason))
        count += 1
    return count, refused


@dataclass(slots=True)
class Removal:
    """Events and parts of events that are to be forgotten."""

    whole_events: list[Event] = field(default_factory=list)
    cuts: list[TextCut] = field(default_factory=list)

    @property
    def event_ids(self) -> set[str]:
        """The ids of the events concerned, whole or in part."""
        return {event.event_id for event in (*self.whole_events, *(cut.event for cut in self.cuts))}

    def carry_out(self, app: App, author: str) -> int:
        """Forget them for good, as by `author`; return how many events."""
        if self.event_ids:
            selection = ForgetRequest(events=self.whole_events, cuts=self.cuts)
            Forgetting(app).carry_out(selection, app.gate.clean_name(author), "shared events")
        return len(self.event_ids)


def find_cuts(event: Event, copy: EventDraft) -> list[TextCut] | None:
    """Return the parts of an event that are forgotten in `copy`.

    [] if nothing is forgotten, None if a part is not found.
    """
    pairs = [(event.text, copy.text)]
    pairs += [(event.metadata[key], value) for key, value in copy.metadata.items() if key in event.metadata]
    cuts = []
    for stored_text, copy_text in pairs:
        if FORGOTTEN not in copy_text or stored_text == copy_text:
            continue
        spans = find_forgotten(copy_text, stored_text)
        if spans is None:
            return None
        if spans:
            cuts.append(TextCut(event, stored_text, spans))
    return cuts


def add_event(removal: Removal, event: Event, cuts: Sequence[TextCut] | None) -> None:
    """Add an event's cuts to `removal`, or the whole event."""
    if cuts is None:
        removal.whole_events.append(event)
    else:
        removal.cuts += cuts
