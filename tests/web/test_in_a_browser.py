"""The pages in a real browser: light, dark, as narrow as a phone, without scripts, by keys alone, in every script of writing.

And each act by its form, its note, and what the memory says afterwards; what other pages, browsers and servers get: nothing.
"""

import datetime as dt
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe

from bench.place import Place
from memory_mcp.web.registry import ACTS, FIRST, PAGES
from memory_mcp.web.visits import COOKIE
from tests.daemon.places import said
from tests.factories import SHOP, SITE
from tests.waiting import until
from tests.web.conftest import Tabs, Visit, address
from tests.web.everywhere import walk
from tests.web.foreign import Foreign, elsewhere
from tests.web.visitor import entered

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

#: Served as files or by a form alone.
NO_PAGE = {"export", "forget/{id}"}


@pytest.fixture(scope="module")
def pages(served: Place) -> dict[str, str]:
    """A page of each kind, by its line in the registry; the tree's are a day, which has statements and stretches."""
    found: dict[str, str] = {}
    for one in walk(entered(address(served)), 1):
        if set(found) >= set(PAGES) - NO_PAGE:
            break
        if one.kind and not one.is_part and one.reply.status == 200 and one.kind not in NO_PAGE:
            found.setdefault(one.kind, one.address)
    found["tree/{node_id:path}"] = "tree/toc:day:2026-02-03"
    # Citations of changes lead there, of which the walk may see none.
    found["file"] = "file?path=src/cart.ts"
    if "search" in PAGES:
        found["search"] = "search?q=ledger+refunds&why_not=toc:year:2026"
    assert set(found) == set(PAGES) - NO_PAGE
    return found


def unfold(page: "Page", most: int = 4) -> None:
    """Open what unfolds, and wait until it is there."""
    for _ in range(2):
        page.evaluate(
            "most => { for (const d of [...document.querySelectorAll('main details')].slice(0, most)) d.open = true; }", most
        )
        until(lambda: page.evaluate("document.querySelectorAll('[aria-busy]').length") == 0, "parts of the page")


#: Rules that look at colours, which takes as long as all others.
COLOURS = ["color-contrast", "link-in-text-block"]


def faults(page: "Page", rules: list[str] | None = None, without: list[str] | None = None) -> list[str]:
    """What axe-core finds of serious or critical impact, or of the rules named, without some."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # Selectors of the nodes are told to nobody, and looking for short ones takes long.
    options: dict[str, Any] = {"resultTypes": ["violations"], "selectors": False, "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    # Rules of less impact are not tried at all.
    script = """([options, without]) => { for (const rule of options.runOnly ? [] : axe._audit.rules)
        if (['minor', 'moderate'].includes(rule.impact) || without.includes(rule.id))
            (options.rules ??= {})[rule.id] = {enabled: false};
        return axe.run(document, options); }"""
    return [
        f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for one in page.evaluate(script, [options, without or []])["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def test_no_page_weighs_much_has_a_serious_fault_in_light_or_dark_scrolls_sideways_on_a_phone_hides_the_focus_or_catches_a_key(
    desk: Visit, pages: dict[str, str], request: pytest.FixtureRequest
) -> None:
    wrong: list[str] = []
    is_long = request.config.getoption("--slow")
    for number, (kind, path) in enumerate(pages.items()):
        page = desk.go(path)
        # Nothing comes from a cache: a profile of its own for each page would say the same.
        weight = page.evaluate(
            "performance.getEntries().filter(e => 'encodedBodySize' in e).reduce((sum, e) => sum + e.decodedBodySize, 0)"
        )
        assert 2_000 < weight < 300_000, (kind, weight)
        unfold(page)
        # Colours are of the one style sheet of all pages: the short form looks at them on each second one, in light or in dark.
        without = [] if is_long or number % 4 == 0 else COLOURS
        wrong += [f"{kind}, light: {fault}" for fault in faults(page, None, without)]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground, kind
        wrong += [f"{kind}, dark: {fault}" for fault in (faults(page, COLOURS) if is_long or number % 4 == 2 else ())]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 740})
        wide = page.evaluate(
            """() => document.scrollingElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]
                .filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
        )
        wrong += [f"{kind}, 360 pixels: {element}" for element in wide]
        if kind == "calendar":
            assert page.evaluate("document.getElementById('year').scrollWidth") > 700, "a year scrolls in its own box"
        page.set_viewport_size({"width": 1280, "height": 800})
        assert [page.locator("h1").count(), page.locator("main").count()] == [1, 1], kind
        if kind in ("today", "calendar", "grip/{grip_id:path}"):
            go_through(page)
    assert wrong == []


