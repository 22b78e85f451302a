"""What the user may choose about reading and keeping what comes in."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Settings of `[ingest]`."""

    include_thinking: bool = field(default=False, metadata={"help": "Keep the model's thinking blocks as notes of their own."})
