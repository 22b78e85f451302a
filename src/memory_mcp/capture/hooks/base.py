"""The protocol of a client's hooks: convert a payload and its envelope to drafts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import ClassVar, Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.json_records import parse_time
from memory_mcp.model.event import EventDraft

#: Payloads that say nothing anyone would want back: counted, not stored.
NO_TEXT = "no text"
_DAY_MS = 86_400_000
#: Ids that all events of a session share.
_OF_SESSION = frozenset({"session_id", "agent_id"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """Facts about a payload that are known without parsing it."""

    #: The spool file's name: no other payload has it.
    name: str
    #: When the hook ran, UTC milliseconds.
    received_ms: int
    #: CLAUDE_PROJECT_DIR of the hook, "" without one.
    project_dir: str = ""
    #: Where the hook was started.
    cwd: str = ""
    #: The processes above the hook, the nearest first, separated by spaces.
    pids: str = ""


@dataclass(slots=True)
class HookEvents:
    """The drafts of a payload, or why there are none."""

    drafts: list[EventDraft] = field(default_factory=list)
    #: "" when there are drafts.
    skip_reason: str = ""
    #: The project of a session that ends here, or whose context is about to be compacted; "" for any other payload.
    ended_project: str = ""


def with_own_time(envelope: Envelope, time: object) -> Envelope:
    """Return the envelope with the payload's own time as `received_ms`.

    The same object if that is missing or over a day off.
    """
    at_ms = parse_time(time)
    if at_ms is None or abs(at_ms - envelope.received_ms) > _DAY_MS:
        return envelope
    return replace(envelope, received_ms=at_ms)


class MalformedPayload(ValueError):
    """The payload is not in its client's form; the message says why."""


def delivery_key(payload: str, drafts: Sequence[EventDraft]) -> str:
    """Return what two deliveries of one event have in common.

    What was said, and the ids that the client gave it. Where it gave none, its own time counts: "continue", said twice,
    is two events. Of a payload without drafts it is the payload.
    """
    if not drafts:
        return payload
    fields = parse_json(payload)
    items = [fields, *_mappings_in(fields)] if isinstance(fields, Mapping) else []
    pairs = ((key, value) for item in items for key, value in item.items() if isinstance(value, str))
    ids = sorted(f"{key}={value}" for key, value in pairs if key.lower().endswith("id") and key not in _OF_SESSION)
    times = [] if ids or not isinstance(fields, Mapping) else [fields.get("timestamp"), fields.get("time")]
    texts = [[draft.session_id, draft.thread, draft.type.value, draft.text] for draft in drafts]
    return json.dumps([drafts[0].agent, ids, times, texts])


def _mappings_in(fields: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for value in fields.values():
        yield from (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


class Hooks(Protocol):
    """Reads the payloads of one client.

    The same payload under the same name gives the same drafts.
    """

    #: Whether the same event twice in a moment is one that two hooks reported; see `delivery_key`.
    ONE_PER_MOMENT: ClassVar[bool]

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """Return the drafts of a payload in order, or why none.

        Raises MalformedPayload for another form.
        """
        ...


def parse_object(payload: str) -> Mapping[str, object]:
    """Return the object that a payload is. Raises MalformedPayload."""
    fields = parse_json(payload)
    if not isinstance(fields, Mapping):
        raise MalformedPayload("not a JSON object")
    return fields


def parse_json(payload: str) -> object:
    """Return the JSON value of a payload. Raises MalformedPayload."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise MalformedPayload(f"not JSON: {error}" if isinstance(error, ValueError) else "nested too deep") from None
