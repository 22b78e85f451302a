"""Reads times and node ids as agents and people write them: as UTC milliseconds, windows and canonical ids.

Change here: how times, projects, cursors or node ids are read.
"""

import datetime as dt
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import FIRST_MS, LATEST_MS, Calendar, TimeWindow, period_of
from memory_mcp.model.ids import NodeId, find_period, parse_node_id
from memory_mcp.question.timehints import find_time
from memory_mcp.requests.limits import Range

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Where a window without a beginning begins: no event lies before.
EARLIEST_MS = 0
_MILLISECONDS = re.compile(r"[0-9]{12,15}")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXPECTED = "expected ISO 8601 or a phrase such as 'last Tuesday'"
_HINT = "Write 2026-01-30, 2026-01-30T14:00, 2026-W05, yesterday, 'last week', 'january 2026' or epoch milliseconds."
#: Characters of an invalid time that its error repeats.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Times:
    """Reads the times of one request: on its calendar, relative to its moment."""

    calendar: Calendar
    #: What "today" is relative to, UTC milliseconds.
    now_ms: int

    def since(self, text: str, name: str = "since") -> int | None:
        """Return the first millisecond (UTC) of what `text` names.

        None for "". Raises InvalidQuery when `text` is no time; the message begins with `name`.
        """
        if not text.strip():
            return None
        moment = self._parse_time(text, name, ("since", "", "in", "on"))
        return moment if isinstance(moment, int) else moment.start_ms

    def until(self, text: str) -> int | None:
        """Return the end (UTC ms, exclusive) of what `text` names.

        None for ""; a day, week, month or year is included whole. Raises InvalidQuery when `text` is no time.
        """
        if not text.strip():
            return None
        moment = self._parse_time(text, "until", ("until", "", "in", "on"))
        return moment if isinstance(moment, int) else moment.end_ms

    def window(self, since: str, until: str) -> TimeWindow | None:
        """Return the window between two optional times; None without both.

        It is open at a missing one. Raises InvalidQuery when one of them is no time, or the window is empty.
        """
        first, after = self.since(since), self.until(until)
        if first is None and after is None:
            return None
        window = TimeWindow(EARLIEST_MS if first is None else first, LATEST_MS if after is None else after)
        if window.start_ms >= window.end_ms:
            raise InvalidQuery("since must lie before until")
        return window

    def span(self, days: int | None, since: str, until: str, bounds: Range) -> TimeWindow | None:
        """Return the window of the last `days` days, or between times.

        The days are local, today among them. None when nothing is given. Raises InvalidQuery when both are given, `days` is
        outside the range `bounds`, one of them is no time, or the window is empty.
        """
        if days is None:
            return self.window(since, until)
        if since or until:
            raise InvalidQuery("days goes without since and until", "Give either the number of days or times.")
        today = self.calendar.to_local(self.now_ms).date()
        first = today - dt.timedelta(days=bounds.check(days, "days") - 1)
        return self.calendar.days_window(first, today + dt.timedelta(days=1))

    def node_id(self, text: str) -> NodeId:
        """Return the canonical id of a node's id or period's name.

        Ids may be short (2026-W05); names are such as "last week". Raises InvalidQuery when `text` names no node and no single
        day, week, month or year.
        """
        if (period := find_period(text)) is not None:
            return period
        try:
            return parse_node_id(text)
        except InvalidQuery:
            window = self._parse_phrase(text, ("", "in", "on"))
            period_id = None if window is None else period_of(window, self.calendar)
            if period_id is None:
                raise
            return period_id

    def _parse_time(self, text: str, name: str, leads: tuple[str, ...]) -> int | TimeWindow:
        """Return the moment (UTC ms) or window that `text` names.

        Its phrase may follow one of `leads`. Raises InvalidQuery, which begins with `name`, for no time or one out of the
        calendar's range.
        """
        phrase = text.strip()
        invalid = InvalidQuery(f"invalid {name}: {text[:_SHOWN]!r} ({_EXPECTED})", _HINT)
        moment: int | TimeWindow | None
        try:
            if (period := find_period(phrase)) is not None:
                moment = self.calendar.node_window(period)
            elif _MILLISECONDS.fullmatch(phrase):
                moment = int(phrase)
            else:
                moment = self._parse_iso(phrase)
            moment = self._parse_phrase(phrase, leads) if moment is None else moment
        except (InvalidQuery, ValueError, OverflowError):
            raise invalid from None
        start, end = (moment.start_ms, moment.end_ms) if isinstance(moment, TimeWindow) else (moment, moment)
        if moment is None or start is None or end is None or not FIRST_MS <= start < LATEST_MS or end > LATEST_MS:
            raise invalid
        return moment

    def _parse_iso(self, text: str) -> int | None:
        """Return the moment (UTC ms) of an ISO time, usually in the calendar's zone."""
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            return None
        local = moment if moment.tzinfo else moment.replace(tzinfo=self.calendar.zone)
        return (local - _EPOCH) // dt.timedelta(milliseconds=1)

    def _parse_phrase(self, phrase: str, leads: tuple[str, ...]) -> TimeWindow | None:
        """Return the window of a phrase that is only a time, behind any lead."""
        for lead in leads:
            hint = find_time(f"{lead} {phrase}".strip(), self.now_ms, self.calendar)
            if hint.window is not None and not hint.rest:
                return hint.window
        return None


def times_of(app: "App", zone: str = "", as_of: str = "") -> Times:
    """Return the reader of a request's times.

    Args:
        app: Gives the store's calendar and the clock.
        zone: An IANA name, the calendar's zone for this request; "" for the store's.
        as_of: The moment that takes the place of now; "" for now.

    Raises:
        InvalidQuery: the zone is unknown, or `as_of` is no time.

    """
    calendar = replace(app.calendar, zone_name=zone) if zone else app.calendar
    calendar.day_of(0)
    times = Times(calendar, app.clock.now_ms())
    moment = times.since(as_of, "as_of")
    return times if moment is None else Times(times.calendar, moment)


def settled_ms(app: "App") -> int:
    """Return the latest end (UTC ms) of a session that is over."""
    return app.clock.now_ms() - app.settings.toc.gap_minutes * 60_000
