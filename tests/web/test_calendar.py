"""The calendar: each day's number is where it says and leads there; filters work as a form and keep each other."""

import html
import re
from collections.abc import Iterator

import pytest

from tests.factories import BILLING, SHOP, draft
from tests.web.acting import visited
from tests.web.visitor import Visitor

ODD = 'odd"><script>alert(2)</script>'
#: Project, agent, day and messages.
DAYS = (
    (SHOP, "claude-code", "2026-01-12", 9),
    (SHOP, "codex", "2026-01-13", 1),
    (BILLING, "claude-code", "2026-03-03", 4),
    (BILLING, ODD, "2024-12-30", 2),
    ("", "claude-code", "2026-03-03", 1),
)


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    said = [
        draft(f"Message {n} of {day}.", at=f"{day} 10:{n:02}", session=f"{project}-{agent}-{day}", project=project, agent=agent)
        for project, agent, day, count in DAYS
        for n in range(count)
    ]
    with visited(tmp_path_factory.mktemp("calendar") / "data", *said) as (_, visitor):
        yield visitor


def held(page: str) -> list[str]:
    """What the days say that hold anything."""
    return re.findall(r"<a [^>]*data-day=[^>]*><title>([^<]*)</title>", page)


def rows(page: str, of: str) -> list[tuple[str, str, str]]:
    """Name, events and sessions of a table of totals."""
    table = page.split(f"<h2>By {of}</h2>", 1)[1].split("</table>", 1)[0]
    found = re.findall(r'<tr><th scope="row">(.*?)</th>.*?class="number">(.*?)</td><td class="number">(.*?)</td></tr>', table)
    return [(html.unescape(re.sub("<[^>]*>", "", name)), events, sessions) for name, events, sessions in found]


def test_each_day_of_the_year_says_what_was_recorded_and_leads_there(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2026)
    assert held(page) == [
        "Mon 12 Jan 2026: 9 events in 1 session",
        "Tue 13 Jan 2026: 1 event in 1 session",
        "Tue 3 Mar 2026: 5 events in 2 sessions",
    ]
    ways = re.findall(rf'href="{visitor.base}/(tree/toc:[^"]+)"', page)
    assert {"tree/toc:day:2026-01-12", "tree/toc:week:2026-W03", "tree/toc:month:2026-03"} <= set(ways)
    assert all(visitor.get(way).status == 200 for way in ways)
    assert "15 events in 4 sessions on 3 days" in page


def test_a_year_that_was_not_asked_for_is_the_newest_that_holds_anything(visitor: Visitor) -> None:
    assert "<h1>Calendar 2026</h1>" in visitor.page("calendar")
    assert "<h1>Calendar 2024</h1>" in visitor.page("calendar", agent=ODD)


def test_years_are_offered_and_one_without_anything_says_so(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2025)
    assert "Nothing was recorded in 2025" in page
    assert held(page) == []
    assert re.findall(r"<option[^>]*>(\d{4})</option>", page) == ["2026", "2025", "2024"]
    assert "<option selected>2025</option>" in page


def test_totals_name_projects_and_agents_with_their_numbers(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2026)
    assert rows(page, "project") == [("shop", "10", "2"), ("billing", "4", "1"), ("none", "1", "1")]
    assert rows(page, "agent") == [("claude-code", "14", "3"), ("codex", "1", "1")]


def test_months_are_stacked_by_project_and_by_agent(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2026)
    titles = [re.findall("<title>([^<]*)</title>", chart.split("</svg>")[0]) for chart in page.split('class="stacked"')[1:]]
    assert titles == [
        ["shop, Jan 2026: 10 events", "billing, Mar 2026: 4 events", "(none), Mar 2026: 1 event"],
        ["claude-code, Jan 2026: 9 events", "codex, Jan 2026: 1 event", "claude-code, Mar 2026: 5 events"],
    ]


def test_filters_narrow_days_and_totals_and_keep_each_other(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2026, project=SHOP)
    assert held(page) == ["Mon 12 Jan 2026: 9 events in 1 session", "Tue 13 Jan 2026: 1 event in 1 session"]
    assert f'<option value="{BILLING}">' in page
    assert f'<option value="{SHOP}" selected>' in page
    both = visitor.page("calendar", year=2026, project=SHOP, agent="codex")
    assert held(both) == ["Tue 13 Jan 2026: 1 event in 1 session"]
    [way] = re.findall(r'<th scope="row">.*?<a href="([^"]+)"', page.split("<h2>By agent</h2>", 1)[1])[:1]
    assert held(visitor.send("GET", html.unescape(way)).text) == ["Mon 12 Jan 2026: 9 events in 1 session"]
    assert 'href="' + f"{visitor.base}/tree/toc:day:2026-01-13?project=github.com%2Facme%2Fshop" in both


def test_a_project_that_holds_nothing_this_year_can_still_be_left(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2024, project=SHOP)
    assert "Nothing was recorded in 2024" in page
    assert '<option value="">All projects</option>' in page


@pytest.mark.parametrize("year", ["x", "-1", "0", "12345678901", "999999999"])
def test_what_is_no_year_is_refused_in_words(visitor: Visitor, year: str) -> None:
    assert visitor.get(f"calendar?year={year}").status == 400


def test_a_hostile_name_stays_a_name(visitor: Visitor) -> None:
    page = visitor.page("calendar", year=2024)
    assert "<script>alert" not in page
    assert rows(page, "agent") == [(ODD, "2", "1")]
    assert held(visitor.page("calendar", year=2024, agent=ODD)) == ["Mon 30 Dec 2024: 2 events in 1 session"]


def test_the_page_is_light(visitor: Visitor) -> None:
    assert len(visitor.page("calendar", year=2026)) < 60_000