def test_every_page_says_the_same_without_scripts(tabs: Tabs, pages: dict[str, str], request: pytest.FixtureRequest) -> None:
    plain = tabs.open(java_script_enabled=False)
    # Each kind is read without a browser elsewhere: the short form looks at those below, and at the first.
    for kind, path in list(pages.items())[: None if request.config.getoption("--slow") else 1]:
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
    page.get_by_text("Actions", exact=True).click()
    page.get_by_text("No longer true", exact=True).first.click()
    page.get_by_label("Why it is no longer true", exact=False).fill("Not so any more.")
    page.get_by_role("button", name="Mark as no longer true").click()
    page.wait_for_load_state()
    assert page.locator(".note").count() == 1
    assert "No longer true" in page.inner_text("main")


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


def go_through(page: "Page") -> None:
    """By the tabulator, which shows where it is and is caught nowhere."""
    seen: list[str] = []
    for _ in range(12):
        page.keyboard.press("Tab")
        told = page.evaluate(
            """() => { const e = document.activeElement; const s = getComputedStyle(e);
                return [e.tagName + (e.textContent || e.id).trim().slice(0, 30),
                        s.outlineStyle !== 'none' || e.closest('svg') !== null]; }"""
        )
        assert told[1], told[0]
        seen.append(told[0])
    assert len(set(seen)) > 5, page.url


def test_text_from_right_to_left_stays_in_its_place_and_times_are_shown_with_the_readers_own_where_it_differs(
    desk: Visit,
) -> None:
    """The memory's time is UTC, the reader's is Berlin's."""
    page = desk.go("session/writing")
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
    page = desk.go("today")
    page.keyboard.press("/")
    page.keyboard.type("ledger")
    page.locator("#quick a[data-open] mark").first.wait_for()
    page.keyboard.press("ArrowDown")
    assert "/grip/" in page.evaluate("document.activeElement.href")
    page.keyboard.press("Escape")
    assert not page.locator("#quick").is_visible()
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


@pytest.mark.slow  # in the short form: the page of a search among all pages above, with an explanation and as narrow as a phone.
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


# acts

DAY = "toc:day:2026-02-04"
#: Recorded under two names, and in two folders.
OLD, FOLDER, CHECKOUT = "github.com/acme/old-couriers", "/work/couriers", "github.com/acme/couriers"
HANDBOOK = "/work/HandBook"


@pytest.fixture(scope="module")
def couriers(served: Place) -> Place:
    """A project of two sessions in two folders, the name it had before, and a project with capitals in its name."""
    told = (
        (OLD, "old", "/work/before"),
        (CHECKOUT, "near", FOLDER),
        (CHECKOUT, "far", f"{FOLDER}-abroad"),
        (HANDBOOK, "book", HANDBOOK),
    )
    lines = [
        {
            "session_id": session,
            "timestamp": "2026-01-05T09:00:00Z",
            "role": "user",
            "text": f"The courier's parcels are counted by hand ({session}).",
            "project": project,
            "metadata": {"cwd": folder},
        }
        for project, session, folder in told
    ]
    served.ok("ingest", "-", stdin="".join(json.dumps(line) + "\n" for line in lines))
    return served


def note(page: "Page") -> str:
    """What the page says about the act that led to it."""
    return page.locator(".note").inner_text()


