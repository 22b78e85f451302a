"""Requests about the indexes: their status, building one anew, leaving old documents out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.indexes.base import IndexStatus
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument, Range, parse_choice
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.scope import Caller
from memory_mcp.search.layers.base import LayerName, LayerStatus

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Days.
AGE = Range(0, most=100_000)


class IndexName(StrEnum):
    """An index that is kept on disk."""

    BM25 = "bm25"
    VECTOR = "vector"
    TOPICS = "topics"


#: Those that old documents can be left out of by hand.
_PRUNABLE = (IndexName.BM25, IndexName.VECTOR)


class PruneLevel(StrEnum):
    """Whose documents are left out; grips go with segments."""

    SEGMENT = "segment"
    DAY = "day"
    WEEK = "week"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class GetTeleportStatus:
    """Whether the keyword and vector indexes are switched on and healthy, what they hold, and when they were kept."""


@dataclass(frozen=True, slots=True)
class GetVectorStatus:
    """Whether the vector index can be used, and how many vectors it holds."""


@dataclass(frozen=True, slots=True)
class GetTopicGraphStatus:
    """Whether the topic graph can be used, how many topics it holds, and how far it is behind."""


@dataclass(frozen=True, slots=True)
class RebuildIndex:
    """Build an index anew from the memory; the old one serves until the new one takes its place. Nothing is lost."""

    index_type: Annotated[str, Argument("Which index", values=tuple(IndexName))]


@dataclass(frozen=True, slots=True)
class PruneIndex:
    """Leave old documents out of an index. The memory keeps them; rebuild_index brings them back."""

    index_type: Annotated[str, Argument("Which index", values=_PRUNABLE)]
    age_days: Annotated[int, Argument("Leave out what ended longer ago", range=AGE)]
    level: Annotated[str, Argument("Of nodes; grips go with segments", values=tuple(PruneLevel))] = PruneLevel.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDetail:
    """One index in numbers."""

    size_bytes: int = 0
    last_commit_at: str = ""
    last_prune_at: str = ""
    pruned: Annotated[Mapping[str, int], "Documents left out by age, by level"] = field(default_factory=dict)
    documents: Mapping[str, int] = field(default_factory=dict)
    #: None where the index is not open.
    behind: Annotated[int | None, "Changes not taken in yet"] = None
    building: Annotated[int | None, "Documents of a build under way"] = None
    generation: int | None = None
    parts: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleportStatus:
    """Both indexes by the specification's names."""

    bm25_enabled: bool
    bm25_healthy: bool
    bm25_doc_count: int
    vector_enabled: bool
    vector_healthy: bool
    vector_doc_count: int
    message: str
    indexes: Mapping[str, IndexDetail] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStatus(IndexDetail):
    """The vector index by the specification's names."""

    enabled: bool
    ready: bool
    vector_count: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGraphStatus:
    """The topic graph by the specification's names."""

    enabled: bool
    healthy: bool
    topic_count: int
    message: str = ""
    segments: Annotated[int, "That are about a topic or looked at"] = 0
    unassigned: Annotated[int, "Segments that are about none"] = 0
    #: This and the next are None where the graph is not open.
    behind: Annotated[int | None, "Segments since topics were looked for"] = None
    by_meaning: Annotated[bool | None, "By vectors too; else by shared words alone"] = None
    pruned: Annotated[int, "Topics left out after long silence"] = 0
    size_bytes: int = 0
    last_commit_at: str = ""
    generation: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltIndex:
    """What an index holds now."""

    success: bool
    documents_indexed: int
    duration_ms: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedIndex:
    """How many documents were left out of an index, by level."""

    success: bool
    pruned: Mapping[str, int]
    message: str


@answers("get_teleport_status", GetTeleportStatus, "Teleport status")
def teleport_status(app: "App", _: GetTeleportStatus, caller: Caller) -> TeleportStatus:
    """Return the state of both indexes; InvalidQuery for a bound caller."""
    caller.refuse_all(app, "the state of an index")
    bm25, vector = app.teleports[LayerName.BM25].status(), app.teleports[LayerName.VECTOR].status()
    parts = [
        f"BM25: {_describe_health(bm25, 'healthy')}",
        f"vector: {_describe_health(vector, _describe_healthy(app) if vector.usable else '')}",
    ]
    return TeleportStatus(
        bm25_enabled=bm25.enabled,
        bm25_healthy=bm25.usable,
        bm25_doc_count=bm25.count,
        vector_enabled=vector.enabled,
        vector_healthy=vector.usable,
        vector_doc_count=vector.count,
        message="; ".join(parts),
        indexes={name: _shape_detail(app, status) for name, status in app.accelerators.index_statuses().items()},
    )


