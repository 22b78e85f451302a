"""The shapes agents see of one question: what was decided, what was found, and why. As `wire`."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from memory_mcp.server.wire import BoundUse, Recalled, Result, Skipped, Step, Window, Wire


class Tried(Wire):
    """A layer that was run."""

    layer: str
    outcome: str
    reason: str = ""
    hits: int
    confidence: float
    ms: float


class Scanned(Wire):
    """A scan of time slices, and what it cost."""

    why: str
    slices: int
    read: int
    events: int
    found: int
    ms: float


class WhyNot(Wire):
    """Why something is missing, and the arguments with which it shows."""

    id: str
    reason: str
    change: dict[str, Any] = {}


class Explanation(Wire):
    """Why an answer is what it is."""

    query: SkipJsonSchema[str] = ""
    intent: str
    confidence: SkipJsonSchema[float | None] = None
    signals: SkipJsonSchema[list[str]] = []
    mode: SkipJsonSchema[str] = ""
    why_mode: SkipJsonSchema[str] = ""
    tier_used: int
    method_used: str
    fallback_occurred: bool
    skipped: list[Skipped] = []
    tried: SkipJsonSchema[list[Tried]] = []
    arbitration: SkipJsonSchema[str] = ""
    scan: SkipJsonSchema[Scanned | None] = None
    bounds_hit: list[str] = []
    bounds: SkipJsonSchema[dict[str, BoundUse]] = {}
    nodes_visited: SkipJsonSchema[int | None] = None
    rpc_calls: SkipJsonSchema[int | None] = None
    depth: SkipJsonSchema[int | None] = None
    tokens: SkipJsonSchema[int | None] = None
    elapsed_ms: SkipJsonSchema[int | None] = None
    scope: str = ""
    window: Window | None = None
    notices: list[str] = []
    path: SkipJsonSchema[list[Step]] = []
    why_not: SkipJsonSchema[WhyNot | None] = None


class SearchAnswer(Recalled):
    """intelligent_search."""

    themes: Annotated[list[dict[str, Any]], Field(description="What it is all about")] = []
    results: list[Result]
    confidence: Annotated[str, Field(description="strong, weak or none")]
    complete: Annotated[bool | None, Field(description="false: something ran out before all was searched")] = None
    also: Annotated[list[dict[str, str]], Field(description="What comes next, shortened")] = []
    next_cursor: str = ""
    next: SkipJsonSchema[str] = ""
    explanation: Explanation


class Classified(Wire):
    """classify_query."""

    query: str
    intent: str
    confidence: float
    signals: list[str]
    exact: Annotated[list[str], Field(description="What a result must hold literally")] = []
    text: Annotated[str, Field(description="Looked for, without time and deadline")] = ""
    deadline_ms: int | None = None
    window: Window | None = None


class PlanAnswer(Classified):
    """plan_query."""

    tier: int
    name: str
    mode: str
    why_mode: str
    order: list[str]
    skipped: list[Skipped]
    bounds: dict[str, int]
    strict: bool
    min_confidence: float
    escalates_when: str = ""
