"""Settings of the indexes, and the times before which documents are left out.

Only indexes drop documents by age; events, nodes and grips stay, and the walk of the tree still finds them.

Change here: how long documents stay in an index.
"""

from collections.abc import Mapping
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, InvalidQuery


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """How long documents of each level stay (bm25-teleport-prd.md, section 7).

    0: for ever. Years stay.
    """

    segment: int = field(default=30, metadata={"help": "Days that segments and their grips stay in the indexes; 0: for ever."})
    day: int = field(default=180, metadata={"help": "Days that day nodes stay in the indexes; 0: for ever."})
    week: int = field(default=1825, metadata={"help": "Days that week nodes stay in the indexes; 0: for ever."})
    month: int = field(default=0, metadata={"help": "Days that month nodes stay in the indexes; 0: for ever."})

    def __post_init__(self) -> None:
        if min(self.segment, self.day, self.week, self.month) < 0:
            raise ConfigError("retention_days cannot be negative")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of the keyword index, and the limits of both indexes."""

    enabled: bool = field(default=True, metadata={"help": "Whether this index is kept and may be used."})
    index_path: str = field(default="", metadata={"help": "Folder of this index; empty: below the data directory."})
    memory_budget_mb: int = field(default=50, metadata={"help": "Memory that documents may fill while an index is built, MB."})
    commit_interval_secs: int = field(
        default=60,
        metadata={"help": "How often changes are written to disk, a few only once an hour; found within two seconds regardless."},
    )
    retention_days: RetentionDays = field(default_factory=RetentionDays)
    retention_min_docs: int = field(
        default=1_000_000, metadata={"help": "Documents below which nothing is left out of an index for its age."}
    )

    def __post_init__(self) -> None:
        if self.memory_budget_mb < 8:
            raise ConfigError("memory_budget_mb must be at least 8")
        if self.commit_interval_secs < 1:
            raise ConfigError("commit_interval_secs must be at least 1")
        if self.retention_min_docs < 0:
            raise ConfigError("retention_min_docs cannot be negative")


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """Settings of the vector index, which has the limits of the keyword index."""

    enabled: bool = field(default=True, metadata={"help": "Whether this index is kept and may be used."})


@dataclass(frozen=True, slots=True)
class TeleportSettings:
    """Settings of the layers that search an index."""

    enabled: bool = field(default=True, metadata={"help": "Master switch of the keyword and vector layers."})
    bm25: IndexSettings = field(default_factory=IndexSettings)
    vector: VectorSettings = field(default_factory=VectorSettings)


@dataclass(frozen=True, slots=True)
class TopicsSettings:
    """Settings of the topic graph."""

    enabled: bool = field(default=True, metadata={"help": "Whether topics are looked for and may be used."})
    min_segments: int = field(default=50, metadata={"help": "Segments that there must be before topics are looked for."})
    half_life_days: float = field(
        default=30.0, metadata={"help": "Days after which a mention counts half for a topic's importance."}
    )
    dormant_days: float = field(default=30.0, metadata={"help": "Days without a mention after which a topic is dormant."})
    prune_days: float = field(
        default=180.0, metadata={"help": "Days of silence after which a topic is left out, its segments never; 0: never."}
    )

    def __post_init__(self) -> None:
        if self.min_segments < 1:
            raise ConfigError("topics.min_segments must be at least 1")
        if self.half_life_days <= 0 or self.dormant_days <= 0:
            raise ConfigError("topics.half_life_days and topics.dormant_days must be above 0")
        if self.prune_days < 0:
            raise ConfigError("topics.prune_days cannot be negative")


_DAY_MS = 86_400_000
#: Levels that can be pruned on request (bm25-teleport-prd.md, FR-09).
PRUNABLE = ("segment", "day", "week")


def age_cutoffs(days: RetentionDays, now_ms: int, documents: int, least: int) -> Mapping[str, int]:
    """Return by level the time (UTC ms) before which units are dropped.

    Not for 0 days; {} up to `least` documents.
    """
    if documents <= least:
        return {}
    days_by_level = {"segment": days.segment, "day": days.day, "week": days.week, "month": days.month}
    return {level: now_ms - count * _DAY_MS for level, count in days_by_level.items() if count}


def requested_cutoffs(age_days: int, level: str, now_ms: int) -> Mapping[str, int]:
    """Return by level the time (UTC ms) before which a prune drops units.

    `level` is segment, day, week or "all" of these. Raises InvalidQuery for another, or for an age below one day.
    """
    if age_days < 1:
        raise InvalidQuery("age-days must be at least 1")
    if level not in (*PRUNABLE, "all"):
        raise InvalidQuery(f"unknown level: {level!r}", f"Levels are {', '.join(PRUNABLE)} and all.")
    return dict.fromkeys(PRUNABLE if level == "all" else (level,), now_ms - age_days * _DAY_MS)
