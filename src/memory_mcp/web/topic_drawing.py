"""Draws a map of topics as SVG: topics as circles by importance, areas as groups of them, relations as lines.

The page lists the same above it. A circle shows its full name while the pointer or the keyboard is on it.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from memory_mcp.web.charts import svg_element, svg_link
from memory_mcp.web.packing import Circle, pack_groups
from memory_mcp.web.rendering import plain

#: Radius of the least topic, and what the most important one has more.
_LEAST, _MORE = 23.0, 31.0
#: Between two circles, and around those of an area; how much wider than high the map is.
_GAP, _MARGIN, _WIDE = 2.0, 6.0, 2.2
#: How strongly areas pull each other, per strength of their relations; and relations that are drawn.
_PULL, _LINES = 0.1, 70
#: Height of a line of text and width of a character, in a circle.
_LINE, _CHARACTER = 11.0, 5.6

#: A topic, an area or a relation, as `get_topic_map` gives it.
_Given = Mapping[str, Any]


def topic_map(response: _Given, to: Callable[[str], str]) -> Markup:
    """Return the map of what `get_topic_map` found, as SVG.

    `response` has topics (topic_id, label, importance, state, mentions, last_mentioned), areas (topic_id, label, topics as ids)
    and relations (topics as two ids, kind, strength 0 to 1); the last two may be absent. The first 70 relations are drawn.
    A topic in no area is not drawn, and must be in no relation.
    """
    topics = {topic["topic_id"]: topic for topic in response["topics"]}
    areas = [[topics[name] for name in area["topics"]] for area in response.get("areas", ())]
    most = max((topic["importance"] for topic in topics.values()), default=0.0)
    shares = [sorted((topic["importance"] / most if most else 0.0 for topic in area), reverse=True) for area in areas]
    radii = [[_LEAST + _MORE * math.sqrt(share) for share in area] for area in shares]
    area_of = {topic["topic_id"]: index for index, area in enumerate(areas) for topic in area}
    relations = response.get("relations", ())
    placed = pack_groups(radii, _GAP, _MARGIN, _WIDE, _pulls(relations, area_of))
    circles = {
        topic["topic_id"]: circle
        for area, (_, inside) in zip(areas, placed, strict=True)
        for topic, circle in zip(sorted(area, key=lambda topic: -topic["importance"]), inside, strict=True)
    }
    rings = [ring for ring, _ in placed]
    return svg_element(
        "svg",
        *(_area(area, ring, to) for area, ring in zip(response.get("areas", ()), rings, strict=True)),
        *(_line(relation, circles) for relation in relations[:_LINES]),
        *(_topic(topics[name], circle, to) for name, circle in circles.items()),
        viewBox=_box(rings),
        class_="topics-map",
        role="group",
        aria_label="Map of topics",
    )


def _pulls(relations: Sequence[_Given], area_of: Mapping[str, int]) -> dict[tuple[int, int], float]:
    """Return a tenth of the relations' strengths between areas."""
    pulls: dict[tuple[int, int], float] = {}
    for relation in relations:
        first_area, second_area = sorted(area_of[topic] for topic in relation["topics"])
        if first_area != second_area:
            pulls[first_area, second_area] = pulls.get((first_area, second_area), 0.0) + _PULL * relation["strength"]
    return pulls


def _box(rings: Sequence[Circle]) -> str:
    if not rings:
        return "0 0 1 1"
    min_x, min_y = min(ring.x - ring.r for ring in rings) - 4, min(ring.y - ring.r for ring in rings) - 12
    max_x, max_y = max(ring.x + ring.r for ring in rings) + 4, max(ring.y + ring.r for ring in rings) + 4
    return f"{_at(min_x)} {_at(min_y)} {_at(max_x - min_x)} {_at(max_y - min_y)}"


def _line(relation: _Given, circles: Mapping[str, Circle]) -> Markup:
    first_circle, second_circle = (circles[topic] for topic in relation["topics"])
    across, down = second_circle.x - first_circle.x, second_circle.y - first_circle.y
    length = math.hypot(across, down) or 1.0
    across, down = across / length, down / length
    return svg_element(
        "line",
        x1=_at(first_circle.x + across * first_circle.r),
        y1=_at(first_circle.y + down * first_circle.r),
        x2=_at(second_circle.x - across * second_circle.r),
        y2=_at(second_circle.y - down * second_circle.r),
        stroke_width=_at(0.6 + 2.4 * relation["strength"]),
        class_=f"relation {relation['kind']}",
    )


def _topic(topic: _Given, circle: Circle, to: Callable[[str], str]) -> Markup:
    lines = break_lines(topic["label"], 1.75 * circle.r / _CHARACTER, max(int(1.5 * circle.r / _LINE), 1))
    first = circle.y - (len(lines) - 1) * _LINE / 2 + 3.5
    texts = [
        svg_element("text", line, x=_at(circle.x), y=_at(first + n * _LINE), text_anchor="middle") for n, line in enumerate(lines)
    ]
    shape = svg_element("circle", cx=_at(circle.x), cy=_at(circle.y), r=_at(circle.r))
    title = f"{topic['label']}: {topic['state']}, {topic['mentions']} mentions, last on {topic['last_mentioned']}"
    full = svg_element("text", plain(topic["label"]), x=_at(circle.x), y=_at(circle.y + 4), text_anchor="middle", class_="full")
    return svg_link(to(topic["topic_id"]), title, shape, *texts, full, class_=f"topic {topic['state']}", aria_label=title)


def _area(area: _Given, ring: Circle, to: Callable[[str], str]) -> Markup:
    shape = svg_element("circle", cx=_at(ring.x), cy=_at(ring.y), r=_at(ring.r), class_="area")
    title = f"Area: {area['label']}"
    return svg_link(to(area["topic_id"]), title, shape, aria_label=title) if len(area["topics"]) > 1 else shape


def _at(number: float) -> str:
    return f"{number:.1f}"


def break_lines(text: str, width: float, lines: int) -> list[str]:
    """Return a text broken between words into lines.

    At most `lines` lines of `width` characters, wide ones counted twice; what has no room is left out, with an ellipsis. A
    blank text is "?".
    """
    all_lines = [""]
    for word in plain(text).split() or ["?"]:
        joined = f"{all_lines[-1]} {word}".strip()
        if _wide(joined) <= width or not all_lines[-1]:
            all_lines[-1] = joined
        else:
            all_lines.append(word)
    visible_lines = all_lines[:lines]
    if len(all_lines) > lines:
        visible_lines[-1] = visible_lines[-1].rstrip(",") + "…"
    return [_cut_line(line, width) for line in visible_lines]


def _cut_line(text: str, width: float) -> str:
    if _wide(text) <= width:
        return text.rstrip(",")
    while len(text) > 1 and _wide(text) + 1 > width:
        text = text[:-1]
    return text.rstrip("…") + "…"


def _wide(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
