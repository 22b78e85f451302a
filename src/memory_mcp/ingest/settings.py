"""What the user may choose about reading and keeping what comes in."""

from dataclasses import dataclass, field

from memory_mcp.errors import ConfigError

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Settings of `[ingest]`."""

    include_thinking: bool = field(default=False, metadata={"help": "Keep the model's thinking blocks as notes of their own."})
    max_text_bytes: int = field(
        default=_MIB,
        metadata={"help": "Longest text of one event, UTF-8 bytes; of a longer one head and tail are kept."},
    )
    tool_result_bytes: int = field(
        default=64 * _KIB,
        metadata={"help": "Longest text of one tool result, UTF-8 bytes; of a longer one head and tail are kept."},
    )
    redact: bool = field(default=True, metadata={"help": "Replace secrets by [REDACTED:rule] before anything is stored."})

    def __post_init__(self) -> None:
        """Refuse bounds that would keep nothing or too much."""
        _check("max_text_bytes", self.max_text_bytes, 4 * _KIB, 64 * _MIB)
        _check("tool_result_bytes", self.tool_result_bytes, _KIB, self.max_text_bytes)


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"ingest.{name} is {value}", f"It must lie between {low} and {high}.")