def card(page: "Page", project: str) -> "Locator":
    """A project on the page of projects."""
    return page.locator("main li.card").filter(has=page.locator("p.quiet > bdi", has_text=project))


def names(page: "Page") -> list[str]:
    """The projects on their page, by their whole names."""
    return page.locator("main li.card > p.quiet > bdi:first-child").all_inner_texts()


def press(page: "Page", button: "Locator") -> None:
    """Click what leads to another page."""
    with page.expect_navigation():
        button.click()


def send(page: "Page", name: str) -> None:
    press(page, page.get_by_role("button", name=name, exact=True).first)


def tab_to(page: "Page", wanted: "Locator") -> None:
    """Press Tab until an element has the focus."""
    for _ in range(200):
        if wanted.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"Tab does not lead to {wanted}")


def test_a_days_words_are_refined_from_its_page(desk: Visit, served: Place) -> None:
    page = desk.go(f"tree/{DAY}")
    press(page, page.get_by_role("link", name="Refine the words"))
    assert "/refine/" in page.url
    page.get_by_label("Title").fill("The day of <i>cents</i>")
    first = page.get_by_role("group", name="Statement 1", exact=True)
    first.get_by_label("Words (empty: leave it out)").fill("Totals are summed in whole cents, העגלה included.")
    first.get_by_label("Kind").select_option("decision")
    press(page, page.get_by_role("button", name="Use these words"))
    assert "The node has your words now." in note(page)
    assert page.url.partition("?")[0].endswith(f"/tree/{DAY}")
    assert page.locator("h1").inner_text().endswith("The day of <i>cents</i>")
    assert "Totals are summed in whole cents, העגלה included." in page.inner_text("main")
    # The form begins with the new words.
    press(page, page.get_by_role("link", name="Refine the words"))
    assert (
        page.get_by_label("Words (empty: leave it out)").first.input_value()
        == "Totals are summed in whole cents, העגלה included."
    )
    assert '"refine"' in served.ok("admin", "audit", "--json")


@pytest.mark.slow  # in the short form: test_acts.py for the act, and forms of other acts here.
def test_two_projects_are_shown_as_one_and_a_folder_is_split_off_until_it_is_taken_back(desk: Visit, couriers: Place) -> None:
    page = desk.go("projects")
    assert OLD in names(page)
    for name in (OLD, CHECKOUT):
        card(page, name).get_by_label("pick").check()
    press(page, page.get_by_role("button", name="Merge"))
    assert "is shown as" in note(page)
    assert OLD not in names(page)
    assert "Also recorded as" in card(page, CHECKOUT).inner_text()
    assert "you said so" in card(page, CHECKOUT).inner_text()
    press(page, card(page, CHECKOUT).get_by_role("button", name="Take it back"))
    assert "as it was recorded again" in note(page)
    assert OLD in names(page)
    assert "Also recorded as" not in card(page, CHECKOUT).inner_text()
    assert "2 sessions" in card(page, CHECKOUT).inner_text()
    form = card(page, CHECKOUT)
    form.get_by_text("Split off", exact=True).first.click()
    form.get_by_label("Sessions that began in this folder", exact=False).fill(FOLDER)
    form.get_by_label("Name of the new project", exact=False).fill("parcels-nearby")
    press(page, form.get_by_role("button", name="Split off"))
    assert "parcels-nearby is a project with 1 session now." in note(page)
    assert "1 session" in card(page, CHECKOUT).inner_text()
    new = card(page, "parcels-nearby")
    assert "split from" in new.inner_text()
    press(page, new.get_by_role("button", name="Take it back"))
    assert "parcels-nearby" not in names(page)
    assert "2 sessions" in card(page, CHECKOUT).inner_text()


