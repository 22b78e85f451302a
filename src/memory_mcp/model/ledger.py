"""Ledgers that hold no text: operations on the memory, and requests to language models."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import NodeId, TopicId


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One operation: forget, correct, retract, refine, pin, label, alias, restore ..."""

    action: str
    #: UTC milliseconds.
    at_ms: int
    #: Who asked for it: `person` (typed on a terminal and confirmed), or an agent's name.
    author: str
    #: Ids or a kind of thing; never a forgotten text or value.
    subject: str = ""
    reason: str = ""
    #: How many of what: {"events": 3, "grips": 7}.
    counts: Mapping[str, int] = field(default_factory=dict)


class Outcome(StrEnum):
    """Outcome of a request to a model. On disk: do not change."""

    #: The node says what the model wrote, the topic is called so.
    OK = "ok"
    #: The answer could not be used: what was chosen without a model stays, and is not asked about again until it changes.
    FALLBACK = "fallback"
    #: No answer came; it is asked for again.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One row of the ledger; it holds no text."""

    at_ms: int
    #: Of a node, or of the topic whose label was asked for.
    node_id: NodeId | TopicId
    #: Digest of what the text was to be written from.
    written_from: str
    model: str
    tokens_in: int
    tokens_out: int
    #: Whether the tokens were estimated here, because the endpoint did not state them.
    estimated: bool
    outcome: Outcome
    #: Why there is no new text; "" when there is.
    reason: str
    ms: int
