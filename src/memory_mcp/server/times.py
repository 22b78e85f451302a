"""Times as agents write them in, UTC milliseconds out; read on the calendar of the call. Pure."""

import datetime as dt
import re

from memory_mcp.errors import InvalidQuery
from memory_mcp.model.calendar import Calendar

_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_MONTH = re.compile(r"^\d{4}-\d{2}$")
_MILLISECONDS = re.compile(r"^\d{12,15}$")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def since_ms(text: str, calendar: Calendar, name: str = "since") -> int | None:
    """The first moment of what `text` names; None for ""."""
    return _read(text, calendar, name)[0] if text else None


def until_ms(text: str, calendar: Calendar) -> int | None:
    """The moment behind what `text` names: a date or a month is included whole; None for ""."""
    return _read(text, calendar, "until")[1] if text else None


def _read(text: str, calendar: Calendar, name: str) -> tuple[int, int]:
    text = text.strip()
    try:
        if _MILLISECONDS.match(text):
            return int(text), int(text)
        if _DATE.match(text):
            day = dt.date.fromisoformat(text)
            window = calendar.days(day, day + dt.timedelta(days=1))
            return window.start_ms, window.end_ms
        if _MONTH.match(text):
            first = dt.date.fromisoformat(text + "-01")
            window = calendar.days(first, (first + dt.timedelta(days=31)).replace(day=1))
            return window.start_ms, window.end_ms
        moment = dt.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=calendar.zone)
        found = (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise InvalidQuery(
            f"{name} is no time: {text[:60]!r}", "Use ISO 8601, such as 2026-01-30 or 2026-01-30T14:00, or epoch milliseconds."
        ) from None
    return found, found