@pytest.mark.slow  # in the short form: test_acts.py for the act, and forms of other acts here.
def test_a_topic_is_renamed_and_gets_its_own_name_back(desk: Visit) -> None:
    page = desk.go("topics")
    press(page, page.locator("main [data-item] a[data-open]").first)
    before = page.locator("h1").inner_text()
    for typed, shown in (("Cents & <b>rounding</b>", "Cents & <b>rounding</b>"), ("", before)):
        page.get_by_text("Rename…").click()
        page.get_by_label("Name of the topic").fill(typed)
        press(page, page.get_by_role("button", name="Rename"))
        assert page.locator(".note").count() == 1
        assert page.locator("h1").inner_text() == shown


@pytest.mark.slow  # in the short form: test_acts.py for the act, and keys that lead everywhere above.
def test_a_project_is_excluded_and_included_by_keys_alone(desk: Visit, served: Place) -> None:
    page = desk.go("projects")
    one = card(page, SITE)
    tab_to(page, one.get_by_text("Recording and forgetting", exact=True))
    page.keyboard.press("Enter")
    tab_to(page, one.get_by_role("button", name="Never record"))
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "is recorded from now on" in note(page)
    again = page.get_by_role("button", name=f"Record again: {SITE}")
    assert again.count() == 1
    assert SITE in (served.home / "config.toml").read_text(encoding="utf-8")
    # The act is not offered twice.
    assert card(page, SITE).locator("form[action$='/exclude']").count() == 0
    tab_to(page, again)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "is recorded again" in note(page)
    assert again.count() == 0
    assert card(page, SITE).locator("form[action$='/exclude']").count() == 1


def test_recording_of_a_project_and_of_all_is_paused_and_resumed(desk: Visit, couriers: Place) -> None:
    page = desk.go("projects")
    one = card(page, HANDBOOK)
    one.locator("summary").click()
    one.get_by_label("Pause", exact=False).select_option(label="for 8 hours")
    press(page, one.get_by_role("button", name="Pause", exact=True))
    assert "is recorded until" in note(page)
    assert "Recording is paused until" in card(page, HANDBOOK).inner_text()
    assert "Recording is paused" not in card(page, SHOP).inner_text()
    press(page, card(page, HANDBOOK).get_by_role("button", name="Resume"))
    assert note(page) == "HandBook is recorded again."
    assert "Recording is paused" not in page.inner_text("main")
    everything = page.locator("main > .acts").first
    everything.get_by_label("Pause everything for", exact=False).select_option(label="until I resume it")
    press(page, everything.get_by_role("button", name="Pause", exact=True))
    assert "Nothing of any project is recorded until you resume it." in note(page)
    assert "Recording is paused everywhere." in page.inner_text("main")
    press(page, everything.get_by_role("button", name="Resume"))
    assert note(page) == "Every project is recorded again."
    assert "Recording is paused" not in page.inner_text("main")
    assert everything.get_by_role("button", name="Pause", exact=True).count() == 1


def test_a_quotation_is_pinned_corrected_after_a_refusal_that_keeps_what_was_typed_and_shown_as_superseded(
    desk: Visit, served: Place
) -> None:
    page = desk.go("tree/toc:day:2026-02-03")
    page.locator("main .bullets a.sentence").first.click()
    page.wait_for_url("**/grip/**")
    grip = page.url.removeprefix(f"{desk.base}/")
    page.get_by_text("Actions", exact=True).click()
    send(page, "Pin")
    assert "inned" in note(page)
    desk.may_fail = ("/do/correct",)
    for text in (" ", "The total is summed as integer cents: <b>never</b> floats."):
        page.get_by_text("Actions", exact=True).click()
        page.get_by_text("Correct…", exact=True).first.click()
        page.get_by_label("What is true instead").fill(text)
        page.get_by_label("Why (may be left out)").fill("measured again")
        send(page, "Correct")
        if text == " ":
            assert page.locator("[role=alert]").count() == 1
            assert page.get_by_label("Why (may be left out)").first.input_value() == "measured again"
            page.go_back()
    assert page.locator(".note").count() == 1
    assert "<b>never</b> floats" in page.inner_text("main")
    desk.go(grip)
    assert "No longer true" in page.inner_text("main")
    assert "measured again" in page.inner_text("main")
    done = served.ok("admin", "audit", "--json")
    assert '"correct' in done
    assert "pin" in done


