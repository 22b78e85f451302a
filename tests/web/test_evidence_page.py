"""Evidence: the exact words of a citation, checked, in their conversation, and what holds in place of those that hold no more."""

import html
import re
from collections.abc import Iterator

import pytest

from memory_mcp.model.event import Role
from memory_mcp.model.ids import span_grip_id
from memory_mcp.storage.values import Scope
from tests.daemon.door import Door
from tests.factories import BILLING, SHOP, draft
from tests.toc.helpers import run_sql
from tests.web.acting import visited
from tests.web.visitor import Visitor, plain

OLD = "We decided that <b>invoices</b> & reminders are sent every Monday."
NEW = "Invoices & reminders are sent every Tuesday <i>at noon</i>."
GONE = "We decided that the archive is kept for seven years."
DAMAGED = "We decided that the ledger is closed at the end of each month."
#: Words far in a long message.
FAR = "We decided that <u>refunds</u> are paid within ten days."
LONG = f"{'The invoices of the year were read one after the other. ' * 60}\n\n{FAR}\n\n{'Nothing else was said of them. ' * 60}"
#: Messages before and after the decision, in its session.
MANY = 40


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, Visitor]]:
    """A decision in the middle of a long conversation, and two others."""
    said = [
        draft(
            OLD if n == MANY else f"Message {n} of the conversation.",
            at=1_768_200_000_000 + n * 10_000,
            session="talk",
            role=Role.ASSISTANT if n % 2 == 0 else Role.USER,
            agent="codex",
            project=BILLING,
        )
        for n in range(2 * MANY + 1)
    ]
    others = [
        draft(text, at=at, session=session, role=Role.ASSISTANT, project=SHOP)
        for text, at, session in (
            (GONE, "2026-01-13 09:00", "gone"),
            (DAMAGED, "2026-01-14 09:00", "damaged"),
            (LONG, "2026-01-15 09:00", "long"),
        )
    ]
    with visited(tmp_path_factory.mktemp("evidence") / "data", *said, *others) as made:
        yield made


@pytest.fixture(scope="module")
def visitor(door: tuple[Door, Visitor]) -> Visitor:
    return door[1]


