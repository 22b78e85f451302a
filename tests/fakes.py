"""What cannot be had for real in a test: time that stands still, and things that fail. All else in this tree is real."""

#: 2026-03-02 12:00 UTC, a Monday; the latest moment of every made-up history.
NOON = 1_772_452_800_000


class FakeClock:
    """A Clock that stands still; `tick` seconds pass at every look at the monotonic one."""

    def __init__(self, now_ms: int = NOON, tick: float = 0.0) -> None:
        self._now_ms = now_ms
        self._monotonic = 1000.0
        self._tick = tick

    def now_ms(self) -> int:
        """Wall time."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since some start."""
        self._monotonic += self._tick
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ms += int(seconds * 1000)
        self._monotonic += seconds

    def shift(self, seconds: float) -> None:
        """Put the wall clock forward or back; the monotonic one does not notice."""
        self._now_ms += int(seconds * 1000)