def test_forgetting_is_shown_first_and_can_be_undone_and_then_is_done(
    desk: Visit, served: Place, request: pytest.FixtureRequest
) -> None:
    text = "The courier is called Bartholomew Nightingale."
    served.ok("ingest", "-", stdin=said("github.com/acme/messengers", text, 9))
    page = desk.page
    # In the short form it is undone over HTTP alone: test_undo.py.
    for is_undone in (True, False) if request.config.getoption("--slow") else (False,):
        desk.go("forget")
        page.get_by_text("A text wherever it occurs", exact=False).click()
        page.get_by_label("A name, a number or any text", exact=False).fill("Bartholomew Nightingale")
        send(page, "Show what would go")
        assert "Nothing was changed yet" in page.inner_text("main")
        assert found(served, "Nightingale")
        assert "Nightingale" not in page.url + page.inner_text("main")
        send(page, "Forget for good")
        left = int(page.locator("[data-countdown]").inner_text())
        assert 0 < left <= 10
        page.locator("[data-countdown]").filter(has_not_text=str(left)).wait_for()
        assert int(page.locator("[data-countdown]").inner_text()) < left
        if is_undone:
            send(page, "Undo")
            assert "nothing was forgotten" in page.inner_text("main").lower()
            assert found(served, "Nightingale")
    page.locator("[data-stage=done]").wait_for()
    assert "Forgotten" in page.inner_text("main")
    assert not found(served, "Nightingale")


def found(place: Place, word: str) -> bool:
    """Whether the project's events hold a word; one of which nothing is left is unknown."""
    return word in place.run("query", "events", "--json", "--project", "github.com/acme/messengers").stdout


def test_what_is_shown_is_saved_as_a_file(desk: Visit, tmp_path: Path) -> None:
    page = desk.go("tree/toc:day:2026-02-03")
    for name in ("Markdown", "JSON"):
        with page.expect_download() as saved:
            page.get_by_role("link", name=name, exact=True).first.click()
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        text = path.read_text(encoding="utf-8")
        assert "2026-02-03" in text or "03 Feb 2026" in text, text[:300]
        if name == "JSON":
            json.loads(text)


@pytest.mark.slow  # in the short form: test_acts.py for the act, and forms of other acts here.
def test_a_job_is_paused_resumed_and_run_from_the_status_page(desk: Visit) -> None:
    page = desk.go("status")
    for words, outcome in (("Pause", " is paused."), ("Resume", " runs by its schedule again."), ("Run now", ": ")):
        unfold(page, most=99)
        button = page.get_by_role("region", name="Jobs").get_by_role("button", name=words).first
        name = (button.get_attribute("aria-label") or "").removeprefix(f"{words}: ")
        press(page, button)
        # The page has a note of its own, of how the memory is.
        assert f"{name}{outcome}" in page.locator(".note[role=status]").inner_text()


# everybody else

#: What a page can try without being asked, with an address that it should not know. Each gives what it got, or why it failed.
ATTEMPTS: dict[str, str] = {
    "a script reads": "url => fetch(url, {credentials: 'include'}).then(r => r.text())",
    "a script asks without reading": "url => fetch(url, {credentials: 'include', mode: 'no-cors'}).then(r => r.type + r.status)",
    "a script asks with a header": "url => fetch(url, {credentials: 'include', headers: {'x-part': '1'}}).then(r => r.text())",
    "a stream": """url => new Promise(done => {
        const source = new EventSource(url, {withCredentials: true});
        source.onmessage = e => done('got ' + e.data); source.onerror = () => { source.close(); done('refused'); }; })""",
    "a picture": """url => new Promise(done => {
        const image = new Image(); image.onload = () => done('got ' + image.width); image.onerror = () => done('refused');
        image.src = url; })""",
    "a style sheet": """url => new Promise(done => {
        const link = document.createElement('link'); link.rel = 'stylesheet'; link.href = url;
        link.onload = () => done('got it'); link.onerror = () => done('refused'); document.head.append(link); })""",
    "a script of ours": """url => new Promise(done => {
        const script = document.createElement('script'); script.src = url; script.type = 'module';
        script.onload = () => done('got it'); script.onerror = () => done('refused'); document.head.append(script); })""",
    "a frame": """url => new Promise(done => {
        const frame = document.createElement('iframe'); frame.src = url; document.body.append(frame);
        frame.onload = () => {
            try { done('got ' + frame.contentDocument.body.textContent); } catch (e) { done('refused'); } }; })""",
}
#: What says that something of a page was seen.
PAGE_WORDS = ("time tree", "Skip to content", "EventSource")


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    with elsewhere() as found:
        yield found


