"""What the user may choose about reading and keeping what comes in."""

from dataclasses import dataclass, field


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
