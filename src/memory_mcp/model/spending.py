"""Spent: one text asked of a language model, and what that cost."""

from dataclasses import dataclass
from enum import StrEnum

from memory_mcp.model.ids import NodeId, TopicId


class Outcome(StrEnum):
    """The outcome of a request to a language model. On disk: do not change the values."""

    #: The node says what the model wrote, the topic is called so.
    OK = "ok"
    #: The answer could not be used: what was chosen without a model stays, and is not asked about again until it changes.
    FALLBACK = "fallback"
    #: No answer came; it is asked for again.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Spent:
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
