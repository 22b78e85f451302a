"""What a person does on the pages, in a real browser: each act by its form, its note, and what the memory says afterwards."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.place import Place
from tests.waiting import until
from tests.web.conftest import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page


def note(page: "Page") -> str:
    """What the page says about the act that led to it."""
    return page.locator(".note").first.inner_text()


def audit(place: Place) -> str:
    return place.ok("admin", "audit", "--json")


@pytest.fixture
def quotation(tab: Visit) -> "Page":
    """The page of a decision's exact words."""
    page = tab.go("tree/toc:day:2026-02-03")
    page.locator("main details.words > summary").first.click()
    page.locator("main details.words [data-place] a[href*='/grip/']").first.click()
    page.wait_for_url("**/grip/**")
    return page


def send(page: "Page", name: str) -> None:
    with page.expect_navigation():
        page.get_by_role("button", name=name, exact=True).first.click()


def test_a_quotation_is_pinned_corrected_and_shown_as_superseded(quotation: "Page", served: Place) -> None:
    page = quotation
    send(page, "Pin")
    assert "inned" in note(page)
    page.get_by_text("Correct it", exact=False).first.click()
    page.get_by_label("What holds instead").fill("The total is summed as integer cents: <b>never</b> floats.")
    page.get_by_label("Why (may be left out)").fill("measured again")
    send(page, "Correct it")
    assert page.locator(".note").count() == 1
    assert "<b>never</b> floats" in page.inner_text("main")
    with page.expect_navigation():
        page.go_back()
    page.reload()
    assert "Holds no more" in page.inner_text("main")
    assert "measured again" in page.inner_text("main")
    done = audit(served)
    assert '"correct' in done
    assert "pin" in done


def test_a_form_that_is_refused_keeps_what_was_typed(quotation: "Page") -> None:
    page = quotation
    page.get_by_text("Correct it", exact=False).first.click()
    page.get_by_label("What holds instead").fill("x" * 40_000)
    page.get_by_label("Why (may be left out)").fill("a reason that was typed")
    send(page, "Correct it")
    if page.locator("[role=alert]").count():
        assert page.get_by_label("Why (may be left out)").first.input_value() == "a reason that was typed"


def test_forgetting_is_shown_first_and_can_be_undone_and_then_is_done(tab: Visit, served: Place) -> None:
    from tests.daemon.places import said

    text = "The courier is called Bartholomew Nightingale."
    served.ok("ingest", "-", stdin=said("github.com/acme/couriers", text, 9))
    page = tab.go("forget")
    page.get_by_label("A name, a number or any text", exact=False).fill("Bartholomew Nightingale")
    send(page, "Show what would go")
    assert "Nothing was changed yet" in page.inner_text("main")
    assert "Nightingale" not in page.url + page.inner_text("main")
    send(page, "Forget for good")
    left = int(page.locator("[data-countdown]").inner_text())
    assert 0 < left <= 10
    until(lambda: int(page.locator("[data-countdown]").inner_text()) < left, "the seconds to pass on the page")
    send(page, "Undo")
    assert "nothing was forgotten" in page.inner_text("main").lower()
    assert found(served, "Nightingale")
    page = tab.go("forget")
    page.get_by_label("A name, a number or any text", exact=False).fill("Bartholomew Nightingale")
    send(page, "Show what would go")
    send(page, "Forget for good")
    until(lambda: "Forgotten" in page.inner_text("main"), "the seconds to pass and it to be forgotten")
    assert not found(served, "Nightingale")


def found(place: Place, word: str) -> bool:
    """Whether the project's events hold a word; one of which nothing is left is unknown."""
    return word in place.run("query", "events", "--json", "--project", "github.com/acme/couriers").stdout


def test_what_is_shown_is_saved_as_a_file(tab: Visit, tmp_path: Path) -> None:
    page = tab.go("tree/toc:day:2026-02-03")
    for name in ("Markdown", "JSON"):
        with page.expect_download() as saved:
            page.get_by_role("link", name=name, exact=True).first.click()
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        text = path.read_text(encoding="utf-8")
        assert "2026-02-03" in text or "03 Feb 2026" in text, text[:300]
        if name == "JSON":
            json.loads(text)


def test_a_job_is_paused_resumed_and_run_from_the_status_page(tab: Visit, served: Place) -> None:
    page = tab.go("status")
    for words in ("Pause", "Resume", "Run now"):
        button = page.locator(f"main form[action*='-job'] button:has-text('{words}')").first
        with page.expect_navigation():
            button.click()
        assert page.locator(".note").count() == 1, words
