"""Pictures of an answer say what was found, taken and left out; marked words are exactly those of the question."""

import html
import re
from typing import Any

import pytest

from memory_mcp.web import pictures
from memory_mcp.web.rendering import mark_terms, terms_to_mark
from tests.hostile import SPELLINGS, tags

TRIED = [
    {"layer": "bm25", "outcome": "insufficient", "reason": "confidence 0.2", "hits": 4, "confidence": 0.2, "ms": 5.0},
    {"layer": "agentic", "outcome": "nothing", "reason": "no word of it", "hits": 0, "confidence": 0.0, "ms": 20.0},
]
SKIPPED = [{"layer": "vector", "reason": "it is not built yet"}]
HOSTILE = '"><script>alert(1)</script>\u202e'


def rows(drawing: str) -> list[tuple[str, list[tuple[str, float]]]]:
    """What each row says, and its bars with their widths."""
    found = []
    for group in re.findall(r"<g>(.*?)</g>", drawing):
        told = re.search(r"<title>(.*?)</title>", group)
        assert told is not None
        bars = re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*class="([^"]+)"', group)
        found.append((html.unescape(told[1]), [(name, float(width)) for width, name in bars]))
    return found


def test_layers_are_drawn_in_the_order_tried_each_as_long_as_its_time_and_those_left_out_follow() -> None:
    drawing = pictures.draw_layers(TRIED, SKIPPED)
    assert rows(drawing) == [
        ("bm25: 4 found, 5 ms, insufficient: confidence 0.2", [("heat-0", 360), ("column", 90)]),
        ("agentic: 0 found, 20 ms, nothing: no word of it", [("heat-0", 360), ("series-3", 360)]),
        ("vector: not used, it is not built yet", [("left-out", 360)]),
    ]
    assert 'role="img" aria-label="2 layers tried, 1 not used"' in drawing


def test_a_bound_is_filled_as_far_as_it_was_used_and_one_that_ended_the_search_says_so() -> None:
    limits = {"max_nodes_visited": {"limit": 50, "used": 25}, "timeout_ms": {"limit": 100, "used": 130}}
    given = {**limits, "beam_width": {"limit": 1}}
    assert rows(pictures.draw_bounds(given, ["timeout_ms"])) == [
        ("nodes visited: 25 of 50", [("heat-0", 360), ("column", 180)]),
        ("milliseconds: 130 of 100, the search ended here", [("heat-0", 360), ("series-2", 360)]),
    ]


def test_why_a_result_is_here_is_three_reasons_each_by_its_largest_part() -> None:
    parts = {"coverage": 0.5, "terms": 0.25, "folded": 3.0, "segment": 0.1, "salience": 1.0}
    assert rows(pictures.draw_reasons(parts)) == [
        ("Same words: 50%", [("heat-0", 360), ("column", 180)]),
        ("Same meaning: 0%", [("heat-0", 360)]),
        ("Same conversation: 10%", [("heat-0", 360), ("column", 36)]),
    ]


def test_nothing_in_a_picture_is_markup_of_others() -> None:
    tried: list[dict[str, Any]] = [{**TRIED[0], "layer": HOSTILE, "reason": HOSTILE, "outcome": HOSTILE}]
    for drawing in (
        pictures.draw_layers(tried, [{"layer": HOSTILE, "reason": HOSTILE}]),
        pictures.draw_bounds({HOSTILE: {"limit": 1, "used": 1}}),
    ):
        assert "<script" not in drawing
        assert "\u202e" not in drawing
        assert "&lt;" in drawing


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        ("ledger refunds", "The ledger, refunding: no Refund.", ["ledger", "refunding", "Refund"]),
        ("ledger", "see billing/ledger.go and (ledger)", ["ledger", "ledger"]),
        ("discount", "applyDiscount rounds", ["applyDiscount"]),
        ("ledger.go", "billing/ledger.go", ["ledger", "go"]),
        ("the of", "the end of it", []),
        ("数据库", "我们的数据库很大", ["数据库"]),
        ("café", "a cafe and a CAFÉ", ["cafe", "CAFÉ"]),
        ("<b>", "<b>bold</b>", ["b", "b"]),
        ("nothing of it", "other words", []),
    ],
)
def test_words_of_the_question_are_marked_whole_in_whatever_form(question: str, text: str, found: list[str]) -> None:
    made = mark_terms(text, terms_to_mark(question))
    assert [html.unescape(one) for one in re.findall("<mark>(.*?)</mark>", made)] == found
    assert html.unescape(re.sub("</?mark>", "", made)) == text


def test_words_that_only_name_the_time_are_not_marked() -> None:
    assert (
        mark_terms("last week the ledger", terms_to_mark("ledger last week", "last week")) == "last week the <mark>ledger</mark>"
    )


@pytest.mark.parametrize("bad", [*SPELLINGS, HOSTILE])
def test_marking_lets_nothing_through(bad: str) -> None:
    made = mark_terms(f"recalled {bad} memory", terms_to_mark("recalled memory mcp by script alert"))
    assert re.findall("<[^>]*>", made.replace("<mark>", "").replace("</mark>", "")) == []
    shown = html.unescape(re.sub("<[^>]*>", "", made))
    assert tags(shown) == 0
    assert "\u202e" not in shown