def quoted(page: str) -> str:
    found = re.search(r'<blockquote class="text" dir="auto">.*?<mark>(.*?)</mark>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def turns(page: str) -> list[str]:
    """The messages of a page, in order; the quoted one, which stands above its conversation, first."""
    found = re.findall(r'<(?:div|blockquote) class="text" dir="auto">(.*?)</(?:div|blockquote)>', page, re.DOTALL)
    return [html.unescape(re.sub("<[^>]*>", "", text)) for text in found]


def grip_of(visitor: Visitor, text: str) -> str:
    """The page of the citation of a whole text."""
    found = visitor.page("search", q=text, limit=40)
    for way in dict.fromkeys(re.findall(r'href="/ui/[^/]+/(grip/[^"?]+)" data-open', found)):
        address = html.unescape(way)
        if quoted(visitor.page(address)) == text:
            return address
    raise AssertionError(plain(found))


def way(page: str, words: str) -> str:
    """Where a link with these words leads."""
    found = re.search(rf'href="([^"#]+)(?:#[^"]*)?"[^>]*>{words}', page)
    assert found is not None, words
    return html.unescape(found[1])


def test_a_citation_shows_the_exact_words_checked_with_who_when_and_where(visitor: Visitor) -> None:
    address = grip_of(visitor, OLD)
    page = visitor.page(address)
    assert "We decided that &lt;b&gt;invoices&lt;/b&gt; &amp; reminders" in page
    said = plain(page)
    assert "✓ Verified the stored event holds exactly these words" in said
    assert "Not verified" not in said
    assert "Who assistant , with codex" in said
    assert f"Project {BILLING}" in said
    assert "When Mon 12 Jan 2026, 07:46:40" in said
    assert address.removeprefix("grip/") in said
    for words, text in (("segment", OLD), ("session from here", OLD), ("whole message", OLD)):
        reply = visitor.send("GET", way(page, words))
        assert reply.status == 200, words
        assert text in html.unescape(re.sub("<[^>]*>", "", reply.text)), words


def test_the_conversation_around_is_shown_in_order_with_the_words_marked(visitor: Visitor) -> None:
    page = visitor.page(grip_of(visitor, OLD))
    around = (
        [f"Message {n} of the conversation." for n in (37, 38, 39)],
        [f"Message {n} of the conversation." for n in (41, 42, 43)],
    )
    assert turns(page) == [OLD, *around[0], *around[1]]
    # A quotation is shown once, and stands ready in the form that corrects it.
    assert re.sub("<textarea.*?</textarea>", "", page).count(html.escape(OLD)) == 1
    assert page.count("turn assistant own") == 1
    assert f"<mark>{html.escape(OLD)}</mark>" in page


def far(door: Door, words: str = FAR) -> tuple[str, int]:
    """Return the stored citation that holds words of the long message, and where it begins there."""
    [event] = door.app.storage.events.list_events(Scope(SHOP), "long", 1)
    grips = door.app.storage.grips.grips_by_event([event.event_id])[event.event_id]
    found = next(grip for grip in grips if words in event.text[grip.span_start : grip.span_end])
    return found.grip_id, found.span_start


def test_words_far_in_a_long_message_are_marked_in_their_place(door: tuple[Door, Visitor]) -> None:
    grip, start = far(door[0])
    visitor = door[1]
    assert start > 3000
    page = visitor.page(f"grip/{grip}")
    [text] = turns(page)
    assert FAR in text
    assert f" {text}" in LONG
    assert len(text) < len(LONG)
    assert html.escape(FAR) in page.split("<mark>", 1)[1].split("</mark>", 1)[0]
    before = way(page, "[0-9,]+ characters before this")
    assert visitor.send("GET", before).text.count("The invoices of the year") >= 60
    # What was left out behind them follows on demand.
    more = re.search(r'data-src="([^"]+)"><summary>Show more', page)
    assert more is not None
    assert LONG.endswith(
        text
        + html.unescape(visitor.send("GET", html.unescape(more[1]), X_Part="1").text.split('dir="auto">')[1].split("</div>")[0])
    )


def test_any_words_of_a_message_are_shown_and_marked_as_a_search_cites_them(door: tuple[Door, Visitor]) -> None:
    [event] = door[0].app.storage.events.list_events(Scope(SHOP), "long", 1)
    start = LONG.index(FAR)
    page = door[1].page(f"grip/{span_grip_id(event.event_id, start, start + len(FAR))}")
    assert quoted(page) == FAR
    assert f"<mark>{html.escape(FAR)}</mark>" in page
    # A long quotation that begins near the start of its message.
    page = door[1].page(f"grip/{span_grip_id(event.event_id, 4, start + len(FAR))}")
    assert html.escape(FAR) in page.split("<mark>", 1)[1].split("</mark>", 1)[0]


def test_within_a_project_every_link_keeps_it(door: tuple[Door, Visitor]) -> None:
    visitor = door[1]
    grip, _ = far(door[0])
    pages = [visitor.page(f"grip/{grip}", project=SHOP)]
    pages += [visitor.send("GET", way(pages[0], words)).text for words in ("session from here", "whole message", "segment")]
    for page in pages:
        ways = re.findall(r'href="(/ui/[^/]+/(?:tree|grip|session|event)\b[^"]*)"', page.split("<main", 1)[1])
        assert len(ways) > 2
        assert [one for one in ways if "project=github.com" not in one] == []


def test_earlier_and_later_are_shown_ten_more_at_a_time_up_to_a_bound(visitor: Visitor) -> None:
    page = visitor.page(grip_of(visitor, OLD))
    page = visitor.send("GET", way(page, "Show 10 more before")).text
    assert turns(page)[1] == "Message 27 of the conversation."
    assert turns(page)[-1] == "Message 43 of the conversation."
    page = visitor.send("GET", way(page, "Show 10 more after")).text
    assert (turns(page)[1], turns(page)[-1]) == ("Message 27 of the conversation.", "Message 53 of the conversation.")
    for _ in range(10):
        if "Show 10 more before" not in page:
            break
        page = visitor.send("GET", way(page, "Show 10 more before")).text
    assert turns(page)[1] == "Message 0 of the conversation."
    assert "Show 10 more before" not in page
    assert "Show 10 more after" in page


def test_a_session_is_read_on_and_back_to_its_ends(visitor: Visitor) -> None:
    page = visitor.page("session/talk")
    every = [OLD if n == MANY else f"Message {n} of the conversation." for n in range(2 * MANY + 1)]
    assert turns(page) == every[:50]
    assert "Earlier in this session" not in page
    page = visitor.send("GET", way(page, "Later in this session")).text
    assert turns(page) == every[50:]
    assert "Later in this session" not in page
    whole = visitor.page(grip_of(visitor, OLD))
    page = visitor.send("GET", way(whole, "session from here")).text
    assert turns(page) == every[MANY:]
    back = visitor.send("GET", way(page, "← Earlier in this session")).text
    assert turns(back) == every[: MANY + 1]


def test_a_message_is_shown_whole_with_what_is_quoted_of_it(visitor: Visitor) -> None:
    address = grip_of(visitor, OLD)
    page = visitor.send("GET", way(visitor.page(address), "whole message")).text
    assert f'<div class="text card" dir="auto">{html.escape(OLD)}</div>' in page
    assert f"{len(OLD)} characters" in plain(page)
    assert address in re.findall(r'class="grip" href="/ui/[^/]+/(grip/[^"]+)"', page)


def test_what_was_corrected_says_so_and_leads_to_what_holds_now(visitor: Visitor) -> None:
    address = grip_of(visitor, OLD)
    assert '<p class="notice">No longer true' not in visitor.page(address)
    done = visitor.act("correct", token=visitor.token(), grip_id=address.removeprefix("grip/"), text=NEW, reason="the bank's day")
    assert done.status == 303, done.text
    page = visitor.page(address)
    assert quoted(page) == OLD
    assert "✓ Verified" in page
    assert "No longer true: the bank's day · what is true now" in plain(page).replace(" :", ":")
    now = visitor.send("GET", way(page, "what is true now"))
    assert now.status == 200
    assert quoted(now.text) == NEW
    assert '<p class="notice">No longer true' not in now.text


def test_what_was_retracted_says_so_and_leads_nowhere(visitor: Visitor) -> None:
    address = grip_of(visitor, GONE)
    done = visitor.act("retract", token=visitor.token(), grip_id=address.removeprefix("grip/"), reason="no such rule")
    assert done.status == 303, done.text
    page = visitor.page(address)
    assert quoted(page) == GONE
    assert "No longer true" in page
    assert "no such rule" in page
    assert "what is true now" not in page


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("grip/grip:1700000000000:0000000000000000", 404),
        ("grip/nonsense", 400),
        ("event/01KFAM95000RESDNS3CG894FVP", 404),
        ("event/nonsense", 400),
        ("session/nowhere", 404),
        ("session/nowhere?from=01KFAM95000RESDNS3CG894FVP", 404),
        ("session/talk?project=github.com/acme/shop", 404),
    ],
)
def test_what_is_not_stored_is_no_page_and_leads_on(visitor: Visitor, address: str, status: int) -> None:
    reply = visitor.get(address)
    assert reply.status == status
    main = reply.text.split("<main", 1)[1]
    assert 'role="alert"' in main
    assert "Forget" not in main
    ways = re.findall(r'href="/ui/[^/]+/(\w+)[^"]*"', main)
    assert ways[:3] == ["search", "tree", "calendar"]
    assert {visitor.get(name).status for name in ways[:3]} == {200}
    part = visitor.get(address, X_Part="1")
    assert part.status == status
    assert "<html" not in part.text


def test_words_that_the_store_holds_otherwise_are_said_not_to_be_verified(door: tuple[Door, Visitor]) -> None:
    app, visitor = door[0].app, door[1]
    address = grip_of(visitor, DAMAGED)
    run_sql(app, f"UPDATE event SET text = replace(text, 'each month', 'some months') WHERE text = '{DAMAGED}'")
    page = visitor.page(address)
    assert "✗ Not verified" in page
    assert "✓ Verified" not in page