def beside(tab: Visit, url: str) -> "Page":
    """Another tab of the same browser, at another server's page."""
    page = tab.page.context.new_page()
    page.goto(url)
    return page


def changed(place: Place) -> tuple[Any, ...]:
    """What an act would change."""
    stats = json.loads(place.ok("admin", "stats", "--json"))
    return {k: v for k, v in stats.items() if k in ("events", "nodes", "grips", "pins")}, place.ok("admin", "audit", "--json")


def sent_by_itself(page: "Page", action: str, fields: dict[str, str]) -> None:
    """Let a page send a form by itself, into this tab."""
    script = """([action, fields]) => {
        const form = document.createElement('form'); form.method = 'post'; form.action = action;
        for (const [name, value] of Object.entries(fields)) {
            const input = document.createElement('input'); input.name = name; input.value = value; form.append(input); }
        document.body.append(form); form.submit(); }"""
    with page.expect_navigation():
        page.evaluate(script, [action, fields])


# In the short form another name of this machine is tried by windows below: the browser sends it no cookie.
@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.slow)])
def test_a_page_of_another_port_or_name_reads_and_changes_nothing(
    desk: Visit, foreign: Foreign, served: Place, host: str
) -> None:
    """Another port is the same site to a browser, so that it sends the cookie along; the server refuses all the same."""
    token = desk.go("status").evaluate("document.body.dataset.token")
    before = changed(served)
    other = beside(desk, foreign.url(host))
    wanted = {"a stream": "live", "a picture": "icon", "a style sheet": "style", "a script of ours": "script"}
    links = dict(
        zip(
            ("style", "icon", "script"),
            desk.page.evaluate("[...document.head.querySelectorAll('[href], [src]')].map(e => e.href || e.src)"),
            strict=True,
        )
    )
    for name, script in ATTEMPTS.items():
        url = links.get(wanted.get(name, ""), f"{desk.base}/{wanted.get(name, 'status')}")
        try:
            got = other.evaluate(script, url)
        except Exception as error:
            got = f"refused: {error}"
        # An opaque response tells a page nothing, not even its status.
        assert got.startswith(("refused", "opaque0")), (name, got)
    page = beside(desk, foreign.url(host))
    # One guard stands before all of them. Without the cookie it says so before it looks at the act.
    for act in (*list(ACTS)[::16], "nothing"):
        page.goto(foreign.url(host))
        sent_by_itself(page, f"{desk.base}/do/{act}", {"token": token, "id": "toc:year:2026", "on": "true"})
        # To another name of this machine the browser sends no cookie at all.
        refusal = "another page made the browser ask" if host == "127.0.0.1" else "this visit has ended"
        assert refusal in page.inner_text("body"), act
    assert changed(served) == before
    page.close()
    other.close()


