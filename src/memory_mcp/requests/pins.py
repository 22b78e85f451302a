"""Pin or unpin a node, a grip or a topic, so that it ranks higher."""

from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.ids import ROOT, parse_topic_id
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.scope import Caller, visible_evidence
from memory_mcp.requests.times import times_of

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class Pin:
    """Pin a node, grip or topic, so that it counts for more; on=false lets go."""

    id: Annotated[str, Argument("Id of a node, grip or topic", longest=300)]
    on: Annotated[bool, Argument()] = True
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The canonical id, and whether it is pinned now."""

    id: str
    pinned: bool


@answers("pin", Pin, "Pin", Effect.SETS)
def pin(app: "App", request: Pin, caller: Caller) -> Pinned:
    """Pin or unpin a node, grip or topic; return its state.

    A change has an entry in the audit log. A topic is pinned in all scopes. Raises InvalidQuery for an invalid id and for the
    root, NotFound for an unknown id or one that the caller may not see, LayerUnavailable for a topic where topics cannot be
    used.
    """
    by = app.gate.clean_name(request.by)
    if request.id.startswith("topic:"):
        # A topic is pinned in all scopes.
        earlier_pins = app.storage.toc.list_pins()
        topic = app.topics.pin_topic(parse_topic_id(request.id), request.on, caller.bound(app), by)
        _record_change(app, topic.topic_id, request.on, by, topic.topic_id in earlier_pins)
        return Pinned(id=topic.topic_id, pinned=request.on)
    if request.id.startswith("grip:"):
        target: str = visible_evidence(app, caller, request.id).grip_id
    else:
        target = app.tree.node(times_of(app).node_id(request.id), caller.bound(app)).node_id
        if target == ROOT:
            raise InvalidQuery("the root cannot be pinned", "Pin a year, month, week, day, segment, grip or topic.")
    set_pin(app, target, request.on, by)
    return Pinned(id=target, pinned=request.on)


def set_pin(app: "App", target: str, on: bool, by: str) -> None:
    """Pin or unpin a canonical id, committed at once; it need not exist."""
    was_pinned = target in app.storage.toc.list_pins()
    app.storage.toc.set_pin(target, on, by)
    _record_change(app, target, on, by, was_pinned)


def _record_change(app: "App", target: str, on: bool, by: str, was_pinned: bool) -> None:
    if on != was_pinned:
        app.storage.audit.record_entry(AuditEntry("pin" if on else "unpin", app.clock.now_ms(), by, target))
