"""Charts: every number is where it says, every text in them is escaped, and the same values give the same drawing."""

import datetime as dt
import math
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from memory_mcp.web import charts, topic_drawing
from memory_mcp.web.charts import Column, Tally
from memory_mcp.web.packing import Circle, enclosing_circle, pack_circles, pack_groups
from memory_mcp.web.rendering import plain

HOSTILE = "</title><script>alert(1)</script>\" onload='x' \u202egnp\x1b[31m&"


def parsed(chart: Markup) -> ElementTree.Element:
    """The chart as a browser would read it: one that is not well-formed fails."""
    return ElementTree.fromstring(chart)


def to(node: str) -> str:
    return f"/there/{node}?a=1&b=2"


def days_of(year: ElementTree.Element) -> Iterator[tuple[str, str, str]]:
    """Title, class and address of every cell, column by column."""
    for column in year.findall("./g[@transform]"):
        for cell in column:
            if (square := cell.find("rect")) is not None:
                yield cell.findtext("title", ""), square.attrib["class"], cell.get("href", "")


# a year


@pytest.mark.parametrize(
    ("year", "days", "columns", "first"),
    [(2026, 365, 53, "Week 1 of 2026"), (2027, 365, 53, "Week 53 of 2026"), (2012, 366, 54, "")],
)
def test_a_year_has_a_column_for_each_week_and_a_cell_for_each_day(year: int, days: int, columns: int, first: str) -> None:
    drawn = parsed(charts.draw_year(year, {}, to))
    cells = list(days_of(drawn))
    weeks = drawn.findall("./g[@transform]")
    assert (len(cells), len(weeks)) == (days, columns)
    assert weeks[0][-1].findtext("title") == (first or "Week 52 of 2011")
    assert cells[0][0] == f"{charts.day_name(dt.date(year, 1, 1))}: nothing"
    assert cells[-1][0] == f"{charts.day_name(dt.date(year, 12, 31))}: nothing"
    assert {(shade, href) for _, shade, href in cells} == {("heat-0", "")}


def test_a_day_that_holds_something_says_how_much_and_leads_to_it() -> None:
    drawn = parsed(charts.draw_year(2026, {"2026-03-03": Tally(124, 3), "2026-03-04": Tally(1, 1)}, to))
    held = [cell for cell in days_of(drawn) if cell[2]]
    assert held == [
        ("Tue 3 Mar 2026: 124 events in 3 sessions", "heat-4", "/there/toc:day:2026-03-03?a=1&b=2"),
        ("Wed 4 Mar 2026: 1 event in 1 session", "heat-1", "/there/toc:day:2026-03-04?a=1&b=2"),
    ]
    ways = [(a.findtext("title"), a.attrib["href"]) for a in drawn.iter("a") if a.find("text") is not None]
    assert ways == [("Mar 2026", to("toc:month:2026-03")), ("Week 10 of 2026", to("toc:week:2026-W10"))]


def test_weekdays_are_rows_and_weeks_are_columns() -> None:
    drawn = parsed(charts.draw_year(2026, {}, to))
    rows: dict[str, set[str]] = {}
    for column in drawn.findall("./g[@transform]"):
        for cell in column:
            if (square := cell.find("rect")) is not None:
                rows.setdefault(square.attrib["y"], set()).add(cell.findtext("title", "")[:3])
    assert sorted((float(y), *names) for y, names in rows.items()) == [
        (18 + 15 * n, name) for n, name in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
    ]


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (6, 1), (7, 2), (25, 2), (26, 3), (56, 3), (57, 4), (100, 4)])
def test_the_shade_goes_by_the_root(count: int, expected: int) -> None:
    assert charts.shade_step(count, 100) == expected


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_whatever_is_not_nothing_has_a_shade_and_the_most_the_darkest(count: int, more: int) -> None:
    assert 1 <= charts.shade_step(count, count + more) <= charts.STEPS
    assert charts.shade_step(count, count) == charts.STEPS


# columns, sparklines, bars


def test_columns_are_as_high_as_their_counts_and_each_says_its_own() -> None:
    shown = [Column(10, "ten", "/ten", "A"), Column(5, "five"), Column(0, "none"), Column(1, "one", label="2026")]
    drawn = parsed(charts.draw_columns(shown, "Four", height=50))
    parts = [part for part in drawn if part.tag in ("a", "g")]
    assert [(part.tag, part.findtext("title"), part.get("href")) for part in parts] == [
        ("a", "ten", "/ten"),
        ("g", "five", None),
        ("g", "none", None),
        ("g", "one", None),
    ]
    assert [part.findall("rect")[1].attrib["height"] for part in parts] == ["50.0", "25.0", "1.5", "5.0"]
    assert [text.text for text in drawn.findall("text")] == ["A", "2026"]
    assert (drawn.get("role"), drawn.get("aria-label")) == ("group", "Four")


