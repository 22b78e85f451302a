"""Today: where each project was left off and its words; what clients recorded; what to do while there is nothing."""

import datetime as dt
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory_mcp.model.event import EventDraft, Role
from memory_mcp.model.sentinel import CLOSE
from memory_mcp.web.registry import FIRST
from tests.daemon.door import Door
from tests.factories import SHOP, draft
from tests.web.acting import visited
from tests.web.visitor import Visitor, plain

#: Everything that may be stored and must not become more than words.
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b[0m",
    CLOSE,
)
ODD = 'odd"><script>alert(2)</script>\u202e'


@dataclass
class Shown:
    """A memory behind pages, and somebody who looks at it."""

    door: Door
    visitor: Visitor

    def add(self, *drafts: EventDraft) -> None:
        self.door.app.write(drafts, "test")
        self.door.app.derivation.run()


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    with visited(tmp_path / "data") as made:
        yield Shown(*made)


def ago(hours: float) -> int:
    return round((dt.datetime.now(dt.UTC) - dt.timedelta(hours=hours)).timestamp() * 1000)


def worked(
    project: str = SHOP, session: str = "s1", hours: float = 3.0, agent: str = "claude-code", more: str = ""
) -> list[EventDraft]:
    """A session in which something was asked, found, decided and left open."""
    said = (
        (Role.USER, f"The voucher discount in the basket is off by a cent. {more}"),
        (Role.ASSISTANT, "Fixed: the voucher rounds once per basket now and 14 tests pass."),
        (Role.USER, "We decided that the voucher discount is summed with Decimal."),
        (Role.ASSISTANT, "Still open: the refund page rounds every line. TODO: round it once, too."),
    )
    return [
        draft(text, at=ago(hours) + place * 60_000, session=session, role=role, project=project, agent=agent)
        for place, (role, text) in enumerate(said)
    ]


def test_a_visit_begins_with_today(shown: Shown) -> None:
    assert FIRST == "today"
    assert shown.visitor.get().headers["location"].endswith("/today")


def test_an_empty_memory_says_what_to_do(shown: Shown) -> None:
    page = plain(shown.visitor.page("today"))
    assert "Nothing is recorded yet" in page
    assert "memory-mcp setup" in page
    assert "memory-mcp import auto" in page


def test_a_project_says_what_was_asked_decided_and_is_open_and_each_statement_leads_to_its_words(shown: Shown) -> None:
    shown.add(*worked())
    page = shown.visitor.page("today")
    said = plain(page)
    for words in ("Where you left off", "shop", "claude-code", "voucher discount in the basket", "summed with Decimal"):
        assert words in said
    assert "Fixed: the voucher rounds once per basket now and 14 tests pass." in said
    grips = set(re.findall(rf'href="{shown.visitor.base}/(grip/[^"?]+)"', page))
    segments = set(re.findall(rf'href="{shown.visitor.base}/(tree/toc:segment:[^"?]+)"', page))
    assert len(grips) >= 3
    assert len(segments) == 1
    assert "voucher" in plain("".join(shown.visitor.page(html.unescape(way)) for way in (*grips, *segments)))


def test_clients_of_the_last_hours_are_told_with_their_projects(shown: Shown) -> None:
    shown.add(*worked(), *worked("/home/ana/site", "s2", 2.0, "codex"), *worked("/home/ana/old", "s3", 30.0, "cursor"))
    page = shown.visitor.page("today")
    recorded = plain(page.split("Recorded in the last 24 hours</h2>", 1)[1])
    assert "codex 4 events in 1 session" in recorded
    assert "claude-code 4 events in 1 session" in recorded
    assert "cursor" not in recorded
    assert recorded.index("codex") < recorded.index("claude-code")


def test_where_nobody_recorded_anything_lately_the_page_says_how_to_find_out_why(shown: Shown) -> None:
    shown.add(*worked(hours=100))
    assert "No client recorded anything. memory-mcp doctor" in plain(shown.visitor.page("today"))


def test_the_last_two_weeks_are_columns_that_lead_to_their_days(shown: Shown) -> None:
    shown.add(*worked(hours=72), *worked(session="s2", hours=400, more="Again."))
    page = shown.visitor.page("today")
    chart = page.split('class="columns-chart"', 1)[1].split("</svg>", 1)[0]
    assert chart.count("<title>") == 14
    day = dt.datetime.fromtimestamp(ago(72) / 1000, shown.door.app.calendar.zone).date()
    assert re.findall(rf'href="{shown.visitor.base}/tree/([^"]+)"', chart) == [f"toc:day:{day.isoformat()}"]
    assert f"{day:%a} {day.day} {day:%b} {day.year}: 4 events in 1 session" in chart


def test_one_project_can_be_shown_alone_and_stays_so_in_every_link(shown: Shown) -> None:
    shown.add(*worked(), *worked("/home/ana/site", "s2"))
    page = shown.visitor.page("today", project=SHOP)
    assert "site" not in plain(page.split("<main", 1)[1])
    ways = re.findall(rf'href="{shown.visitor.base}/((?:grip|tree)/[^"]+)"', page)
    assert ways
    assert all("project=github.com%2Facme%2Fshop" in way for way in ways)


def test_what_belongs_to_no_project_is_shown_without_a_way_to_show_it_alone(shown: Shown) -> None:
    shown.add(*worked(""), *worked(session="s2", hours=1))
    page = shown.visitor.page("today")
    assert "no project" in plain(page)
    ways = [html.unescape(way) for way in re.findall(rf'href="{shown.visitor.base}/(today\?[^"]+)"', page)]
    assert set(ways) == {"today?project=github.com%2Facme%2Fshop"}
    assert shown.visitor.get(ways[0]).status == 200


def test_what_is_recorded_meanwhile_is_in_the_part_that_the_page_fetches(shown: Shown) -> None:
    shown.add(*worked())
    page = shown.visitor.page("today")
    live = re.search(r'data-live="([^"]+)"', page)
    assert live is not None
    shown.add(*worked("/home/ana/later", "s9", 0.5))
    part = shown.visitor.send("GET", html.unescape(live[1]), X_Part="1", X_Live="1")
    assert part.status == 200
    assert "<html" not in part.text
    assert "later" in plain(part.text)


def test_hostile_words_and_names_stay_words(shown: Shown) -> None:
    for number, text in enumerate(HOSTILE):
        shown.add(*worked(f"/home/ana/{number}{ODD}", f"s{number}", 3.0, ODD, text))
    page = shown.visitor.page("today")
    assert all(f"{number}odd&" in page for number in range(len(HOSTILE)))
    assert not re.search(r"<script(?! type=\"module\" src=)", page)
    assert "<img" not in page
    assert not re.search(r'(?:href|src|action)="(?!/ui/|#)', page)
    assert not {"\u202e", "\u2066", "\x1b"} & set(page)
    assert CLOSE not in page
    assert CLOSE not in html.unescape(page)
