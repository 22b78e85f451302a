"""The shapes of the accelerators: results by words and by meaning, and what the indexes say of themselves."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from memory_mcp.server.wire import Recalled, Result, Wire


class KeywordResult(Result):
    """One thing found by its words."""

    bm25_score: float | None = None
    keywords: SkipJsonSchema[list[str]] = []


class SimilarResult(Result):
    """One thing found by its meaning."""

    similarity: float | None = None


class TeleportAnswer(Recalled):
    """teleport_search."""

    results: list[KeywordResult]
    search_time_ms: float
    total_hits: int
    notices: list[str] = []


class SimilarAnswer(Recalled):
    """vector_teleport."""

    results: list[SimilarResult]
    search_time_ms: float
    notices: list[str] = []


class HybridAnswer(Recalled):
    """hybrid_search."""

    results: list[Result]
    partial: Annotated[bool, Field(description="One of the two indexes could not answer")]
    search_time_ms: float
    total_hits: int
    notices: list[str] = []


class IndexDetail(Wire):
    """One index in numbers."""

    size_bytes: int = 0
    last_commit_at: str = ""
    last_prune_at: str = ""
    pruned: Annotated[dict[str, int], Field(description="Documents left out by age, by level")] = {}
    documents: dict[str, int] = {}
    behind: Annotated[int | None, Field(description="Changes not taken in yet")] = None
    building: Annotated[int | None, Field(description="Documents of a build under way")] = None
    generation: int | None = None
    parts: int | None = None
    error: str = ""


class TeleportStatus(Wire):
    """get_teleport_status."""

    bm25_enabled: bool
    bm25_healthy: bool
    bm25_doc_count: int
    vector_enabled: bool
    vector_healthy: bool
    vector_doc_count: int
    message: str
    indexes: dict[str, IndexDetail] = {}


class VectorStatus(IndexDetail):
    """get_vector_index_status."""

    enabled: bool
    ready: bool
    vector_count: int
    message: str = ""


class Rebuilt(Wire):
    """rebuild_index."""

    success: bool
    documents_indexed: int
    duration_ms: int
    message: str


class Pruned(Wire):
    """prune_index."""

    success: bool
    pruned: dict[str, int]
    message: str