def test_a_chart_without_addresses_is_an_image_and_one_without_values_is_drawn() -> None:
    assert parsed(charts.draw_columns([Column(1, "one")], "One")).get("role") == "img"
    assert parsed(charts.draw_columns([], "None")).get("role") == "img"
    assert parsed(charts.draw_sparkline([], "none")).findtext("title") == "none"


def test_a_sparkline_has_a_column_where_something_was_and_says_what() -> None:
    drawn = parsed(charts.draw_sparkline([0, 4, 0, 1], "5 mentions", height=20))
    assert drawn.findtext("title") == "5 mentions"
    assert drawn.findall("path")[1].attrib["d"] == "M4 20v-20.0h3V20zM12 20v-5.0h3V20z"


@pytest.mark.parametrize(
    ("count", "most", "wide"), [(10, 10, "100.0"), (5, 10, "50.0"), (1, 10_000, "1.0"), (0, 10, "0.0"), (0, 0, "0.0")]
)
def test_a_bar_is_as_long_as_its_share_and_not_told_twice(count: int, most: int, wide: str) -> None:
    drawn = parsed(charts.draw_bar(count, most))
    assert (drawn.findall("rect")[1].attrib["width"], drawn.get("aria-hidden")) == (wide, "true")


def test_layers_of_a_month_are_as_high_as_their_shares_and_lie_on_each_other() -> None:
    series = [("one", {"2026-01": 30, "2026-02": 10}), (HOSTILE, {"2026-01": 10})]
    drawn = parsed(charts.draw_stacked_columns(["2026-01", "2026-02", "2026-03"], series, "Months"))
    layers = [(g.findtext("title", ""), g.find("rect")) for g in drawn.findall("g")]
    assert [title for title, _ in layers][::2] == ["one, Jan 2026: 30 events", "one, Feb 2026: 10 events"]
    shapes = [(rect.attrib["y"], rect.attrib["height"], rect.attrib["class"]) for _, rect in layers if rect is not None]
    assert shapes == [("27.5", "82.5", "series-0"), ("0.0", "27.5", "series-1"), ("82.5", "27.5", "series-0")]
    assert [text.text for text in drawn.findall("text")] == ["Jan", "Feb", "Mar"]
    assert {one.tag for one in drawn.iter()} == {"svg", "g", "title", "rect", "text"}


def test_more_series_than_shades_share_the_last_and_none_is_a_chart_too() -> None:
    series = [(str(n), {"2026-01": 1}) for n in range(charts.SERIES + 2)]
    drawn = parsed(charts.draw_stacked_columns(["2026-01"], series, "Months"))
    assert [rect.attrib["class"] for rect in drawn.iter("rect")][-3:] == [f"series-{charts.SERIES - 1}"] * 3
    assert parsed(charts.draw_stacked_columns(["2026-01"], [], "Months")).get("role") == "img"


def test_hostile_texts_stay_texts() -> None:
    column = parsed(charts.draw_columns([Column(1, HOSTILE, HOSTILE, HOSTILE)], HOSTILE))
    assert [part.tag for part in column] == ["a", "text"]
    assert {one.tag for one in column.iter()} == {"svg", "a", "title", "rect", "text"}
    said = column.findtext("./a/title", "")
    assert said.startswith("</title><script>alert(1)</script>")
    assert not {"\u202e", "\x1b"} & set(said)
    assert set(column.attrib) == {"viewBox", "width", "role", "aria-label", "class"}
    assert "<script" not in str(charts.draw_sparkline([1], HOSTILE))


# circles


def overlap(one: Circle, other: Circle) -> bool:
    return math.hypot(one.x - other.x, one.y - other.y) < one.r + other.r - 1e-3


sizes = st.lists(st.floats(5, 60), max_size=40).map(lambda radii: sorted(radii, reverse=True))


@given(sizes, st.floats(0, 5), st.floats(1, 3))
def test_packed_circles_do_not_overlap_and_are_the_same_each_time(radii: list[float], gap: float, wide: float) -> None:
    circles = pack_circles(radii, gap, wide)
    assert [one.r for one in circles] == radii
    assert not any(overlap(one, other) for place, one in enumerate(circles) for other in circles[:place])
    assert pack_circles(radii, gap, wide) == circles


@given(st.lists(st.floats(5, 60), max_size=20))
def test_also_circles_in_no_order_do_not_overlap(radii: list[float]) -> None:
    circles = pack_circles(radii)
    assert not any(overlap(one, other) for place, one in enumerate(circles) for other in circles[:place])


