"""What time it is: one protocol, so that tests can hold time still."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for stamps and monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never runs backwards."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never runs backwards."""
        return time.monotonic()
