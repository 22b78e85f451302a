"""Every page in a real browser: light, dark, as narrow as a phone, without scripts, by keys alone, in every script of writing."""

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from bench.place import Place
from memory_mcp.web.registry import PAGES
from tests.waiting import until
from tests.web.conftest import Tabs, Visit, address
from tests.web.everywhere import walk
from tests.web.visitor import entered

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Served as files or by a form alone.
NO_PAGE = {"export", "forget/{id}"}


@pytest.fixture(scope="module")
def pages(served: Place) -> dict[str, str]:
    """A page of each kind, by its line in the registry; the tree's are a day, which has statements and stretches."""
    found: dict[str, str] = {}
    for one in walk(entered(address(served)), 4):
        if one.kind and not one.is_part and one.reply.status == 200 and one.kind not in NO_PAGE:
            found.setdefault(one.kind, one.address)
    found["tree/{node_id:path}"] = "tree/toc:day:2026-02-03"
    if "search" in PAGES:
        found["search"] = "search?q=why+do+refunds+post+twice"
    assert set(found) == set(PAGES) - NO_PAGE
    return found


def unfold(page: "Page", most: int = 4) -> None:
    """Open what unfolds, and wait until it is there."""
    for _ in range(2):
        page.evaluate(
            "most => { for (const d of [...document.querySelectorAll('main details')].slice(0, most)) d.open = true; }", most
        )
        until(lambda: page.evaluate("document.querySelectorAll('[aria-busy]').length") == 0, "parts of the page")


def faults(page: "Page", rules: list[str] | None = None) -> list[str]:
    """What axe-core finds of serious or critical impact, or of the rules named."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # Selectors of the nodes are told to nobody, and looking for short ones takes long.
    options: dict[str, Any] = {"resultTypes": ["violations"], "selectors": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    told = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for one in told["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def test_no_page_weighs_much_has_a_serious_fault_in_light_or_dark_or_scrolls_sideways_on_a_phone(
    desk: Visit, pages: dict[str, str]
) -> None:
    wrong: list[str] = []
    for kind, path in pages.items():
        page = desk.go(path)
        # Nothing comes from a cache: a profile of its own for each page would say the same.
        weight = page.evaluate(
            "performance.getEntries().filter(e => 'encodedBodySize' in e).reduce((sum, e) => sum + e.decodedBodySize, 0)"
        )
        assert 2_000 < weight < 300_000, (kind, weight)
        unfold(page)
        wrong += [f"{kind}, light: {fault}" for fault in faults(page)]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground, kind
        wrong += [f"{kind}, dark: {fault}" for fault in faults(page, ["color-contrast", "link-in-text-block"])]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 740})
        wide = page.evaluate(
            """() => document.scrollingElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
                .filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
        )
        wrong += [f"{kind}, 360 pixels: {element}" for element in wide]
        page.set_viewport_size({"width": 1280, "height": 800})
        assert [page.locator("h1").count(), page.locator("main").count()] == [1, 1], kind
    assert wrong == []


def test_every_page_says_the_same_without_scripts(tabs: Tabs, pages: dict[str, str]) -> None:
    plain = tabs.open(java_script_enabled=False)
    plain.may_fail = () if "search" in PAGES else ("/search",)
    for kind, path in pages.items():
        page = plain.go(path)
        assert page.locator("h1").inner_text().strip(), kind
        assert len(page.locator("main").inner_text()) > 20, kind
    # What unfolds leads to its page.
    page = plain.go("tree")
    page.locator("main summary").first.click()
    page.locator("main details[open] [data-place] a").first.click()
    assert "/tree/toc:year" in page.url
    # So does a search, whose form narrows it and whose links explain it.
    page.locator("#find").fill("refund")
    with page.expect_navigation():
        page.locator("#find").press("Enter")
    assert "/search?q=refund" in page.url
    assert page.locator("#results .card").count() > 0
    page.get_by_label("Said by").select_option("assistant")
    with page.expect_navigation():
        page.get_by_role("button", name="Search", exact=True).click()
    assert "role=assistant" in page.url
    page.get_by_text("How it was searched").click()
    with page.expect_navigation():
        page.get_by_role("link", name="Show it").click()
    assert page.locator("svg.picture").count() == 2
    # An act is a form: a page of its own says what became of it.
    page = plain.go(pages["grip/{grip_id:path}"])
    page.get_by_text("Retract it", exact=False).first.click()
    page.get_by_label("Why it holds no more", exact=False).fill("Not so any more.")
    page.get_by_role("button", name="Retract it").click()
    page.wait_for_load_state()
    assert page.locator(".note").count() == 1
    assert "Holds no more" in page.inner_text("main")


