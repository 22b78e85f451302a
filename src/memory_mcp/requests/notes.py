"""Stores a statement as an event: what `remember` stores, and what replaces a corrected statement."""

import uuid
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.model.event import TOOL, EventDraft, EventType, Role, Trust
from memory_mcp.model.ids import EventId, GripId, event_id, span_grip_id
from memory_mcp.storage.values import WriteRequest

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of a note that its grip quotes.
_QUOTED = 600
#: How the sessions of notes begin.
_SESSIONS = "notes:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The text, author and project of a note, and the key under which it is stored once."""

    text: str
    agent: str
    project: str
    kind: str = ""
    key: str = ""
    #: Identifies the text, so that storing it twice in one moment makes one event; "" where two events are wanted.
    source_id: str = ""
    trust: Trust = Trust.AGENT_NOTE
    #: A person wrote it, whether or not they confirmed that on a terminal, which `trust` says.
    by_hand: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


def is_notes(session_id: str) -> bool:
    """Return whether a session, by its id, holds only notes or corrections."""
    return session_id.startswith(_SESSIONS)


def store_note(app: "App", note: Note) -> tuple[EventId, GripId]:
    """Store a note once per key; return its event and grip.

    It is an event of its own transaction. The grip quotes the whole text, or up to `_QUOTED` characters of it, ended at a
    space. Raises NotFound when it was stored under this key before and was forgotten since, and what the write raises, such as
    InvalidQuery for a refused text.
    """
    now = app.clock.now_ms()
    source_id = note.source_id or f"note:{uuid.uuid4().hex}"
    note_id = event_id(now, TOOL, source_id)
    draft = EventDraft(
        session_id=f"{_SESSIONS}{note.agent}:{app.calendar.day_of(now)}",
        role=Role.USER if note.by_hand or note.trust is Trust.USER else Role.ASSISTANT,
        type=EventType.NOTE,
        text=note.text,
        timestamp=now,
        source_id=source_id,
        agent=note.agent,
        project=note.project,
        metadata={**note.metadata, **({"kind": note.kind} if note.kind else {})},
    )
    outcome = app.write([draft], TOOL, note.trust, WriteRequest(f"remember:{note.key}", note_id) if note.key else None)
    stored = (
        EventId(outcome.replayed_answer) if outcome.replayed_answer is not None else (*outcome.new_ids, *outcome.known_ids)[0]
    )
    event = app.storage.events.find_event(stored)
    if event is None:
        raise NotFound(f"the note {stored} was forgotten since", "Say it again with another idempotency_key.")
    # The quotation ends at the end of the text, or after the last word that fits.
    space = event.text.rfind(" ", _QUOTED // 2, _QUOTED)
    end = len(event.text) if len(event.text) <= _QUOTED else space if space > 0 else _QUOTED
    return stored, span_grip_id(stored, 0, end)
