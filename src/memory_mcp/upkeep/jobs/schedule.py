"""Compute when a job is due from its schedule, its last run and the time now. Pure.

Invariants
1. However many runs were missed, asleep or not running, one is due: the next moment follows from the last run alone.
2. A local time that a clock change skips is the first moment after the gap; one that it doubles is the first of the two.
3. A wall clock put back makes nothing due a second time, and stalls nothing for longer than a day and one period.
"""

import datetime as dt
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError
from memory_mcp.model.calendar import Calendar

#: Where the clock was ahead by more than this at the last run, that run's time means nothing (milliseconds).
_WRONG_MS = 86_400_000
#: Failed jobs are tried again after at first so long, then twice as long each time (seconds).
_FIRST_RETRY = 30.0
#: Longest wait for another try: of jobs that run every few seconds or minutes, and of the others.
_LAST_RETRY_SOON, _LAST_RETRY = 300.0, 3600.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """When background work runs."""

    housekeeping_at: str = field(
        default="03:00", metadata={"help": "Local time of the daily upkeep; missed, it is caught up with."}
    )

    def __post_init__(self) -> None:
        hours, _, minutes = self.housekeeping_at.partition(":")
        if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
            raise ConfigError(f"scheduler.housekeeping_at must be a time such as 03:00, not {self.housekeeping_at!r}")


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed number of seconds from one start to the next."""

    seconds: float

    @property
    def words(self) -> str:
        """The schedule in its largest unit: "every hour"."""
        for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")):
            count = self.seconds / size
            if count >= 1 and count.is_integer():
                return f"every {unit}" if count == 1 else f"every {count:.0f} {unit}s"
        return f"every {self.seconds:g} seconds"


@dataclass(frozen=True, slots=True)
class Daily:
    """Once a day at a local time."""

    hour: int
    minute: int

    @classmethod
    def at(cls, text: str) -> "Daily":
        """Return the schedule for a time such as 03:00.

        The range is not checked; raises ValueError for a text that is no two numbers.
        """
        hour, _, minute = text.partition(":")
        return cls(int(hour), int(minute))

    @property
    def words(self) -> str:
        """The schedule in words, such as "daily at 03:00"."""
        return f"daily at {self.hour:02}:{self.minute:02}"


Schedule = Every | Daily


def next_due(schedule: Schedule, last_ms: int, now_ms: int, calendar: Calendar) -> int:
    """Return when the next run is due after `last_ms`.

    It is in the past when a run was missed.

    All moments are milliseconds since 1970 (UTC); `calendar` has the zone of a daily schedule. A last run in
    the future, as a clock was put back, counts as now (Every), or if it is more than a day ahead (Daily).
    """
    if isinstance(schedule, Every):
        return min(last_ms, now_ms) + round(schedule.seconds * 1000)
    after = now_ms if last_ms > now_ms + _WRONG_MS else last_ms
    day = calendar.to_local(after).date()
    while (due := moment_of(day, schedule, calendar)) <= after:
        day += dt.timedelta(days=1)
    return due


def moment_of(day: dt.date, at: Daily, calendar: Calendar) -> int:
    """Return the moment (UTC ms) of a day's local time.

    The first of two; of a skipped one the first second after the gap.
    """
    zone = calendar.zone
    local_time = dt.datetime(day.year, day.month, day.day, at.hour, at.minute, tzinfo=zone)
    early, late = (round(local_time.replace(fold=fold).timestamp()) for fold in (1, 0))
    if early >= late:
        return late * 1000
    # In a gap the two readings are before and after the change: the first second of the new offset is between them.
    offset = dt.datetime.fromtimestamp(late, zone).utcoffset()
    while late - early > 1:
        middle = (early + late) // 2
        if dt.datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            late = middle
        else:
            early = middle
    return late * 1000


def retry_after(schedule: Schedule, failures: int) -> float:
    """Return the seconds to wait after failures in a row.

    At first `_FIRST_RETRY`, or the period if that is shorter; at most `_LAST_RETRY_SOON` for jobs that come
    round more often than that, else `_LAST_RETRY`.
    """
    often = isinstance(schedule, Every) and schedule.seconds < _LAST_RETRY_SOON
    first = min(schedule.seconds, _FIRST_RETRY) if isinstance(schedule, Every) else _FIRST_RETRY
    # 2 to the 20th of anything is longer than the longest wait.
    return min(first * 2.0 ** min(failures - 1, 20), _LAST_RETRY_SOON if often else _LAST_RETRY)
