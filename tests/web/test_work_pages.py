"""A file and an error: what is known of them, their calls with their sessions, and the ways there."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import SHOP
from tests.requests.test_friction import LINT, told_in_sessions
from tests.web.acting import visited
from tests.web.visitor import Visitor, plain
from tests.work_cases import ERROR, call, failing_in_sessions


@pytest.fixture
def visitor(tmp_path: Path) -> Iterator[Visitor]:
    odd = call(9, "2026-01-15 10:00", "Edit", "ok", session="odd", files='/home/ada/shop/<script>alert(1)</script>"x.ts')
    with visited(tmp_path / "data", *failing_in_sessions(3), *told_in_sessions(LINT), *odd) as (_, visitor):
        yield visitor


def ways(visitor: Visitor, page: str, kind: str) -> list[str]:
    return [html.unescape(way) for way in re.findall(rf'href="{visitor.base}/({kind}[?/][^"]+)"', page)]


def test_what_comes_again_is_on_todays_page_and_leads_to_the_errors_own(visitor: Visitor) -> None:
    page = visitor.page("today")
    section = plain(page.split('id="again"', 1)[1])
    assert ERROR.splitlines()[0] in section
    assert "3 sessions, last" in section
    assert "Ended by: Edit src/cart.ts: total: number;" in section
    assert "3 of 3 sessions" in section
    assert "Works: `npm run build --offline`" in section
    assert "memory-mcp rules" in section
    [way] = ways(visitor, page, "error")
    error = plain(visitor.page(way))
    assert "It came to an end before." in error
    assert "seen 3 times in 3 sessions" in error
    assert "3 calls in 3 sessions, the newest first" in error
    assert "session f14" in error


def test_a_citation_of_a_change_leads_to_its_file_and_of_a_failure_to_its_error(visitor: Visitor) -> None:
    error = visitor.page(ways(visitor, visitor.page("today"), "error")[0])
    [ended] = [way for way in ways(visitor, error, "grip") if "File" in plain(visitor.page(way))][:1]
    [file] = ways(visitor, visitor.page(ended), "file")
    page = visitor.page(file)
    assert "src/cart.ts" in plain(page)
    assert "3 calls in 3 sessions" in plain(page)
    assert {way.split("?")[0] for way in ways(visitor, page, "session")} == {f"session/f{day}" for day in (12, 13, 14)}
    failed = [way for way in ways(visitor, error, "grip") if ways(visitor, visitor.page(way), "error")]
    assert failed


def test_calls_are_counted_beyond_those_that_are_shown(tmp_path: Path) -> None:
    edits = [
        each
        for number in range(61)
        for each in call(number, f"2026-01-15 10:{number % 60:02}", "Edit", "ok", files="/home/ada/shop/x.ts")
    ]
    with visited(tmp_path / "data", *edits) as (_, visitor):
        assert "61 calls in 1 session, the newest 50 first" in plain(visitor.page("file", path="x.ts"))


def test_names_of_files_are_words_and_an_address_without_one_is_refused(visitor: Visitor) -> None:
    page = visitor.page("file", path='<script>alert(1)</script>"x.ts', project=SHOP)
    assert "<script>alert" not in page
    assert "Edit" in plain(page)
    for address in ("file", "error"):
        assert visitor.get(address).status == 400
    assert visitor.get("error?grip=grip:1:0123456789abcdef").status == 404
    assert "Nothing in this memory is about it." in plain(visitor.page("file", path="no/such.file"))
