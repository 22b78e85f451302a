"""Corrections and retractions of shared statements: which may leave, and which of those that come are recorded."""

from collections.abc import Callable, Sequence

from memory_mcp.app import App
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import EventId, hash_parts
from memory_mcp.model.ledger import AuditEntry
from memory_mcp_team.sharing.wire import MAX_SAID, Correction


def list_corrections(app: App, may: Callable[[Event], EventId | None]) -> list[Correction]:
    """Return the latest correction of each statement, where `may` gives ids to the events of its quotations.

    Looked at are the latest 5000 of all; in order of time. Both quotations have to have an id, that of the statement and
    that of its successor if there is one; others are left out.
    """
    recorded = app.storage.superseded.list_recorded()[-MAX_SAID:]
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
    """Return a digest (60 bits, hexadecimal) of the quotations and times of corrections in their order, not of their reasons."""
    parts = (f"{correction.old} {correction.new or ''} {correction.at_ms}" for correction in recorded)
    return f"{hash_parts('said', *parts, bits=60):x}"


def take(
    app: App, corrections: Sequence[Correction], may: Callable[[Event], bool], author: str = ""
) -> tuple[int, list[Correction]]:
    """Record corrections that are later than what is recorded.

    Return how many, and those that `may` refuses. At the same time the one whose successor sorts last counts as
    later. `may` is asked with the first event of the statement's quotation. The tree is derived first where any
    may be new, as quotations are made with it; corrections whose quotations are not here are passed over. Each is
    recorded in the audit too. `author` is recorded in place of the author that they name.
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