@answers("get_vector_index_status", GetVectorStatus, "Vector index status")
def vector_status(app: "App", _: GetVectorStatus, caller: Caller) -> VectorStatus:
    """Return the state of the vector index, with its numbers.

    These are 0, "" or None where it does not exist. `message` says what is wrong, or "healthy" with a
    remark on the model. Raises InvalidQuery for a caller bound to one project.
    """
    caller.refuse_all(app, "the state of an index")
    status = app.teleports[LayerName.VECTOR].status()
    index_status = app.accelerators.index_statuses().get(IndexName.VECTOR)
    detail = _shape_detail(app, index_status) if index_status else IndexDetail()
    return VectorStatus(
        enabled=status.enabled,
        ready=status.usable,
        vector_count=status.count,
        message=_describe_health(status, _describe_healthy(app) if status.usable else ""),
        **asdict(detail),
    )


@answers("get_topic_graph_status", GetTopicGraphStatus, "Topic graph status")
def topic_graph_status(app: "App", _: GetTopicGraphStatus, caller: Caller) -> TopicGraphStatus:
    """Return the topic graph's state; InvalidQuery for a bound caller."""
    caller.refuse_all(app, "the state of an index")
    graph_status = app.topics.describe_status()
    return copy_fields(
        TopicGraphStatus,
        graph_status,
        behind=graph_status.behind if graph_status.generation else None,
        by_meaning=graph_status.by_meaning if graph_status.generation else None,
        last_commit_at=app.calendar.format_iso(graph_status.last_commit_ms) if graph_status.last_commit_ms else "",
        error=graph_status.last_error,
    )


@answers("rebuild_index", RebuildIndex, "Rebuild an index", Effect.SETS)
def rebuild_index(app: "App", request: RebuildIndex, caller: Caller) -> RebuiltIndex:
    """Build an index again from the store; return how many documents.

    Raises LayerUnavailable where there can be none, InvalidQuery for an unknown one or a caller bound to one
    project.
    """
    caller.refuse_all(app, "an index")
    name = _find_index_name(request.index_type, tuple(IndexName))
    if name is IndexName.TOPICS:
        grouped = app.topics.rebuild_graph()
        message = f"{app.topics.describe_status().topic_count:,} topics were found in {grouped.documents:,} segments"
        return RebuiltIndex(success=True, documents_indexed=grouped.documents, duration_ms=grouped.duration_ms, message=message)
    built = app.accelerators.rebuild(name)
    message = f"the {name} index holds {built.documents:,} documents"
    return RebuiltIndex(success=True, documents_indexed=built.documents, duration_ms=built.duration_ms, message=message)


@answers("prune_index", PruneIndex, "Prune an index", Effect.SETS)
def prune_index(app: "App", request: PruneIndex, caller: Caller) -> PrunedIndex:
    """Leave documents of `age_days` ago or earlier out of an index.

    The store keeps them. Raises LayerUnavailable where there is no index, InvalidQuery for an unknown one, an invalid level or
    age, or a caller bound to one project.
    """
    caller.refuse_all(app, "an index")
    name, level = (
        _find_index_name(request.index_type, _PRUNABLE),
        parse_choice(PruneLevel, "level", request.level) or PruneLevel.ALL,
    )
    gone = dict(app.accelerators.prune(name, AGE.check(request.age_days, "age_days"), level))
    return PrunedIndex(success=True, pruned=gone, message=f"{sum(gone.values()):,} documents left out")


def _find_index_name(name: str, names: Sequence[IndexName]) -> IndexName:
    """Return the index of a name; InvalidQuery if missing or unknown."""
    index = parse_choice(names, "index_type", name)
    if index is None:
        raise InvalidQuery("index_type is missing", f"One of {', '.join(names)}.")
    return index


def _describe_health(status: LayerStatus, healthy: str) -> str:
    if not status.usable:
        return status.reason or "not healthy"
    return f"partial: {status.reason}" if status.covered_from else healthy


def _describe_healthy(app: "App") -> str:
    embedding = app.accelerators.describe_embedding()
    return f"healthy ({embedding.remark})" if embedding and embedding.remark else "healthy"


def _shape_detail(app: "App", status: IndexStatus) -> IndexDetail:
    def when(ms: int) -> str:
        """Return a time (UTC ms) as local ISO text; "" for 0."""
        return app.calendar.format_iso(ms) if ms else ""

    return copy_fields(
        IndexDetail,
        status,
        last_commit_at=when(status.last_commit_ms),
        last_prune_at=when(status.last_prune_ms),
        pruned=dict(status.pruned),
        documents=dict(status.counts),
        error=status.last_error,
    )
