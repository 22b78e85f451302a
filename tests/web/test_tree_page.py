"""The tree: from a year down to what was said, tools and quiet stretches folded, and no page too heavy whatever is stored."""

import html
import re
from collections.abc import Iterator

import pytest

from memory_mcp.model.event import EventType, Role
from tests.factories import BILLING, SHOP, SITE, a_small_history, draft
from tests.web.acting import visited
from tests.web.visitor import Reply, Visitor, plain

#: What a page or a part of one may weigh (bytes).
HEAVIEST = 300_000
LONG = "The report begins. " + "z" * 1_000_000 + " The report ends."
QUIET_DAY, LONG_DAY, BUSY_DAY = "toc:day:2026-02-03", "toc:day:2026-02-04", "toc:day:2026-02-05"


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A week of three projects, a day of greetings with one decision, a text of a megabyte, and 150 messages at once."""
    greetings = [
        draft(f"Good tea number {n}, thank you.", at=f"2026-02-03 {8 + n // 2:02}:{n % 2 * 30:02}", session=f"tea-{n}")
        for n in range(12)
    ]
    decided = draft("We decided to use Decimal for every total of the cart.", at="2026-02-03 20:00", session="decided")
    long = [
        draft(LONG, at="2026-02-04 09:00", session="long"),
        draft("Noted.", at="2026-02-04 09:01", session="long", role=Role.ASSISTANT),
        draft(
            LONG,
            at="2026-02-04 09:02",
            session="long",
            role=Role.TOOL,
            kind=EventType.TOOL_RESULT,
            metadata={"tool": "Bash", "exit_status": "1"},
        ),
    ]
    busy = [draft(f"Line {n} of many.", at=1_770_282_000_000 + n * 1000, session="busy") for n in range(150)]
    said = [*a_small_history(1), *greetings, decided, *long, *busy]
    with visited(tmp_path_factory.mktemp("tree") / "data", *said) as (_, visitor):
        yield visitor


def branches(page: str) -> list[str]:
    """Nodes that unfold on a page, by their ids."""
    return [html.unescape(i) for i in re.findall(r'class="own" href="/ui/[^/]+/tree/(toc:[^"?]+)[^"]*" data-open', page)]


def part(visitor: Visitor, address: str) -> str:
    """What a script unfolds from an address of the page."""
    reply = visitor.send("GET", html.unescape(address), X_Part="1")
    assert reply.status == 200, reply.text
    assert "<html" not in reply.text
    return reply.text


def stretches(visitor: Visitor, day: str, **query: object) -> list[str]:
    return branches(visitor.page(f"tree/{day}", **query))


def beside(page: str) -> dict[str, str]:
    """The way to the neighbours."""
    return {rel: html.unescape(i) for i, rel in re.findall(r'href="/ui/[^/]+/tree/([^"?]+)[^"]*" rel="(prev|next)"', page)}


def test_it_unfolds_from_the_year_to_what_was_said(visitor: Visitor) -> None:
    page, seen = visitor.page("tree"), []
    assert branches(page) == ["toc:year:2026"]
    for level in ("year", "month", "week", "day", "segment"):
        found = branches(page)
        assert all(node.startswith(f"toc:{level}:") for node in found), found
        seen.append(found[0])
        source = re.search(rf'data-src="([^"]*/tree/{re.escape(found[0])})"', page)
        assert source is not None
        page = part(visitor, source[1])
    assert branches(page) == []
    assert '<details class="exchange" data-item>' in page
    assert "Line 0 of many." in plain(page)
    # Each is a page as well, with the way up.
    for node in seen:
        whole = visitor.page(f"tree/{node}")
        assert "<h1" in whole
        assert "All years" in whole
        assert node in plain(whole)
    trail = visitor.page(f"tree/{seen[-1]}").split('class="trail"', 1)[1].split("</nav>", 1)[0]
    assert re.findall(r"tree/toc:(\w+):", trail) == ["year", "month", "week", "day"]


def test_statements_lead_to_their_exact_words(visitor: Visitor) -> None:
    [segment, *_] = stretches(visitor, "toc:day:2026-01-19")
    page = visitor.page(f"tree/{segment}")
    bullets = page.split('<ul class="bullets">', 1)[1].split("</ul>", 1)[0]
    said = [plain(text) for text in re.findall(r'class="said">(.*?)</span>', bullets)]
    decided = next(text for text in said if text.startswith("We decided"))
    links = dict(reversed(one) for one in re.findall(r'href="([^"]*/grip/[^"]+)" data-open><span[^>]*>(.*?)</span>', bullets))
    # What is said is the link.
    page = visitor.send("GET", html.unescape(links[html.escape(decided)])).text
    assert decided in plain(page)
    assert "Verified" in page


def test_what_tools_said_is_a_line_that_unfolds(visitor: Visitor) -> None:
    [segment, *_] = stretches(visitor, "toc:day:2026-01-19", project=SHOP)
    page = visitor.page(f"tree/{segment}")
    tools = re.findall(
        r'<li class="(tool[^"]*)" id="e-[^"]*" data-item>\s*<details data-src="([^"]+)">(.*?)</li>', page, re.DOTALL
    )
    assert {name for name, _, _ in tools} == {"tool", "tool failed"}
    failed = next((source, shown) for name, source, shown in tools if name == "tool failed")
    assert "→ collected 12 items" in plain(failed[1])
    assert "collected 12 items\nFAILED" not in page
    assert "<pre" in part(visitor, failed[0])
    assert "collected 12 items\nFAILED" in part(visitor, failed[0])
    assert "· 2 of tools" in plain(page)


def test_quiet_stretches_are_one_line_that_unfolds_to_all_of_them(visitor: Visitor) -> None:
    page = visitor.page(f"tree/{QUIET_DAY}")
    shown = branches(page)
    assert len(shown) == 1
    assert "Good tea" not in plain(page.split('class="branches"', 1)[1].split("</ul>", 1)[0])
    line = re.search(r'data-src="([^"]+)"><summary>12 [^<]*</summary>', page)
    assert line is not None
    quiet = part(visitor, line[1])
    assert len(branches(quiet)) == 12
    assert set(branches(quiet)).isdisjoint(shown)
    # What twelve say alike names none of them: they are told apart by their times.
    assert all(f"{8 + n // 2:02}:{n % 2 * 30:02}" in plain(quiet) for n in range(12))
    # Without scripts they are a page.
    assert branches(visitor.send("GET", html.unescape(line[1])).text) == branches(quiet)


@pytest.mark.parametrize(("project", "other"), [(SHOP, "codex"), (BILLING, "claude-code")])
def test_within_a_project_nothing_of_the_others_is_shown_and_links_keep_it(visitor: Visitor, project: str, other: str) -> None:
    everything = stretches(visitor, "toc:day:2026-01-19")
    page = visitor.page("tree/toc:day:2026-01-19", project=project)
    own = branches(page)
    assert len(own) == 2
    assert set(own) < set(everything)
    main = page.split("<main", 1)[1]
    assert f"<bdi>{other}</bdi>" not in main
    assert not any(name in main for name in {SHOP, BILLING, SITE} - {project})
    links = re.findall(r'"(/ui/[^/]+/tree[^"]*)"', main)
    assert len(links) > 6
    assert all("project=github.com" in link for link in links), links
    foreign = next(node for node in everything if node not in own)
    assert visitor.get(f"tree/{foreign}?project={project}").status == 404


def test_neighbours_are_the_days_before_and_after_with_records(visitor: Visitor) -> None:
    day = "toc:day:2026-01-19"
    assert beside(visitor.page(f"tree/{day}")) == {"next": "toc:day:2026-01-20"}
    assert beside(visitor.page("tree/toc:day:2026-01-20")) == {"prev": day, "next": "toc:day:2026-01-21"}
    first, second, *_ = stretches(visitor, day)
    assert beside(visitor.page(f"tree/{first}"))["next"] == second
    assert beside(visitor.page(f"tree/{second}"))["prev"] == first


def test_a_text_of_a_megabyte_is_shortened_and_read_on_in_pages_to_its_end(visitor: Visitor) -> None:
    # What a person said comes first; each text is long enough for a stretch of its own.
    segment = stretches(visitor, LONG_DAY)[0]
    page = visitor.page(f"tree/{segment}")
    assert "<strong><bdi>user</bdi></strong>" in page
    assert "The report begins." in plain(page)
    assert "The report ends." not in page
    more = re.search(r'data-src="([^"]+)"><summary>Show more \(([\d,]+) characters left\)', page)
    assert more is not None
    shown = page.split('class="text" dir="auto">', 1)[1].split("</div>", 1)[0]
    shown = html.unescape(re.sub("<[^>]*>", "", shown))
    assert len(shown) + int(more[2].replace(",", "")) == len(LONG)
    address, text, steps = html.unescape(more[1]), shown, 0
    while address:
        reply = light(visitor.send("GET", address))
        text += reply.text.split('class="text card" dir="auto">', 1)[1].split("</div>", 1)[0]
        following = re.search(r'href="([^"]+)" rel="next"', reply.text)
        address, steps = html.unescape(following[1]) if following else "", steps + 1
    assert text == LONG
    assert steps == 50
    assert "Show more" in part(visitor, more[1])


def light(reply: Reply) -> Reply:
    assert reply.status == 200
    assert len(reply.body) < HEAVIEST
    return reply


def test_no_page_or_part_of_long_texts_is_heavy(visitor: Visitor) -> None:
    nodes = [f"tree/{node}" for node in stretches(visitor, LONG_DAY)]
    for address in (f"tree/{LONG_DAY}", *nodes, "session/long", "tree"):
        light(visitor.get(address))
        light(visitor.get(address, X_Part="1"))
    events = {one for node in nodes for one in re.findall(r'"/ui/[^/]+/(event/[^"?]+)', visitor.page(node))}
    assert len(events) == 3
    for event in events:
        light(visitor.get(event))
        light(visitor.get(event, X_Part="1"))


def test_a_long_conversation_goes_on_behind_a_link_until_everything_was_shown(visitor: Visitor) -> None:
    said: list[str] = []
    for segment in stretches(visitor, BUSY_DAY):
        page, steps = visitor.page(f"tree/{segment}"), 0
        while True:
            said += [plain(text) for text in re.findall(r'<div class="text" dir="auto">(.*?)</div>', page)]
            following = re.search(r'data-src="([^"]+of=talk[^"]*)"><summary>How it goes on', page)
            if following is None:
                break
            assert len(re.findall(r'<li class="turn', page)) <= 60
            whole = visitor.send("GET", html.unescape(following[1])).text
            assert "How the conversation goes on" in whole
            page, steps = part(visitor, following[1]), steps + 1
        assert steps == 2
    assert said == [f"Line {n} of many." for n in range(150)]


def test_a_time_of_which_nothing_is_stored_leads_on(visitor: Visitor) -> None:
    for node, status in (("toc:day:1999-01-01", 404), ("nonsense", 400)):
        reply = visitor.get(f"tree/{node}")
        assert reply.status == status
        assert node in plain(reply.text)
        main = reply.text.split("<main", 1)[1]
        assert re.findall(r'href="/ui/[^/]+/(\w+)"', main)[:3] == ["search", "tree", "calendar"]
