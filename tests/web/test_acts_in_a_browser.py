"""What a person does on the pages, in a real browser: each act by its form, its note, and what the memory says afterwards."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.place import Place
from tests.daemon.places import said
from tests.factories import SHOP, SITE
from tests.waiting import until
from tests.web.conftest import Tabs, Visit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

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


def test_two_projects_are_shown_as_one_and_as_two_again(desk: Visit, couriers: Place) -> None:
    page = desk.go("projects")
    assert OLD in names(page)
    form = page.locator("section", has=page.get_by_role("heading", name="Two are one"))
    form.get_by_label("This project").fill(OLD)
    form.get_by_label("is the same as").fill(CHECKOUT)
    press(page, form.get_by_role("button", name="Show them as one"))
    assert "is shown as" in note(page)
    assert OLD not in names(page)
    assert "Also recorded as" in card(page, CHECKOUT).inner_text()
    assert "you said so" in card(page, CHECKOUT).inner_text()
    press(page, card(page, CHECKOUT).get_by_role("button", name="Take it back"))
    assert "as it was recorded again" in note(page)
    assert OLD in names(page)
    assert "Also recorded as" not in card(page, CHECKOUT).inner_text()


def test_the_sessions_of_a_folder_are_split_off_and_put_back(desk: Visit, couriers: Place) -> None:
    page = desk.go("projects")
    assert "2 sessions" in card(page, CHECKOUT).inner_text()
    form = page.locator("section", has=page.get_by_role("heading", name="One is two"))
    form.get_by_label("Sessions of this project").fill(CHECKOUT)
    form.get_by_label("that began in this folder", exact=False).fill(FOLDER)
    form.get_by_label("are a project of this name", exact=False).fill("parcels-nearby")
    press(page, form.get_by_role("button", name="Split them off"))
    assert "parcels-nearby is a project with 1 session now." in note(page)
    assert "1 session" in card(page, CHECKOUT).inner_text()
    new = card(page, "parcels-nearby")
    assert "split from" in new.inner_text()
    press(page, new.get_by_role("button", name="Take it back"))
    assert "parcels-nearby" not in names(page)
    assert "2 sessions" in card(page, CHECKOUT).inner_text()


def test_a_topic_is_renamed_and_gets_its_own_name_back(desk: Visit) -> None:
    page = desk.go("topics")
    press(page, page.locator("main [data-item] a[data-open]").first)
    before = page.locator("h1").inner_text()
    for typed, shown in (("Cents & <b>rounding</b>", "Cents & <b>rounding</b>"), ("", before)):
        page.get_by_text("Call it otherwise").click()
        page.get_by_label("Name of the topic").fill(typed)
        press(page, page.get_by_role("button", name="Rename"))
        assert page.locator(".note").count() == 1
        assert page.locator("h1").inner_text() == shown


def test_a_project_is_excluded_and_included_by_keys_alone(desk: Visit, served: Place) -> None:
    page = desk.go("projects")
    one = card(page, SITE)
    tab_to(page, one.locator("summary"))
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


def test_recording_is_paused_and_resumed_without_scripts(tabs: Tabs, couriers: Place) -> None:
    page = tabs.open(java_script_enabled=False).go("projects")
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


def test_all_recording_is_paused_and_resumed(desk: Visit) -> None:
    page = desk.go("projects")
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
    page.locator("main details.words > summary").first.click()
    page.locator("main details.words [data-place] a[href*='/grip/']").first.click()
    page.wait_for_url("**/grip/**")
    send(page, "Pin")
    assert "inned" in note(page)
    desk.may_fail = ("/do/correct",)
    for text in (" ", "The total is summed as integer cents: <b>never</b> floats."):
        page.get_by_text("Correct it", exact=False).first.click()
        page.get_by_label("What holds instead").fill(text)
        page.get_by_label("Why (may be left out)").fill("measured again")
        send(page, "Correct it")
        if text == " ":
            assert page.locator("[role=alert]").count() == 1
            assert page.get_by_label("Why (may be left out)").first.input_value() == "measured again"
            page.go_back()
    assert page.locator(".note").count() == 1
    assert "<b>never</b> floats" in page.inner_text("main")
    with page.expect_navigation():
        page.go_back()
    page.reload()
    assert "Holds no more" in page.inner_text("main")
    assert "measured again" in page.inner_text("main")
    done = served.ok("admin", "audit", "--json")
    assert '"correct' in done
    assert "pin" in done


def test_forgetting_is_shown_first_and_can_be_undone_and_then_is_done(desk: Visit, served: Place) -> None:
    text = "The courier is called Bartholomew Nightingale."
    served.ok("ingest", "-", stdin=said("github.com/acme/messengers", text, 9))
    page = desk.go("forget")
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
    page = desk.go("forget")
    page.get_by_label("A name, a number or any text", exact=False).fill("Bartholomew Nightingale")
    send(page, "Show what would go")
    send(page, "Forget for good")
    until(lambda: "Forgotten" in page.inner_text("main"), "the seconds to pass and it to be forgotten")
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


def test_a_job_is_paused_resumed_and_run_from_the_status_page(desk: Visit) -> None:
    page = desk.go("status")
    for words in ("Pause", "Resume", "Run now"):
        button = page.locator(f"main form[action*='-job'] button:has-text('{words}')").first
        press(page, button)
        assert page.locator(".note").count() == 1, words