def test_keys_alone_lead_everywhere(desk: Visit) -> None:
    page = desk.go("today")
    keys = page.keyboard
    for key, name in (("t", "tree"), ("c", "calendar"), ("o", "topics"), ("s", "status"), ("d", "today")):
        with page.expect_navigation():
            keys.press("g")
            keys.press(key)
        assert page.url.partition("?")[0] == f"{desk.base}/{name}"
    keys.press("?")
    assert page.locator("dialog#keys").is_visible()
    keys.press("g")
    keys.press("Escape")
    assert page.locator("dialog#keys").is_hidden()
    keys.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    keys.type("g t")
    assert page.evaluate("document.activeElement.value") == "g t"
    keys.press("Escape")
    assert page.evaluate("document.activeElement.id") != "find"
    # Down the tree, level by level, and up again.
    desk.go("tree")
    keys.press("ArrowDown")
    keys.press("ArrowRight")
    until(lambda: page.locator("main details[open] [data-item]").count() > 0, "what unfolds")
    keys.press("ArrowLeft")
    assert page.locator("main details[open]").count() == 0
    for level in ("year", "month"):
        down_to_a_branch(page)
        keys.press("Tab")
        with page.expect_navigation():
            keys.press("Enter")
        assert f"/tree/toc:{level}:" in page.url
    with page.expect_navigation():
        keys.press("u")
    assert "/tree/toc:year:" in page.url
    assert page.evaluate("document.querySelector('.skip').getAttribute('href')") == "#main"


def down_to_a_branch(page: "Page") -> None:
    """From item to item, until one unfolds to a lower level; its page is the next stop of the tabulator."""
    for _ in range(100):
        page.keyboard.press("j")
        if page.evaluate("document.activeElement.matches('.branch summary')"):
            return
    raise AssertionError("no item leads down")


def test_the_focus_is_seen_and_no_key_is_caught(desk: Visit, pages: dict[str, str]) -> None:
    for kind in ("today", "calendar", "grip/{grip_id:path}"):
        page = desk.go(pages[kind])
        seen: list[str] = []
        for _ in range(12):
            page.keyboard.press("Tab")
            told = page.evaluate(
                """() => { const e = document.activeElement; const s = getComputedStyle(e);
                    return [e.tagName + (e.textContent || e.id).trim().slice(0, 30),
                            s.outlineStyle !== 'none' || e.closest('svg') !== null]; }"""
            )
            assert told[1], (kind, told[0])
            seen.append(told[0])
        assert len(set(seen)) > 5, kind