@given(sizes)
def test_the_circle_around_others_holds_them_all(radii: list[float]) -> None:
    circles = pack_circles(radii)
    whole = enclosing_circle(circles)
    assert all(math.hypot(one.x - whole.x, one.y - whole.y) + one.r <= whole.r + 1e-6 for one in circles)


def test_what_pulls_comes_nearer() -> None:
    def distance(circles: list[Circle]) -> float:
        return math.hypot(circles[8].x - circles[11].x, circles[8].y - circles[11].y)

    radii = [10.0] * 12
    assert distance(pack_circles(radii, pulls={(8, 11): 5.0})) == pytest.approx(20.0)
    assert distance(pack_circles(radii)) > 30


def test_groups_hold_their_own_and_lie_apart() -> None:
    placed = pack_groups([[30.0, 20.0, 20.0], [25.0], [22.0, 22.0]], 2, 6, 2, {(0, 2): 0.5})
    for ring, inside in placed:
        assert all(math.hypot(one.x - ring.x, one.y - ring.y) + one.r <= ring.r for one in inside)
    rings = [ring for ring, _ in placed]
    assert not any(overlap(one, other) for place, one in enumerate(rings) for other in rings[:place])


# the map of topics


def topic(name: str, importance: float, label: str = "", state: str = "active") -> dict[str, Any]:
    told = {"mentions": 3, "last_mentioned": "2026-02-01"}
    return {"topic_id": f"topic:{name}", "label": label or name, "importance": importance, "state": state, **told}


FOUND: dict[str, Any] = {
    "topics": [topic("a", 9), topic("b", 1, state="dormant"), topic("c", 4, HOSTILE, "revived")],
    "areas": [
        {"topic_id": "topic:x", "label": "both", "topics": ["topic:a", "topic:b"]},
        {"topic_id": "topic:y", "label": "alone", "topics": ["topic:c"]},
    ],
    "relations": [{"topics": ["topic:a", "topic:c"], "kind": "similar", "strength": 0.5}],
}


def test_a_topic_is_a_circle_by_its_importance_in_its_area_and_leads_to_its_page() -> None:
    drawn = parsed(topic_drawing.topic_map(FOUND, to))
    topics = {a.attrib["href"]: a for a in drawn.findall("a") if a.get("class", "").startswith("topic ")}
    assert list(topics) == [to("topic:a"), to("topic:b"), to("topic:c")]
    assert [a.attrib["class"] for a in topics.values()] == ["topic active", "topic dormant", "topic revived"]
    radii = {href: float(a.find("circle").attrib["r"]) for href, a in topics.items()}  # type: ignore[union-attr]
    assert radii[to("topic:a")] > radii[to("topic:c")] > radii[to("topic:b")]
    assert topics[to("topic:a")].findtext("title") == "a: active, 3 mentions, last on 2026-02-01"
    # An area of one topic has no name besides the topic's.
    rings = [a for a in drawn.findall("a") if a.find("circle[@class='area']") is not None]
    assert [a.findtext("title") for a in rings] == ["Area: both"]
    assert len(drawn.findall(".//circle[@class='area']")) == 2
    assert [line.attrib["class"] for line in drawn.findall("line")] == ["relation similar"]


def test_every_circle_says_its_full_name_to_pointer_and_keyboard() -> None:
    drawn = parsed(topic_drawing.topic_map(FOUND, to))
    links = drawn.findall("a")
    assert all(a.get("aria-label") == a.findtext("title") and a.get("tabindex") is None for a in links)
    labels = {to(one["topic_id"]): plain(one["label"]) for one in FOUND["topics"]}
    assert {a.attrib["href"]: a.findtext("text[@class='full']") for a in links if a.get("class")} == labels
    assert {one.tag for one in drawn.iter()} == {"svg", "a", "title", "circle", "text", "line"}


def test_the_map_is_the_same_each_time_and_of_nothing_too() -> None:
    assert topic_drawing.topic_map(FOUND, to) == topic_drawing.topic_map(FOUND, to)
    assert len(parsed(topic_drawing.topic_map({"topics": []}, to))) == 0


@pytest.mark.parametrize(
    ("text", "width", "lines", "expected"),
    [
        ("agent-specific hook, handler", 14, 3, ["agent-specific", "hook, handler"]),
        ("one two three four", 4, 2, ["one", "two…"]),
        ("ComputeTranscriptPath", 8, 2, ["Compute…"]),
        ("記憶の地図", 6, 2, ["記憶…"]),
        ("", 5, 2, ["?"]),
    ],
)
def test_a_label_is_broken_into_lines_that_fit(text: str, width: float, lines: int, expected: list[str]) -> None:
    assert topic_drawing.break_lines(text, width, lines) == expected