def test_a_window_that_another_page_opens_shows_nothing(desk: Visit, foreign: Foreign) -> None:
    for host in ("127.0.0.1", "localhost"):
        other = beside(desk, foreign.url(host))
        with other.expect_popup() as opened:
            other.evaluate("url => { window.opened = window.open(url); }", f"{desk.base}/{FIRST}")
        popup = opened.value
        popup.wait_for_load_state()
        assert not any(word in popup.content() for word in PAGE_WORDS)
        # Our pages part with whoever opened them.
        until(partial(other.evaluate, "window.opened.closed"), "the opener's hold to end")
        popup.close()
        other.evaluate("url => { location.href = url; }", f"{desk.base}/{FIRST}")
        other.wait_for_url(f"{desk.base}/{FIRST}")
        assert not any(word in other.content() for word in PAGE_WORDS)
        other.close()


def test_the_cookie_is_sent_to_no_other_server(desk: Visit, foreign: Foreign) -> None:
    """Cookies know no ports: what keeps this one here is that its address cannot be guessed."""
    [cookie] = desk.page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (
        COOKIE,
        True,
        "Strict",
        urlsplit(desk.base).path,
    )
    assert desk.go("status").evaluate("document.cookie") == ""
    page = beside(desk, foreign.url())
    page.goto(f"{foreign.url()}/ui/x/tree")
    for path in ("/ui/", "/ui/enter/x", "/ui/x/tree", "/mcp"):
        page.evaluate("path => fetch(path, {method: 'POST', credentials: 'include', body: 'x'})", path)
    assert len(foreign.seen) >= 5
    assert [path for _, path, headers in foreign.seen if "cookie" in headers or cookie["value"] in str(headers)] == []
    page.close()


@pytest.mark.slow  # in the short form: test_visits.py, over HTTP.
def test_another_browser_with_the_copied_address_gets_nothing(tabs: Tabs, desk: Visit, served: Place) -> None:
    url = address(served)
    other = desk.page.context.browser
    assert other is not None
    context = other.new_context()
    tabs.contexts.append(context)
    page = context.new_page()
    page.goto(f"{desk.base}/{FIRST}")
    assert "another browser's" in page.inner_text("body")
    page.goto(url)
    page.wait_for_url(lambda found: "/ui/enter/" not in found)
    again = desk.page.context.new_page()
    again.goto(url)
    assert "This link has been used" in again.inner_text("body")
    again.close()


def test_a_link_that_leads_out_tells_nobody_where_it_was(desk: Visit, foreign: Foreign) -> None:
    """The address of a page is half of what lets a browser in."""
    page = desk.go("status")
    page.evaluate(
        "url => { const a = document.createElement('a'); a.href = url; a.rel = 'opener'; document.body.append(a); a.click(); }",
        foreign.url(),
    )
    desk.wrong.clear()
    page.wait_for_url(f"{foreign.url()}/")
    desk.wrong.clear()
    assert foreign.seen
    assert [headers.get("referer") for _, path, headers in foreign.seen if path == "/"] == [None]
    assert page.evaluate("document.referrer") == ""


def test_nothing_that_gets_into_a_page_runs_or_leads_out(desk: Visit, foreign: Foreign) -> None:
    """Should a template ever let markup through, the policy is what is left: the browser refuses it."""
    page = desk.go("status")
    markup = f"""<img src="{foreign.url()}/img" onerror="window.ran = 1"><script>window.ran = 1</script>
        <b style="color: red">x</b><iframe srcdoc="<script>parent.ran = 1</script>"></iframe><base href="{foreign.url()}/">
        <a href="javascript:window.ran = 1" id=js>x</a>
        <form action="{foreign.url()}/form" method=post id=out><input name=a value=1></form>"""
    page.evaluate(
        "markup => { const div = document.createElement('div'); document.body.append(div); div.innerHTML = markup; }", markup
    )
    page.evaluate("document.getElementById('js').click()")
    page.evaluate("document.getElementById('out').submit()")
    page.evaluate("url => fetch(url).catch(() => 0)", foreign.url())
    page.evaluate("new Promise(done => setTimeout(done, 0))")
    assert page.evaluate("window.ran") is None
    assert page.url.startswith(desk.base)
    assert foreign.seen == []
    assert len(desk.wrong) >= 4
    desk.wrong.clear()