def test_text_from_right_to_left_stays_in_its_place_and_times_are_shown_with_the_readers_own_where_it_differs(
    tabs: Tabs,
) -> None:
    page = tabs.open(timezone_id="Asia/Tokyo").go("session/writing")
    moment = page.locator("main time").first
    assert moment.get_attribute("datetime")
    until(lambda: moment.get_attribute("title"), "the reader's own time")
    assert moment.get_attribute("title") != moment.inner_text()
    unfold(page)
    for text, direction in (("העגלה", "rtl"), ("السلة", "rtl"), ("決済の再試行", "ltr"), ("결제", "ltr")):
        found = page.locator(f"main .turn .text:has-text('{text}')").first
        assert found.evaluate("e => e.matches(':dir(rtl)') ? 'rtl' : 'ltr'") == direction, text
        assert found.evaluate("e => getComputedStyle(e).textAlign") == "start"
    assert page.evaluate("getComputedStyle(document.querySelector('.top')).direction") == "ltr"
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_the_year_is_one_tab_stop_and_arrows_go_to_days_that_hold_something(desk: Visit) -> None:
    page = desk.go("calendar?year=2026")
    assert page.locator('svg.year a[data-day][tabindex="0"]').count() == 1
    last = page.locator("svg.year a[data-day]").last
    last.focus()
    seen = []
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp", "End"):
        page.keyboard.press(key)
        seen.append(str(page.evaluate("document.activeElement.dataset.day")))
    days = [str(day) for day in page.locator("svg.year a[data-day]").evaluate_all("all => all.map(one => one.dataset.day)")]
    assert (seen[0], seen[1], seen[3], seen[5]) == (days[0], days[1], days[1], days[-1])
    assert seen[2] > seen[1]
    assert page.locator('svg.year a[data-day][tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/tree/toc:day:*")


def at(page: "Page") -> str:
    """The address, as the page itself has it now."""
    return str(page.evaluate("location.href"))


def test_results_come_while_somebody_types_and_keys_lead_to_them(desk: Visit) -> None:
    page = desk.go("search")
    requested: list[str] = []
    page.on("request", lambda one: requested.append(one.url) if "/search" in one.url and "static" not in one.url else None)
    until(lambda: page.evaluate("document.activeElement.id") == "find", "the field")
    page.keyboard.type("ledger")
    until(lambda: "ledger" in at(page) and page.locator("#results .card mark").count() > 0, "results")
    assert len(requested) < len("ledger")
    assert page.evaluate("document.activeElement.id") == "find"
    assert "result" in page.locator("#told").inner_text()
    assert at(page).endswith("/search?q=ledger")
    page.locator("select[name=role]").select_option("user")
    until(lambda: at(page).endswith("/search?q=ledger&role=user"), "the filter in the address")
    until(lambda: page.locator("#results[aria-busy]").count() == 0, "results of the filter")
    page.keyboard.press("/")
    page.locator("#find").focus()
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.href")
    assert "/grip/" in first
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.press("ArrowDown")
    # The address of the search, written anew with its results, is a navigation too.
    with page.expect_navigation(url=first):
        page.keyboard.press("Enter")
    assert at(page) == first
    page.go_back()
    assert at(page).endswith("/search?q=ledger&role=user")


def test_an_answer_that_is_outdated_is_not_shown(desk: Visit) -> None:
    page = desk.go("search?q=refunds")
    held: list[Any] = []
    page.route("**/search?q=ledger", lambda route: held.append(route))  # noqa: PLW0108 - playwright marks what it is given
    page.locator("#find").fill("ledger")
    until(lambda: page.evaluate("1") and held, "the first request")
    page.locator("#find").fill("checkout")
    until(lambda: at(page).endswith("?q=checkout"), "the second answer")
    before = page.locator("#results").inner_html()
    held[0].abort()
    page.locator("#find").fill("checkout ")
    assert page.locator("#results").inner_html() == before
    assert "checkout" in before
    page.unroute("**/search?q=ledger")


def test_searches_have_no_serious_fault_unfolded_refused_or_on_a_phone_where_a_year_scrolls_in_its_own_box(
    desk: Visit, phone: Visit
) -> None:
    for visit in (desk, phone):
        visit.may_fail = ("since=gibberish",)
        for query in ("", "?q=ledger+refunds&why_not=toc:year:2026", "?q=qwxzv", "?q=ledger&since=gibberish"):
            page = visit.go(f"search{query}")
            # Each of twenty is another answer of the server, of the same form on both.
            unfold(page, 20 if visit is desk else 6)
            assert faults(page) == [], query
            assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"), query
    page = phone.go("calendar?year=2026")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.getElementById('year').scrollWidth") > 700


def test_what_is_recorded_appears_by_itself_and_what_was_folded_stays_so(desk: Visit, served: Place) -> None:
    page = desk.go("today")
    until(lambda: "on" in (page.locator("#live").get_attribute("class") or ""), "the stream")
    first = page.locator("details.project").first
    name = str(first.get_attribute("data-keep"))
    first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert first.get_attribute("open") is None
    line = {"session_id": "new", "role": "user", "text": "Rename the login handler.", "project": "/new"}
    line |= {"timestamp": (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)).isoformat()}
    served.ok("ingest", "-", stdin=json.dumps(line))
    page.locator("details.project[data-keep='/new']").wait_for()
    kept = page.locator(f"details.project[data-keep='{name}']")
    assert kept.get_attribute("open") is None
    assert page.evaluate("document.activeElement.closest('details')?.dataset.keep") == name
