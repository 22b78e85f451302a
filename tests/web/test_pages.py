"""Every page in a real browser: light, dark, as narrow as a phone, without scripts, by keys alone, in every script of writing."""

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
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    told = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for one in told["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def test_no_page_has_a_serious_fault_in_light_or_dark_or_scrolls_sideways_on_a_phone(tab: Visit, pages: dict[str, str]) -> None:
    wrong: list[str] = []
    for kind, path in pages.items():
        page = tab.go(path)
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
    page.locator("#find").fill("refund")
    with page.expect_navigation():
        page.locator("#find").press("Enter")
    assert "/search?q=refund" in page.url
    # An act is a form: a page of its own says what became of it.
    page = plain.go(pages["grip/{grip_id:path}"])
    page.get_by_text("Retract it", exact=False).first.click()
    page.get_by_label("Why it holds no more", exact=False).fill("Not so any more.")
    page.get_by_role("button", name="Retract it").click()
    page.wait_for_load_state()
    assert page.locator(".note").count() == 1
    assert "Holds no more" in page.inner_text("main")


def test_keys_alone_lead_everywhere(tab: Visit) -> None:
    page = tab.go("today")
    keys = page.keyboard
    for key, name in (("t", "tree"), ("c", "calendar"), ("o", "topics"), ("s", "status"), ("d", "today")):
        with page.expect_navigation():
            keys.press("g")
            keys.press(key)
        assert page.url.partition("?")[0] == f"{tab.base}/{name}"
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
    tab.go("tree")
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


def test_the_focus_is_seen_and_no_key_is_caught(tab: Visit, pages: dict[str, str]) -> None:
    for kind in ("today", "calendar", "grip/{grip_id:path}"):
        page = tab.go(pages[kind])
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


def test_text_from_right_to_left_stays_in_its_place_and_no_script_of_writing_is_lost(tab: Visit) -> None:
    page = tab.go("session/writing")
    unfold(page)
    for text, direction in (("העגלה", "rtl"), ("السلة", "rtl"), ("決済の再試行", "ltr"), ("결제", "ltr")):
        found = page.locator(f"main .turn .text:has-text('{text}')").first
        assert found.evaluate("e => e.matches(':dir(rtl)') ? 'rtl' : 'ltr'") == direction, text
        assert found.evaluate("e => getComputedStyle(e).textAlign") == "start"
    assert page.evaluate("getComputedStyle(document.querySelector('.top')).direction") == "ltr"
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_an_open_page_shows_what_is_recorded_meanwhile(tab: Visit, served: Place) -> None:
    page = tab.go("today")
    until(lambda: "on" in (page.locator("#live").get_attribute("class") or ""), "the stream")
    assert page.locator("[data-live]").count() > 0
    import datetime as dt
    import json

    line = {"session_id": "now", "role": "user", "project": "github.com/acme/lighthouse", "agent": "codex"}
    line |= {"timestamp": dt.datetime.now(dt.UTC).isoformat(), "text": "Please paint the lighthouse white."}
    served.ok("ingest", "-", stdin=json.dumps(line) + "\n")
    until(lambda: "lighthouse" in page.inner_text("main"), "the new event on the open page")


def test_times_are_shown_with_the_readers_own_where_it_differs(tabs: Tabs) -> None:
    far = tabs.open(timezone_id="Asia/Tokyo")
    page = far.go("session/writing")
    moment = page.locator("main time").first
    assert moment.get_attribute("datetime")
    until(lambda: moment.get_attribute("title"), "the reader's own time")
    assert moment.get_attribute("title") != moment.inner_text()


def test_a_page_weighs_little_with_everything(tab: Visit, pages: dict[str, str]) -> None:
    """Nothing comes from a cache: a profile of its own for each page would say the same."""
    for kind, path in pages.items():
        tab.go(path)
        weight = tab.page.evaluate(
            "performance.getEntries().filter(e => 'encodedBodySize' in e).reduce((sum, e) => sum + e.decodedBodySize, 0)"
        )
        assert 2_000 < weight < 300_000, (kind, weight)
