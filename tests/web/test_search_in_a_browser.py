"""Search in a real browser: results come while typing, keys lead into them, and without scripts the form does the same."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.waiting import until
from tests.web.conftest import Tabs, Visit
from tests.web.test_pages import faults, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Page


def asked(address: str) -> dict[str, list[str]]:
    """What an address asks for."""
    return parse_qs(urlsplit(address).query)


def answered(page: "Page", **wanted: str) -> None:
    """Wait until the page's address asks for this and its results are shown."""
    until(lambda: asked(page.evaluate("location.href")) == {name: [value] for name, value in wanted.items()}, "the address")
    until(lambda: page.locator("#results[aria-busy]").count() == 0 and "result" in page.inner_text("#told"), "the results")


def test_results_come_while_typing_and_keys_lead_into_them(tab: Visit) -> None:
    page = tab.go("search")
    page.evaluate("window.same = true")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.type("ledger refunds")
    answered(page, q="ledger refunds")
    assert page.locator("#results .card mark").first.inner_text().lower().startswith(("ledger", "refund"))
    assert page.evaluate("document.activeElement.id") == "find"
    # A filter counts once it was chosen, and stays in the address.
    page.get_by_label("Said by").select_option("user")
    answered(page, q="ledger refunds", role="user")
    assert {bdi.inner_text() for bdi in page.locator("#results .card header > bdi").all()} == {"user"}
    assert page.evaluate("window.same") is True
    # The address alone shows the same.
    shown = page.locator("#results .card h3 a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    page.reload()
    assert page.locator("#results .card h3 a").evaluate_all("all => all.map(a => a.getAttribute('href'))") == shown
    page.locator("#find").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('href')") == shown[0]
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.press("ArrowDown")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert urlsplit(page.url).path == shown[0]
    assert page.locator("h1").inner_text() == "The exact words"


def test_the_form_does_the_same_without_scripts(tabs: Tabs) -> None:
    page = tabs.open(java_script_enabled=False).go("search")
    page.locator("#find").fill("ledger refunds")
    page.get_by_label("Said by").select_option("user")
    with page.expect_navigation():
        page.get_by_role("button", name="Search", exact=True).click()
    assert (asked(page.url)["q"], asked(page.url)["role"]) == (["ledger refunds"], ["user"])
    assert page.locator("#find").input_value() == "ledger refunds"
    assert page.get_by_label("Said by").input_value() == "user"
    cards = page.locator("#results .card").count()
    assert cards > 0
    page.get_by_text("How it was searched").click()
    with page.expect_navigation():
        page.get_by_role("link", name="Show it", exact=True).click()
    assert page.locator("h1").inner_text() == "How it was searched"
    with page.expect_navigation():
        page.get_by_role("link", name="The results").click()
    assert page.locator("#results .card").count() == cards


def test_with_everything_unfolded_nothing_is_at_fault_or_wider_than_a_phone(phone: Visit) -> None:
    page = phone.go("search?q=why+do+refunds+post+twice&role=user&why_not=grip:1700000000000:0000000000000000")
    assert page.locator("#results .card").count() > 0
    unfold(page, 40)
    assert page.locator("#results svg").count() > 2
    assert faults(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="dark")
    assert faults(page, ["color-contrast", "link-in-text-block"]) == []
