"""Settings of a folder that several machines share."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Which folder several memories exchange their events through."""

    directory: str = field(
        default="",
        metadata={"help": "Folder that several machines share: each writes its events there and takes in the others'."},
    )
