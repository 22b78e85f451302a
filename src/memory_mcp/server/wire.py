"""The published shapes of answers. Optional fields that are empty are left out: no nulls, no empty texts.

Field names are the specification's; descriptions stand only where a name does not explain itself. What only
detail="full" adds is left out of the published schemas, which every connection pays for.
"""

from typing import Annotated, Any

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.json_schema import SkipJsonSchema

from memory_mcp.model.sentinel import MARK


class Wire(BaseModel):
    """Base of every answer."""

    @model_serializer(mode="wrap")
    def _lean(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields by name, without optional ones that are None, an empty text, list or object."""
        fields = type(self).model_fields
        dumped: dict[str, Any] = handler(self)
        return {k: v for k, v in dumped.items() if fields[k].is_required() or not (v is None or v == "" or v == [] or v == {})}


class Recalled(Wire):
    """An answer that carries words from the memory; `origin` marks them, so that they are never stored again."""

    origin: str = MARK


class Quote(Wire):
    """Further words of the same segment that answer."""

    grip_id: str
    quote: str


class Result(Wire):
    """One thing found. Lean results say session and project where they differ from the result above."""

    when: str
    who: str = ""
    quote: str = ""
    grip: Annotated[str, Field(description="Cite it; expand_grip opens it")] = ""
    node: str = ""
    title: str = ""
    session: Annotated[str, Field(description="Else as above; project too")] = ""
    project: str = ""
    score: float
    outside: Annotated[bool | None, Field(description="Not in that time")] = None
    superseded_by: SkipJsonSchema[str] = ""
    flag: SkipJsonSchema[str] = ""
    why_superseded: SkipJsonSchema[str] = ""
    id: SkipJsonSchema[str] = ""
    kind: SkipJsonSchema[str] = ""
    level: SkipJsonSchema[str] = ""
    session_id: SkipJsonSchema[str] = ""
    agent: SkipJsonSchema[str] = ""
    role: SkipJsonSchema[str] = ""
    speaker: SkipJsonSchema[str] = ""
    grip_ids: SkipJsonSchema[list[str] | None] = None
    also: SkipJsonSchema[list[Quote]] = []
    outside_window: SkipJsonSchema[bool | None] = None
    event_id: SkipJsonSchema[str] = ""
    score_parts: SkipJsonSchema[dict[str, float]] = {}


class Skipped(Wire):
    """A layer that was not used."""

    layer: str
    reason: str


class Window(Wire):
    """The time a search was bound to."""

    since: str = ""
    until: str = ""
    words: Annotated[str, Field(description="Read from the query")] = ""


class Step(Wire):
    """One step from the root towards the evidence."""

    node_id: str
    label: str
    searched: int
    searched_level: SkipJsonSchema[str] = ""
    matched: str = ""
    score: float
    decision: str


class BoundUse(Wire):
    """A bound and how much of it was used."""

    limit: int
    used: int | None = None


class Match(Wire):
    """One field of a node that holds words of the query."""

    field: str
    text: str
    grip_ids: list[str] = []
    score: float


class NodeMatch(Wire):
    """A node that matched."""

    node_id: str
    title: str
    level: str
    matches: list[Match]
    relevance_score: float


class ChildrenAnswer(Recalled):
    """search_children."""

    results: list[NodeMatch]
    has_more: bool
    next_cursor: str = ""
    scope: str
    notices: list[str] = []


class NodeAnswer(Recalled):
    """search_node."""

    matched: bool
    matches: list[Match]
    node_id: str
    level: str


class Bullet(Wire):
    """One statement and what proves it."""

    text: str
    grip_ids: list[str]
    kind: str = ""
    superseded_by: SkipJsonSchema[str] = ""
    why_superseded: SkipJsonSchema[str] = ""


class Child(Wire):
    """A node named by another."""

    node_id: str
    level: str = ""
    title: str
    summary: str = ""
    keywords: list[str] = []
    events: int | None = None
    sessions: int | None = None
    children: int | None = None


class Node(Wire):
    """One page of the time tree."""

    node_id: str
    level: str
    title: str
    summary: str = ""
    bullets: list[Bullet] = []
    keywords: list[str] = []
    start: str = ""
    end: str = ""
    sessions: int
    events: int
    projects: list[str] = []
    agents: list[str] = []
    parents: list[str] = []
    previous: str = ""
    next: str = ""
    author: str = ""
    pinned: bool | None = None


class BrowseAnswer(Recalled):
    """browse_toc."""

    node: Node
    children: list[Child]
    next_cursor: str = ""
    folded: str = ""
    folded_cursor: str = ""
    scope: str
    notices: list[str] = []


class Event(Wire):
    """Something said or done."""

    event_id: str
    source_id: str = ""
    session_id: str
    when: str
    role: str
    type: str
    speaker: str = ""
    text: str


class Context(Wire):
    """Where a node stands."""

    session_id: str = ""
    before: Annotated[list[Event], Field(description="End of the session's segment before")] = []
    parents: list[Child] = []


class FullChild(Child):
    """A child with what it is filed under."""

    kind: str = ""
    projects: list[str] = []
    agents: list[str] = []
    start: str = ""
    end: str = ""
    pinned: bool | None = None


class WholeNode(Recalled):
    """get_node."""

    node: Node
    children: list[FullChild]
    next_cursor: str = ""
    folded: str = ""
    folded_cursor: str = ""
    context: Context | None = None
    scope: str


class Grip(Wire):
    """A quotation."""

    grip_id: str
    quote: str
    when: str
    node_id: str = ""
    project: SkipJsonSchema[str] = ""
    event_id_start: str
    event_id_end: str = ""


class Said(Wire):
    """An event around a quotation, or the quoted one, which alone carries its ids."""

    event_id: str = ""
    source_id: str = ""
    session_id: str = ""
    when: str
    role: str
    type: str = ""
    speaker: str = ""
    text: str = ""


class Corrected(Wire):
    """correct and retract."""

    superseded: str
    grip_id: str = ""
    event_id: str = ""
    project: str = ""


class GripAnswer(Recalled):
    """expand_grip."""

    grip: Grip
    verified: Annotated[bool, Field(description="Stored word for word")]
    events_before: list[Said]
    excerpt_events: list[Said]
    events_after: list[Said]
    truncated: bool | None = None
    more: Annotated[dict[str, int], Field(description="Arguments that show everything")] = {}
    superseded_by: SkipJsonSchema[str] = ""
    why_superseded: SkipJsonSchema[str] = ""
    flag: SkipJsonSchema[str] = ""
    pinned: SkipJsonSchema[bool] = False


class NavigateAnswer(Recalled):
    """navigate."""

    query: str
    path: list[Step]
    results: list[Result]
    bounds: dict[str, BoundUse]
    bounds_hit: list[str]
    scope: str
    window: Window | None = None
    notices: list[str] = []
    next: Annotated[str, Field(description="What to do with this")] = ""


class LayerInfo(Wire):
    """A retrieval layer."""

    name: str
    enabled: bool
    healthy: bool
    count: int
    reason: str = ""
    enable_with: str = ""
    contract: SkipJsonSchema[dict[str, str]] = {}


class Lag(Wire):
    """How far the tree is behind the events."""

    events: int
    index_changes: SkipJsonSchema[int | None] = None
    error: str = ""


class Store(Wire):
    """What the memory holds."""

    events: int
    sessions: int
    segments: int
    nodes: int
    grips: int
    first: str = ""
    last: str = ""
    timezone: str
    size_bytes: int
    projects: SkipJsonSchema[list[str]] = []
    agents: SkipJsonSchema[list[str]] = []


class StatusAnswer(Wire):
    """get_retrieval_status."""

    tier: int
    name: str
    layers: list[LayerInfo]
    embedder: str
    lag: Lag
    store: Store
    healthy: SkipJsonSchema[bool | None] = None
    project: Annotated[str, Field(description="To which searches are scoped")] = ""
    notices: list[str] = []


class Remembered(Wire):
    """remember."""

    event_id: str
    grip_id: str


class Ingested(Wire):
    """ingest_events."""

    stored: int
    known: Annotated[int, Field(description="Stored before; unchanged")]
    event_ids: list[str]


class Pinned(Wire):
    """pin."""

    id: str
    pinned: bool
