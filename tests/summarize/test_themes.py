"""What a period was about: groups of its children, the largest first, found again by the periods above."""

from dataclasses import replace

from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import TocNode
from memory_mcp.tree.summarize.rollup import roll_up
from memory_mcp.tree.summarize.themes import themes_of
from tests.summarize.suite import node

FACT = ["Something was said about it in so many words."]


def work(n: int, title: str, keywords: list[str], events: int = 16) -> TocNode:
    return replace(node(n, title, FACT, keywords), event_count=events)


FERRIES = [
    work(n, title, ["ferry", *more])
    for n, (title, more) in enumerate(
        [
            ("Import the ferry timetable", ["spreadsheet"]),
            ("Ferry departures by quay", ["quay"]),
            ("Fix the ferry tide on leap days", ["tides.csv"]),
        ]
    )
]
REST = [
    work(7, "Rotate the signing keys", ["signing", "vault"]),
    work(8, "Rename the billing module", ["billing"], events=8),
    work(9, "Walrus statue for the lobby", ["walrus"], events=2),
]


def test_children_that_share_a_rare_term_are_one_theme_named_by_one_of_them() -> None:
    themes = themes_of([*FERRIES, *REST])
    assert [t.children for t in themes][:2] == [(0, 1, 2), (3,)]
    assert themes[0].name in {"Import the ferry timetable", "Ferry departures by quay", "Fix the ferry tide on leap days"}
    assert "ferry" in themes[0].terms
    assert [t.share for t in themes] == sorted((t.share for t in themes), reverse=True)
    assert sum(t.share for t in themes) <= 1.0001


def test_a_period_is_titled_by_its_largest_themes_and_its_summary_tells_their_shares() -> None:
    told = roll_up([*FERRIES, *REST])
    first, second = told.title.split(" — ")[0].split("; ")[:2]
    assert "ferry" in first.casefold()
    assert second.startswith("Rotate the signing keys")
    assert told.summary.count(" %)") == 4
    assert "(65 %)" in told.summary


def test_one_late_note_does_not_retitle_a_long_period() -> None:
    many = [work(n, f"{title} {n}", [f"term{n}"]) for n, title in enumerate(["Ferry", "Quay", "Tide"] * 10)]
    before = roll_up(many)
    after = roll_up([*many, work(99, "A walrus for the lobby", ["walrus"], events=1)])
    assert after.title == before.title


def test_a_child_that_says_nothing_is_no_theme_and_moves_no_share() -> None:
    quiet = replace(node(50, "1 message", []), event_count=40)
    assert roll_up([*FERRIES, *REST, quiet]) == roll_up([*FERRIES, *REST])


def day(n: int, children: list[TocNode]) -> TocNode:
    told = roll_up(children)
    return replace(
        work(n, f"Mon {n} Mar 2026 · {told.title}", list(told.keywords), sum(c.event_count for c in children)),
        node_id=NodeId(f"toc:day:2026-03-{n:02d}"),
        level=TocLevel.DAY,
        summary=told.summary,
        bullets=told.bullets,
    )


def test_a_theme_of_several_days_is_one_theme_of_the_week() -> None:
    days = [day(2, [FERRIES[0], REST[0]]), day(3, [FERRIES[1], REST[1]]), day(4, [FERRIES[2], REST[2]])]
    themes = themes_of(days)
    assert "ferry" in themes[0].name.casefold()
    assert themes[0].children == (0, 1, 2)


def test_a_day_that_somebody_wrote_anew_counts_as_one_theme() -> None:
    written = replace(day(2, FERRIES), title="Mon 2 Mar 2026 · The harbour goes live", summary="By hand.", author="agent")
    assert [t.name for t in themes_of([written, day(3, REST)])].count("The harbour goes live") == 1
