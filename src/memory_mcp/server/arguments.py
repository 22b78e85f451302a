"""Arguments that several tools share, with their descriptions. Optional texts are "" when not given."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.requests import limits
from memory_mcp.requests.limits import AROUND, MAX_QUERY, NEIGHBOURS, PAGE, RESULTS, TOKENS

Query = Annotated[str, Field(description="What to look for", max_length=MAX_QUERY)]
Words = Annotated[str, Field(description="Words to look for; one match is enough", max_length=MAX_QUERY)]
#: Their number and length are checked by the request, which says what to do.
MoreWords = list[str] | None
Keywords = Annotated[MoreWords, Field(description="Up to 8 words the answer likely contains (identifiers, file names, synonyms)")]
NodeId = Annotated[str, Field(description="e.g. toc:month:2026-01, 2026-W05, last week; empty: root", max_length=300)]
ParentId = Annotated[str, Field(description="Node to look below; empty: root", max_length=300)]
GripId = Annotated[str, Field(description="As results carry it: grip:<ms>:<id>", max_length=300)]
Limit = Annotated[int, Field(ge=RESULTS.least, le=RESULTS.most)]
Page = Annotated[int, Field(ge=PAGE.least, le=PAGE.most)]
Few = Annotated[int, Field(ge=AROUND.least, le=AROUND.most)]
Neighbours = Annotated[int, Field(ge=NEIGHBOURS.least, le=NEIGHBOURS.most)]
#: 0 counts as not given.
Tokens = Annotated[int | None, Field(description="Most tokens in the answer", ge=TOKENS.least, le=TOKENS.most)]
Cursor = Annotated[str, Field(description="next_cursor of the page before", max_length=200)]
Since = Annotated[str, Field(description="ISO time or date, or a phrase: last week", max_length=60, coerce_numbers_to_str=True)]
Until = Annotated[str, Field(description="As since; a date is included", max_length=60, coerce_numbers_to_str=True)]
Project = Annotated[str, Field(description="Only this project", max_length=500)]
Scope = Annotated[
    Literal["", "project", "all"], Field(description="Default: the caller's project when known; all: every project")
]
Detail = Literal["lean", "full"]
Level = Literal["", "year", "month", "week", "day", "segment"]
FieldName = Literal["title", "summary", "bullets", "keywords"]
DocType = Annotated[Literal["", "toc_node", "grip"], Field(description="Only nodes or only grips")]
Agent = Annotated[str, Field(description="Only this agent's sessions", max_length=500)]
Speaker = Annotated[str, Field(max_length=300)]
Role = Annotated[Literal["", "user", "assistant", "tool"], Field(description="Only what this role said")]
Kind = Literal["", "procedure", "decision", "constraint", "definition", "preference", "observation"]

Intent = Annotated[Literal["", "explore", "answer", "locate", "time_boxed"], Field(description="Default: read from the query")]
Mode = Annotated[Literal["", "sequential", "parallel", "hybrid"], Field(description="How layers run; default sequential")]
Timeout = Annotated[int | None, Field(description="Hard limit; makes it time_boxed", ge=0, le=600_000)]
AsOf = Annotated[str, Field(description="Now, for time words", max_length=60, coerce_numbers_to_str=True)]
Current = Annotated[bool, Field(description="Also this running session, left out by default")]
Zone = Annotated[str, Field(description="Zone of times, e.g. Europe/Berlin", max_length=60)]

_Bound = Annotated[int | None, Field(ge=1, le=1_000_000)]


class Bounds(BaseModel):
    """Where a search stops."""

    model_config = ConfigDict(extra="forbid")

    max_depth: _Bound = None
    max_nodes_visited: _Bound = None
    max_rpc_calls: _Bound = None
    max_token_budget: _Bound = None
    timeout_ms: _Bound = None
    beam_width: Annotated[int | None, Field(ge=1, le=5)] = None
    min_confidence: Annotated[float | None, Field(ge=0, le=1)] = None

    def value(self) -> limits.Bounds:
        """Return the bounds as `requests.limits.Bounds`, None for those not given."""
        return limits.Bounds(**self.model_dump())
