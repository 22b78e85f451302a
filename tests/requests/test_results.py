"""Hits as lean results: what each says, what it leaves to the one above, and what gives way to a budget."""

from dataclasses import replace

from memory_mcp.layers.base import Hit
from memory_mcp.model.calendar import Calendar, TocLevel
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.requests.results import LEAST_QUOTE, Lean, LeanResults, Result
from tests.factories import BILLING, SHOP, ms

CALENDAR = Calendar("Europe/Berlin")
HIT = Hit(
    node_id=NodeId("toc:segment:2026-02-01:aaaaaaaaaaaa"),
    title="2026-02-01 10:00 · The retry queue — queue, retry",
    quote="The retry queue has ten slots.",
    grip_ids=(GripId("grip:1:a"), GripId("grip:1:b")),
    timestamp=ms("2026-02-01 10:02"),
    session_id="queue",
    project=SHOP,
    agent="claude-code",
    role="user",
    speaker="",
    score=0.456,
)


def lean(*hits: Hit, project: str | None = None, most: int | None = 10_000, width: int | None = None) -> list[Result]:
    made = LeanResults(hits, CALENDAR, {"queue": 1.0}, project)
    return list(made.fitting(lambda found: most is None or sum(len(r.quote) for r in found.results) <= most, width).results)


def test_a_result_says_when_who_what_and_where_to_read_on() -> None:
    assert lean(HIT) == [
        Result(
            when="2026-02-01T10:02",
            who="user",
            quote=HIT.quote,
            grip="grip:1:a",
            title="The retry queue — queue, retry",
            session="queue",
            project=SHOP,
            score=0.46,
        )
    ]


def test_a_speaker_is_named_rather_than_the_role_and_the_answers_own_project_is_not_said() -> None:
    [only] = lean(replace(HIT, speaker="Melanie"), project=SHOP)
    assert (only.who, only.project) == ("Melanie", "")


def test_what_a_result_leaves_out_is_that_of_the_one_above() -> None:
    other = replace(HIT, node_id=NodeId("toc:segment:2026-02-02:bbbbbbbbbbbb"), session_id="ledger", project=BILLING)
    hits = [replace(one, quote=f"{n}") for n, one in enumerate((HIT, HIT, other, HIT, replace(HIT, project="")))]
    found = lean(*hits)
    assert [one.session for one in found] == ["queue", "", "ledger", "queue", ""]
    assert [one.project for one in found] == [SHOP, "", BILLING, SHOP, "none"]
    assert [bool(one.title) for one in found] == [True, False, True, False, False]


def test_a_period_names_its_node_and_what_is_outside_or_superseded_says_so() -> None:
    day = replace(HIT, node_id=NodeId("toc:day:2026-02-01"), level=TocLevel.DAY, outside=True, superseded_by="grip:9:z")
    [only] = lean(day)
    assert (only.node, only.outside, only.superseded_by) == ("toc:day:2026-02-01", True, "grip:9:z")
    [bare] = lean(replace(HIT, grip_ids=()))
    assert (bare.grip, bare.node) == ("", HIT.node_id)


def test_an_equal_quotation_is_shown_once_but_a_node_of_its_own_stays_without_it() -> None:
    long = replace(HIT, quote="The retry queue has ten slots, and each of them is retried.")
    again = replace(long, node_id=NodeId("toc:segment:2026-02-02:bbbbbbbbbbbb"))
    day = replace(long, node_id=NodeId("toc:day:2026-02-01"), level=TocLevel.DAY)
    made = LeanResults([long, again, day, again], CALENDAR, {}, None)
    found = made.fitting(lambda _: True)
    assert [(one.node, bool(one.quote)) for one in found.results] == [("", True), ("toc:day:2026-02-01", False)]
    assert found.hits == 4, "the next page begins behind what was folded too"
    assert len(lean(replace(HIT, quote="Yes, do that."), replace(again, quote="Yes, do that."))) == 2


def test_quotations_give_way_to_the_budget_before_results_do() -> None:
    hits = [replace(HIT, quote=f"{n} " + "The retry queue has ten slots. " * 30) for n in range(4)]
    assert [len(one.quote) <= 150 for one in lean(*hits, most=600)] == [True] * 4
    few = lean(*hits, most=LEAST_QUOTE * 2 + 10)
    assert len(few) == 2
    assert lean(*hits, most=10) == []


def test_a_page_that_holds_nothing_stands_for_no_hits() -> None:
    assert LeanResults([], CALENDAR, {}, None).fitting(lambda _: True) == Lean((), 0)
    assert LeanResults([HIT], CALENDAR, {}, None).fitting(lambda _: False) == Lean((), 0)
