"""Used: when a quotation was opened."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Used:
    """The moments at which a grip was opened: UTC milliseconds, in order."""

    times: tuple[int, ...]
