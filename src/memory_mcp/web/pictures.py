"""Draws how an answer was found as SVG: layers by results and time, bounds by their use. Pure.

Each picture has words next to it that say the same: it shows proportions, and the words are in the table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from memory_mcp.web.charts import svg_element, svg_link
from memory_mcp.web.rendering import count

#: Width of a picture and height of a row, of which the bar has the lower part.
_WIDE, _ROW, _BAR = 360, 34, 10
#: Characters of a line.
_LINE = 56
_BOUNDS = {
    "max_depth": "levels of the tree",
    "max_nodes_visited": "nodes visited",
    "max_rpc_calls": "calls to layers",
    "max_token_budget": "tokens",
    "timeout_ms": "milliseconds",
    "beam_width": "branches at once",
}
#: Why a result is there, and the parts of its score that say so: the largest of those that are shares of 1 counts.
_REASONS = {
    "Same words": ("terms", "coverage", "own"),
    "Same meaning": ("similarity", "vector"),
    "Same conversation": ("near", "segment", "best", "segment_similarity", "lift"),
}


def bound_name(name: str) -> str:
    """Return a bound as people read it."""
    return _BOUNDS.get(name, name.replace("_", " "))


def milliseconds(took: float) -> str:
    """Return milliseconds, with one decimal below 1."""
    return f"{took:.0f} ms" if took >= 1 else f"{took:.1f} ms"


def draw_layers(tried: Sequence[Mapping[str, Any]], skipped: Sequence[Mapping[str, Any]]) -> Markup:
    """Return an SVG row for each layer, by its time.

    Each of `tried` has layer and outcome, and ms, hits (both 0 if absent) and reason ("" if absent). Rows of `skipped`, each
    with layer and reason, follow with an empty outline.
    """
    longest = max((float(layer.get("ms", 0)) for layer in tried), default=0.0)
    rows: list[tuple[str, str, float | None, str]] = []
    for layer in tried:
        took, hit_count = float(layer.get("ms", 0)), layer.get("hits", 0)
        line = f"{layer['layer']}: {hit_count} found, {milliseconds(took)}, {layer['outcome']}"
        rows.append(
            (line, str(layer.get("reason", "")), took / longest if longest else 0.0, "column" if hit_count else "series-3")
        )
    rows += [(f"{layer['layer']}: not used, {layer['reason']}", str(layer["reason"]), None, "") for layer in skipped]
    label = f"{count(len(tried), 'layer')} tried, {len(skipped)} not used"
    return _rows(rows, label, "layers")


def draw_bounds(usage_by_bound: Mapping[str, Mapping[str, int]], hit: Sequence[str] = ()) -> Markup:
    """Return an SVG row for each bound, filled by its use.

    `usage_by_bound` has the bounds by name, each {"limit", "used"}; those without `used` are left out. A bound among `hit`
    ended the search.
    """
    rows = []
    for name, usage in usage_by_bound.items():
        if "used" in usage:
            line = f"{bound_name(name)}: {count(usage['used'])} of {count(usage['limit'])}"
            share = usage["used"] / usage["limit"] if usage["limit"] else 1.0
            ended = name in hit
            rows.append((line + (", the search ended here" if ended else ""), "", share, "series-2" if ended else "column"))
    return _rows(rows, "How much of each bound was used", "bounds")


def draw_reasons(parts: Mapping[str, float]) -> Markup:
    """Return an SVG row for each reason for a result."""
    rows: list[tuple[str, str, float | None, str]] = []
    for reason, names in _REASONS.items():
        share = max((parts[name] for name in names if 0 <= parts.get(name, -1) <= 1), default=0.0)
        rows.append((f"{reason}: {share:.0%}", "", share, "column"))
    return _rows(rows, "Why it is here", "reasons")


def _rows(rows: Sequence[tuple[str, str, float | None, str]], label: str, name: str) -> Markup:
    groups = []
    for index, (text, more, share, shade) in enumerate(rows):
        top = index * _ROW
        line = svg_element("text", text if len(text) <= _LINE else f"{text[: _LINE - 1]}…", x=0, y=top + 14)
        back = "heat-0" if share is not None else "left-out"
        ground = svg_element("rect", x=0, y=top + 19, width=_WIDE, height=_BAR, rx=2, class_=back)
        shapes = [line, ground]
        if share:
            wide = max(round(min(share, 1.0) * _WIDE, 1), 2)
            shapes.append(svg_element("rect", x=0, y=top + 19, width=wide, height=_BAR, rx=2, class_=shade))
        groups.append(svg_link("", f"{text}{f': {more}' if more and more not in text else ''}", *shapes))
    box = f"0 0 {_WIDE} {max(len(rows), 1) * _ROW}"
    return svg_element("svg", *groups, viewBox=box, role="img", aria_label=label, class_=f"picture {name}")
