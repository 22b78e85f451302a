"""The time: a protocol, so that tests can hold time still, and the machine's own clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps and monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; they never run backwards."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; they never run backwards."""
        return time.monotonic()
