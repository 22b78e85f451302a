"""What counts as due beside a request, and the line that tells it."""

import pytest

from memory_mcp.importers.jsonl import draft_of
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.tree.toc.briefing import render_briefing
from memory_mcp.tree.toc.refining import RECENT_DAYS, count_requested, mark_requests, read_requests
from memory_mcp.tree.toc.statements import QuotedStatement, StretchView
from tests.factories import BILLING, CALENDAR, SHOP, ms
from tests.sessions import DAYS, sessions, stretch
from tests.toc.helpers import memory

GAP_MS = 30 * 60_000
DAY_MS = 86_400_000


def test_a_request_counts_the_projects_stretches_of_the_week_before_it_and_none_after() -> None:
    app = memory([draft_of(e) for e in [*sessions(), *stretch("ibex", f"{DAYS[0]} 18:00", "b", BILLING)]])
    ends = [(f"{DAYS[0]} 12:30", 2), (f"{DAYS[1]} 18:00", 6), (f"{DAYS[0]} 08:00", 0)]
    for at, count in ends:
        assert count_requested(app.storage, SHOP, ms(at), GAP_MS, CALENDAR) == count, at
    assert count_requested(app.storage, BILLING, ms(f"{DAYS[1]} 18:00"), GAP_MS, CALENDAR) == 1
    for days, count in ((RECENT_DAYS - 1, 6), (RECENT_DAYS, 3), (RECENT_DAYS + 1, 0)):
        assert count_requested(app.storage, SHOP, ms(f"{DAYS[1]} 08:00") + days * DAY_MS, GAP_MS, CALENDAR) == count, days
    app.close()


def test_the_last_request_of_each_project_is_kept() -> None:
    app = memory([])
    mark_requests(app.storage, {SHOP: 5, BILLING: 6})
    mark_requests(app.storage, {SHOP: 7})
    assert read_requests(app.storage) == {SHOP: 7, BILLING: 6}
    app.close()


@pytest.mark.parametrize(("count", "line"), [(0, ""), (1, "1 stretch is"), (3, "3 stretches are"), (1200, "1,200 stretches are")])
def test_the_briefing_has_one_line_of_it_within_its_budget(count: int, line: str) -> None:
    told = [
        StretchView(i, f"Title {i}", (QuotedStatement("We decided so.", "user", "grip:1:0000000000000000"),)) for i in range(30)
    ]
    text = render_briefing(told, [], CALENDAR, 200, unsummarised=count)
    found = [one for one in text.splitlines() if "unsummarised" in one]
    assert found == ([f"{line} unsummarised: /memory:refine"] if line else [])
    assert estimate_tokens(text) <= 200
