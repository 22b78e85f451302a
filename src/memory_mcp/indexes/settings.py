"""What can be set about the accelerators."""

from dataclasses import dataclass, field

from memory_mcp.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """How long documents of each level stay in an index (bm25-teleport-prd.md, section 7); 0: for ever. Years stay."""

    segment: int = field(default=30, metadata={"help": "Days that segments and their grips stay in this index; 0: for ever."})
    day: int = field(default=180, metadata={"help": "Days that day nodes stay in this index; 0: for ever."})
    week: int = field(default=1825, metadata={"help": "Days that week nodes stay in this index; 0: for ever."})
    month: int = field(default=0, metadata={"help": "Days that month nodes stay in this index; 0: for ever."})

    def __post_init__(self) -> None:
        """No negative time."""
        if min(self.segment, self.day, self.week, self.month) < 0:
            raise ConfigError("retention_days cannot be negative")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """One accelerator."""

    enabled: bool = field(default=True, metadata={"help": "Whether this index is kept and may be used."})
    index_path: str = field(default="", metadata={"help": "Folder of this index; empty: below the data directory."})
    memory_budget_mb: int = field(default=50, metadata={"help": "Memory that documents may fill while the index is built, MB."})
    commit_interval_secs: int = field(
        default=60, metadata={"help": "Longest time until changes are on disk; they can be found within two seconds regardless."}
    )
    retention_days: RetentionDays = field(default_factory=RetentionDays)
    retention_min_docs: int = field(
        default=1_000_000, metadata={"help": "Documents below which nothing is left out of this index for its age."}
    )

    def __post_init__(self) -> None:
        """Sizes that can work."""
        if self.memory_budget_mb < 8:
            raise ConfigError("memory_budget_mb must be at least 8")
        if self.commit_interval_secs < 1:
            raise ConfigError("commit_interval_secs must be at least 1")
        if self.retention_min_docs < 0:
            raise ConfigError("retention_min_docs cannot be negative")


@dataclass(frozen=True, slots=True)
class VectorSettings(IndexSettings):
    """The vector index."""

    graph_from: int = field(
        default=400_000, metadata={"help": "Documents from which graphs are searched first; below, search is always exact."}
    )


@dataclass(frozen=True, slots=True)
class HybridSettings:
    """How keyword and vector results become one list."""

    fusion: str = field(default="score", metadata={"help": "score: weighted calibrated scores; rrf: reciprocal ranks."})
    bm25_weight: float = field(default=0.6, metadata={"help": "Weight of the keyword side in a fused score."})
    vector_weight: float = field(default=0.4, metadata={"help": "Weight of the vector side in a fused score."})

    def __post_init__(self) -> None:
        """A known way, and something to weigh."""
        if self.fusion not in ("score", "rrf"):
            raise ConfigError(f"teleport.hybrid.fusion must be score or rrf, not {self.fusion!r}")
        if min(self.bm25_weight, self.vector_weight) < 0 or self.bm25_weight + self.vector_weight <= 0:
            raise ConfigError("weights of teleport.hybrid cannot be negative, and not both 0")


@dataclass(frozen=True, slots=True)
class TeleportSettings:
    """Jumping to a place by an index."""

    enabled: bool = field(default=True, metadata={"help": "Master switch of the keyword and vector layers."})
    bm25: IndexSettings = field(default_factory=IndexSettings)
    vector: VectorSettings = field(default_factory=VectorSettings)
    hybrid: HybridSettings = field(default_factory=HybridSettings)
