"""remember and ingest_events: what agents write into the memory. Every write passes the gate, which redacts secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, ResourceExhausted
from memory_mcp.importers.jsonl import draft_of
from memory_mcp.model.event import Trust
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.notes import Note, store_note
from memory_mcp.requests.pins import set_pin
from memory_mcp.requests.scope import Caller, project_to_store
from memory_mcp.storage.values import WriteRequest

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Kind of source: the same event ingested by a tool or imported from a file is one event.
_SOURCE = "jsonl"
#: Events of one call.
_MOST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep a decision, preference, constraint or fact worth having in later sessions.

    Conversations are recorded elsewhere; secrets are redacted.
    """

    text: Annotated[str, Argument("One self-contained statement", longest=100_000)]
    kind: arguments.Kind = ""
    project: Annotated[str, Argument("Default: the caller's", longest=500)] = ""
    pin: Annotated[bool, Argument()] = False
    idempotency_key: arguments.Key = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The event that was stored, and the grip that quotes it."""

    event_id: str
    grip_id: str


@dataclass(frozen=True, slots=True)
class IngestEvents:
    """Store events of a conversation, all or none. An event seen before changes nothing."""

    events: Annotated[
        Sequence[Mapping[str, Any]],
        Argument("Each: session_id, timestamp, role, text; id, speaker, type, agent, project, metadata optional"),
    ]
    idempotency_key: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """How many events were stored and known, and the ids of those that are new."""

    stored: int
    known: Annotated[int, "Stored before; unchanged"]
    event_ids: list[str]


@answers("remember", Remember, "Remember", Effect.ADDS)
def remember(app: "App", request: Remember, caller: Caller) -> Remembered:
    """Store a note as the agent's, once under its key, and pin its grip if asked for.

    Raises InvalidQuery for an empty text, an ambiguous project or a refused text, NotFound where a note under the same key was
    forgotten since.
    """
    if not request.text.strip():
        raise InvalidQuery("the text is empty", "Say in one sentence what is to be remembered.")
    project = project_to_store(app, request.project, caller)
    note = Note(text=request.text, agent=request.by, project=project, kind=request.kind, key=request.idempotency_key)
    event_id, grip_id = store_note(app, note)
    if request.pin:
        set_pin(app, grip_id, True, request.by)
    return Remembered(event_id=event_id, grip_id=grip_id)


@answers("ingest_events", IngestEvents, "Ingest events", Effect.SETS)
def ingest_events(app: "App", request: IngestEvents, caller: Caller) -> Ingested:
    """Store all events in one write; return how many are new or known, and the ids of the new ones.

    An event has the caller's agent and project where it names none. Raises InvalidQuery for one that cannot be stored, or that
    names another project than a bound caller's, ResourceExhausted for too many.
    """
    if len(request.events) > _MOST_EVENTS:
        raise ResourceExhausted(f"{len(request.events)} events at once", f"Send at most {_MOST_EVENTS} per call.")
    drafts = []
    for number, event in enumerate(request.events, 1):
        try:
            draft = draft_of(event)
        except InvalidQuery as error:
            text = f"event {number} of {len(request.events)}: {error.message}"
            raise InvalidQuery(text, f"{error.hint} Nothing was stored.") from None
        project = project_to_store(app, draft.project, caller) if caller.locked else draft.project or caller.project
        drafts.append(replace(draft, agent=draft.agent or request.by, project=project))
    key = WriteRequest(f"ingest:{request.idempotency_key}") if request.idempotency_key else None
    outcome = app.write(drafts, _SOURCE, Trust.IMPORTED, key)
    new: list[str] = [*outcome.new_ids] if outcome.replayed_answer is None else outcome.replayed_answer.split()
    return Ingested(stored=len(new), known=len(drafts) - len(new), event_ids=new)
