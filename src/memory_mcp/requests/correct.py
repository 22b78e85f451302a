"""Supersede a recorded statement by another, or retract it; both stay stored and readable."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.event import Trust
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, hash_parts
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.toc import MemoryKind
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import PAGE, Argument, Flag, parse_choice
from memory_mcp.requests.notes import Note, store_note
from memory_mcp.requests.scope import Caller, visible_evidence

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Author of what a person typed on a terminal and confirmed.
PERSON = "person"
#: Longest reason, characters.
MAX_REASON = 500
#: Metadata of a correction: the grip that it stands for.
CORRECTS = "corrects"


_Grip = Annotated[str, Argument("As results cite it", longest=300)]
_Reason = Annotated[str, Argument(longest=MAX_REASON, flag=Flag("WHY", "why, for whoever reads it later"))]


@dataclass(frozen=True, slots=True)
class Correct:
    """Put another statement in the place of a recorded one, which is shown as superseded from now on."""

    grip_id: _Grip
    text: Annotated[str, Argument("What holds instead, self-contained", longest=100_000)]
    reason: _Reason = ""
    kind: Annotated[
        str, Argument(values=arguments.KINDS, flag=Flag("KIND", "decision, procedure, constraint, definition or preference"))
    ] = ""
    idempotency_key: arguments.Key = ""
    by: str = ""
    #: A person typed it on a terminal and confirmed it.
    is_person: bool = False
    #: A person typed it in the explorer: it is signed as theirs, and counts for no more than an agent's unless `is_person`.
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Retract:
    """Mark a recorded statement as holding no more, with nothing in its place."""

    grip_id: _Grip
    reason: _Reason = ""
    by: str = ""
    is_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """The quotation that is superseded now, and the one that stands in its place."""

    superseded: str
    grip_id: str = ""
    event_id: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """The latest acts upon the memory."""

    limit: Annotated[int, Argument(range=PAGE, flag=Flag("N", "how many (20)"))] = PAGE.default


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedAct:
    """One act."""

    when: str
    what: str
    author: str
    subject: str = ""
    reason: str = ""
    counts: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """Acts, newest first."""

    acts: Sequence[AuditedAct]


@answers("correct", Correct, "Correct", Effect.ADDS)
def correct(app: "App", request: Correct, caller: Caller) -> Corrected:
    """Record a statement that supersedes another; return its ids and project.

    Stores the text as an event, derives the tree up to it, and supersedes every grip that quotes the old
    statement; under the same key the event is stored once. Raises InvalidQuery when the text is empty, the
    kind is unknown or nothing of it may be stored, NotFound for an unknown quotation, or one that the caller may not see.
    """
    if not request.text.strip():
        raise InvalidQuery("the text is empty", "Say in one sentence what holds instead, or retract the statement.")
    old = visible_evidence(app, caller, request.grip_id)
    project = old.excerpt[0].project
    note = Note(
        text=request.text,
        agent=PERSON if request.is_person else request.by,
        project=project,
        kind=parse_choice(MemoryKind, "kind", request.kind) or "",
        key=f"correct:{request.idempotency_key}" if request.idempotency_key else "",
        trust=Trust.USER if request.is_person else Trust.AGENT_NOTE,
        by_hand=request.by_hand or request.is_person,
        source_id=f"correction:{hash_parts('correction', old.grip_id, request.text):x}",
        metadata={CORRECTS: old.grip_id},
    )
    event_id, grip = store_note(app, note)
    app.derivation.run()
    stored = app.storage.grips.grips_by_event([event_id]).get(event_id, [])
    grip = stored[0].grip_id if stored else grip
    _supersede(app, old, grip, request)
    return Corrected(superseded=old.grip_id, grip_id=grip, event_id=event_id, project=project)


@answers("retract", Retract, "Retract", Effect.SETS)
def retract(app: "App", request: Retract, caller: Caller) -> Corrected:
    """Record that a statement no longer holds; it stays stored.

    Raises NotFound for an unknown quotation, or one that the caller may not see.
    """
    old = visible_evidence(app, caller, request.grip_id)
    app.derivation.run()
    _supersede(app, old, None, request)
    return Corrected(superseded=old.grip_id, project=old.excerpt[0].project)


@answers("audit", Audit)
def audit(app: "App", request: Audit, caller: Caller) -> Audited:
    """Return the latest acts upon the memory, newest first.

    Raises InvalidQuery for a limit out of range or a caller bound to a project.
    """
    caller.refuse_all(app, "the list of acts")
    acts = app.storage.audit.list_entries(PAGE.check(request.limit))
    return Audited(
        acts=[
            AuditedAct(
                when=app.calendar.format_iso(act.at_ms),
                what=act.action,
                author=act.author,
                subject=act.subject,
                reason=act.reason,
                counts=dict(act.counts) or None,
            )
            for act in acts
        ]
    )


def _supersede(app: "App", old: ExpandedGrip, new: GripId | None, request: Correct | Retract) -> None:
    """Supersede every grip that quotes a statement; record the act.

    `new` None is a retraction. These are grips whose quotation holds the statement's or is part of it. Does nothing where the
    same is recorded already. The reason is cut to `MAX_REASON` characters and cleaned of secrets.
    """
    now, author = app.clock.now_ms(), PERSON if request.is_person else request.by
    reason = app.gate.clean_text(request.reason[:MAX_REASON])
    recorded = app.storage.superseded.get_successors([old.grip_id]).get(old.grip_id)
    if recorded is not None and recorded.new == new:
        return
    # Also overlapping grips, and those of duplicates of its message.
    ids = {e.event_id for e in old.excerpt}
    pairs = app.storage.events.find_duplicates(ids)
    grips = [g for several in app.storage.grips.grips_by_event(ids | set(pairs) | set(pairs.values())).values() for g in several]
    inside = (i for i, quote in app.evidence.read_quotes(grips).items() if quote in old.quote or old.quote in quote)
    for grip in dict.fromkeys([old.grip_id, *inside]):
        app.storage.superseded.record_supersession(Supersession(grip, new, now, reason, author))
    what = "correct" if new is not None else "retract"
    app.storage.audit.record_entry(AuditEntry(what, now, author, f"{old.grip_id} {new or ''}".strip(), reason))
