"""Draws numbers as SVG: a year of days, columns, bars. Every text is escaped; colours come from the style sheet.

Nothing here has a size of its own on the page: `viewBox` says the proportions, the style sheet how wide a chart is shown.
"""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import day_id, month_id, week_id
from memory_mcp.web.rendering import count as counted
from memory_mcp.web.rendering import plain

#: Steps of a heat map, nothing not among them.
STEPS = 4
#: Shades of a stacked chart.
SERIES = 5
#: Distance of two cells of the year, side of one, and place of the first; units of the drawing.
_PITCH, _SIDE, _LEFT, _TOP = 15, 12, 32, 18
_WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "Sun")
_DAY_OF_WEEK, _DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), 7
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

#: Returns the address of a node of the tree, by its id.
ToNode = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Tally:
    """What was recorded on one day."""

    events: int
    sessions: int


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart; `href` is "" for no link."""

    count: int
    title: str
    href: str = ""
    #: Below it; "" for none.
    label: str = ""


def svg_element(name: str, *inner: str, **attributes: object) -> Markup:
    """Return an SVG element; everything but markup is escaped.

    `_` in the name of an attribute is a hyphen, one at the end is dropped, and None leaves the attribute out.
    """
    attribute_values = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    attribute_text = "".join(f' {key}="{_safe(value)}"' for key, value in attribute_values.items())
    content = "".join(part if isinstance(part, Markup) else _safe(part) for part in inner)
    return Markup(f"<{name}{attribute_text}>{content}</{name}>")


def _safe(value: object) -> str:
    return str(value) if isinstance(value, int | float) else escape(plain(str(value)))


def svg_link(href: str, title: str, *inner: Markup, **attributes: object) -> Markup:
    """Return a titled link; without `href` a titled group."""
    title_element = svg_element("title", title)
    return (
        svg_element("a", title_element, *inner, href=href, **attributes)
        if href
        else svg_element("g", title_element, *inner, **attributes)
    )


def shade_step(count: int, most: int) -> int:
    """Return a shade by the root, so that quiet days show; 0: none."""
    return min(math.ceil(STEPS * math.sqrt(count / most)), STEPS) if count and most else 0


def day_name(day: dt.date) -> str:
    """Return a day as "Mon 5 Jan 2026", in English."""
    return f"{_DAY_OF_WEEK[day.weekday()]} {day.day} {MONTHS[day.month - 1]} {day.year}"


def week_of(monday: dt.date) -> tuple[str, str]:
    """Return (node id, name) of the week of a Monday."""
    year, week, _ = monday.isocalendar()
    return week_id(year, week), f"Week of {day_name(monday)}"


def month_of(year: int, month_index: int) -> tuple[str, str]:
    """Return (node id, name) of a month; `month_index` 0 is January."""
    return month_id(year, month_index + 1), f"{MONTHS[month_index]} {year}"


def day_title(day: dt.date, tally: Tally | None) -> str:
    """Return the title of a day: "Mon 5 Jan 2026: 12 events"."""
    if tally is None:
        return f"{day_name(day)}: nothing"
    return f"{day_name(day)}: {counted(tally.events, 'event')} in {counted(tally.sessions, 'session')}"


def draw_year(number: int, days: Mapping[str, Tally], to: ToNode) -> Markup:
    """Return a year as SVG: weeks as columns, days as cells.

    `days` has what was recorded by ISO date, without empty days; `to` makes the address of a day, week or month from its
    node id. Only days, weeks and months with events are links.
    """
    first, last = dt.date(number, 1, 1), dt.date(number, 12, 31)
    monday = first - dt.timedelta(days=first.weekday())
    weeks = [monday + dt.timedelta(weeks=n) for n in range((last - monday).days // _DAYS + 1)]
    most = max((tally.events for tally in days.values()), default=0)
    columns = [_week(number, start, _LEFT + n * _PITCH, days, most, to) for n, start in enumerate(weeks)]
    names = [
        svg_element("text", name, x=_LEFT - 6, y=_TOP + n * _PITCH + 10, text_anchor="end")
        for n, name in enumerate(_WEEKDAYS)
        if name
    ]
    months = []
    for month, name in enumerate(MONTHS, 1):
        # Above the week of its first day.
        text = svg_element("text", name, x=_LEFT + (dt.date(number, month, 1) - monday).days // _DAYS * _PITCH, y=11)
        has_events = any(day.startswith(f"{number:04}-{month:02}-") for day in days)
        href = to(month_id(number, month)) if has_events else ""
        months.append(svg_link(href, f"{name} {number}", text, data_month=month if has_events else None))
    return svg_element(
        "svg",
        *months,
        *names,
        *columns,
        viewBox=f"0 0 {_LEFT + len(weeks) * _PITCH} {_TOP + 8 * _PITCH + 4}",
        role="group",
        aria_label=f"The days of {number}",
        class_="year",
        data_year=number,
    )


def _week(number: int, monday: dt.date, x: int, days: Mapping[str, Tally], most: int, to: ToNode) -> Markup:
    cells, holds = [], False
    for weekday in range(_DAYS):
        day = monday + dt.timedelta(days=weekday)
        if day.year != number:
            continue
        tally = days.get(day.isoformat())
        holds = holds or tally is not None
        shade = f"heat-{shade_step(tally.events, most) if tally else 0}"
        square = svg_element("rect", y=_TOP + weekday * _PITCH, width=_SIDE, height=_SIDE, rx=2.5, class_=shade)
        href = to(day_id(day.isoformat())) if tally else ""
        cells.append(svg_link(href, day_title(day, tally), square, data_day=day.isoformat() if tally else None))
    of, week, _ = monday.isocalendar()
    text = svg_element("text", str(week), x=_SIDE / 2, y=_TOP + _DAYS * _PITCH + 9, text_anchor="middle", class_="week")
    below = svg_link(to(week_id(of, week)) if holds else "", f"Week {week} of {of}", text, data_week=week if holds else None)
    return svg_element("g", *cells, below, transform=f"translate({x} 0)")


def draw_legend() -> Markup:
    """Return a picture of the shades of a heat map."""
    cells = [
        svg_element("rect", x=n * _PITCH, y=0, width=_SIDE, height=_SIDE, rx=2.5, class_=f"heat-{n}") for n in range(STEPS + 1)
    ]
    wide = (STEPS + 1) * _PITCH
    return svg_element(
        "svg", *cells, viewBox=f"0 0 {wide} {_SIDE}", width=wide, height=_SIDE, class_="legend", aria_hidden="true"
    )


def draw_columns(items: Sequence[Column], label: str, height: int = 56) -> Markup:
    """Return an SVG of one titled column per item."""
    pitch = 22
    most = max((item.count for item in items), default=0)
    below = 14 if any(item.label for item in items) else 0
    parts = []
    for index, item in enumerate(items):
        tall = max(round(height * item.count / most, 1), 2.0) if item.count else 1.5
        x = index * pitch
        area = svg_element("rect", x=x, y=0, width=pitch, height=height + below, class_="reach")
        shade = "column" if item.count else "heat-0"
        bar = svg_element("rect", x=x + 2, y=height - tall, width=pitch - 4, height=tall, rx=2, class_=shade)
        parts.append(svg_link(item.href, item.title, area, bar))
        if item.label:
            is_short = len(item.label) < 4
            at = x + pitch / 2 if is_short else x + 2
            parts.append(svg_element("text", item.label, x=at, y=height + 12, text_anchor="middle" if is_short else "start"))
    wide, high = max(len(items), 1) * pitch, height + below
    role = "group" if any(item.href for item in items) else "img"
    return svg_element(
        "svg", *parts, viewBox=f"0 0 {wide} {high}", width=wide, role=role, aria_label=label, class_="columns-chart"
    )


def draw_stacked_columns(months: Sequence[str], series: Sequence[tuple[str, Mapping[str, int]]], label: str) -> Markup:
    """Return an SVG with a layered column for each month.

    `months` are as 2026-01. Each series is (name, events by month); from the fifth on they share a shade. `label` describes
    the chart for screen readers; heights are relative to the largest month.
    """
    pitch, height = 40, 110
    most = max((sum(events.get(month, 0) for _, events in series) for month in months), default=0)
    parts = []
    for n, month in enumerate(months):
        month_name, top = MONTHS[int(month[5:]) - 1], float(height)
        parts.append(svg_element("text", month_name, x=n * pitch + pitch / 2, y=height + 14, text_anchor="middle"))
        for index, (name, events) in enumerate(series):
            if count := events.get(month, 0):
                tall = height * count / most
                top -= tall
                shade = f"series-{min(index, SERIES - 1)}"
                layer = svg_element(
                    "rect", x=n * pitch + 5, y=round(top, 1), width=pitch - 10, height=round(tall, 1), class_=shade
                )
                parts.append(svg_link("", f"{name}, {month_name} {month[:4]}: {counted(count, 'event')}", layer))
    wide = max(len(months), 1) * pitch
    return svg_element("svg", *parts, viewBox=f"0 0 {wide} {height + 18}", role="img", aria_label=label, class_="stacked")


def draw_sparkline(counts: Sequence[int], label: str, height: int = 22) -> Markup:
    """Return an SVG with a small column for each count above 0."""
    pitch = 4
    most = max(counts, default=0)
    heights = {index: max(round(height * count / most, 1), 2.0) for index, count in enumerate(counts) if count}
    path = "".join(f"M{index * pitch} {height}v-{tall}h{pitch - 1}V{height}z" for index, tall in heights.items())
    wide = max(len(counts), 1) * pitch
    ground = svg_element("path", d=f"M0 {height - 0.5}H{wide}", class_="axis")
    shape = svg_element("path", d=path or "M0 0", class_="column")
    box = f"0 0 {wide} {height}"
    return svg_element(
        "svg", svg_element("title", label), ground, shape, viewBox=box, width=wide, height=height, role="img", class_="spark"
    )


def draw_bar(count: int, most: int) -> Markup:
    """Return an SVG bar filled to count / most."""
    share = max(round(100 * count / most, 1), 1.0) if count and most else 0.0
    filled = svg_element("rect", width=share, height=8, rx=2, class_="column")
    ground = svg_element("rect", width=100, height=8, rx=2, class_="heat-0")
    return svg_element("svg", ground, filled, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", aria_hidden="true")
