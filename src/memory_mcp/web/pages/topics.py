"""What the memory is about: topics by importance with their map, and one topic over time."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.requests.indexes import GetTopicGraphStatus
from memory_mcp.requests.one_topic import GetTopic, TopicNodes
from memory_mcp.requests.topics import GetTopicMap
from memory_mcp.web import charts, topic_drawing
from memory_mcp.web.asking import PageRequest

#: Topics of a page, and segments of a topic's.
_TOPICS, _SEGMENTS = 60, 50
#: Weeks of a chart, at least and at most; longer times are shown by month.
_LEAST, _WEEKS = 26, 60
_WEEK = dt.timedelta(weeks=1)


async def show_topics(ask: PageRequest) -> Response:
    """Show the map and 60 topics from the cursor on."""
    try:
        topic_map = await ask.memory.ask(GetTopicMap(_TOPICS, ask.argument("cursor"), **ask.scope_arguments))
    except LayerUnavailable:
        return ask.render_page("topics", status=await ask.memory.ask(GetTopicGraphStatus()))
    areas = {name: area for area in topic_map.get("areas", ()) for name in area["topics"]}
    sparks = {
        entry["topic_id"]: charts.draw_sparkline(entry["weeks"], _describe_weeks(entry["weeks"])) for entry in topic_map["topics"]
    }
    drawing = topic_drawing.topic_map(topic_map, lambda name: ask.link(f"topics/{name}", project=ask.argument("project")))
    return ask.render_page("topics", found=topic_map, areas=areas, sparks=sparks, drawing=drawing)


async def show_topic(ask: PageRequest) -> Response:
    """Show one topic, its segments, relations and mentions over time."""
    scope = ask.scope_arguments
    response = await ask.memory.ask(GetTopic(ask.path_argument("topic_id"), **scope))
    page = await ask.memory.ask(TopicNodes(response["topic"]["topic_id"], _SEGMENTS, ask.argument("cursor"), **scope))
    nodes = sorted(page["nodes"], key=lambda segment: (segment["when"], segment["node_id"]), reverse=True)
    chart = charts.draw_columns(
        _over_time(ask, response.get("by_week", ()), response["topic"].get("weeks", ())), "Mentions over time"
    )
    return ask.render_template("topic.html", found=response, page=page, nodes=nodes, chart=chart)


def _describe_weeks(weeks: Sequence[int]) -> str:
    weeks_ago = [ago for ago, mentions in enumerate(reversed(weeks)) if mentions]
    if not weeks_ago:
        return f"no mention in the last {len(weeks)} weeks"
    last = "this week" if not weeks_ago[0] else f"{weeks_ago[0]} week{'' if weeks_ago[0] == 1 else 's'} ago"
    return f"{sum(weeks)} mentions in {len(weeks)} weeks, the last {last}"


def _over_time(ask: PageRequest, by_week: Sequence[Mapping[str, Any]], latest: Sequence[int]) -> list[charts.Column]:
    counts = {dt.date.fromisoformat(entry["week"]): int(entry["mentions"]) for entry in by_week}
    if not counts:
        return []
    silent = next((ago for ago, count in enumerate(reversed(latest)) if count), 0)
    last = max(counts) + silent * _WEEK
    first = min(*counts, last - (_LEAST - 1) * _WEEK)
    if last - first > _WEEKS * _WEEK:
        return _by_month(ask, counts)
    days = [first + n * _WEEK for n in range((last - first) // _WEEK + 1)]
    return [_column(ask, charts.week_of(day), counts.get(day, 0), _month_label(day, index)) for index, day in enumerate(days)]


def _by_month(ask: PageRequest, counts: Mapping[dt.date, int]) -> list[charts.Column]:
    """A week counts for the month of its Monday."""
    months = dict[int, int]()
    for day, count in counts.items():
        months[day.year * 12 + day.month - 1] = months.get(day.year * 12 + day.month - 1, 0) + count
    month_numbers = range(min(months), max(months) + 1)
    return [
        _column(
            ask,
            charts.month_of(*divmod(number, 12)),
            months.get(number, 0),
            str(number // 12) if number % 12 == 0 or index == 0 else "",
        )
        for index, number in enumerate(month_numbers)
    ]


def _column(ask: PageRequest, period: tuple[str, str], count: int, label: str) -> charts.Column:
    node, name = period
    href = ask.link(f"tree/{node}", project=ask.argument("project")) if count else ""
    return charts.Column(count, f"{name}: {count} mention{'' if count == 1 else 's'}", href, label)


def _month_label(monday: dt.date, index: int) -> str:
    if index and monday.day > 7:
        return ""
    return charts.MONTHS[monday.month - 1] + (f" {monday.year}" if monday.month == 1 or index == 0 else "")
