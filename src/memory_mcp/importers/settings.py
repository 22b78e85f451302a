"""Settings for reading and storing."""

from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Settings of `[ingest]`."""

    include_thinking: bool = field(default=False, metadata={"help": "Keep the model's thinking blocks as notes of their own."})
    exclude_paths: str = field(
        default="",
        metadata={
            "help": "Never recorded, separated by commas: sessions that work there and uses of tools that name such a file, "
            "as `~/private`, `.env`, `*.pem` or `**/secrets`; what lies below is meant too."
        },
    )
    exclude_projects: str = field(
        default="", metadata={"help": "Projects that are never recorded, separated by commas, as `acme/harbour` or `acme-*`."}
    )
    exclude_tools: str = field(
        default="", metadata={"help": "Tools whose calls and results are never recorded, separated by commas, as `mcp__mail__*`."}
    )


@dataclass(frozen=True, slots=True)
class HooksSettings:
    """What a client's hooks return to it."""

    briefing: bool = field(default=True, metadata={"help": "A new session is told where the last ones of its project left off."})
    recall: bool = field(default=False, metadata={"help": "Every prompt is answered with up to three memories that fit it well."})
    hints: bool = field(
        default=True,
        metadata={
            "help": "Before a file is written, before a command that failed here and after an error, an agent is told in a line "
            "what the memory surely knows of it, each once a session."
        },
    )
    refine: bool = field(
        default=False,
        metadata={
            "help": "After a session's end or compaction the next one is told how many stretches have no agent's words yet."
        },
    )
    recall_deadline_ms: int = field(default=300, metadata={"help": "A prompt waits no longer than this for its memories."})

    def __post_init__(self) -> None:
        if not 20 <= self.recall_deadline_ms <= 5000:
            raise ConfigError("hooks.recall_deadline_ms must lie between 20 and 5000")
