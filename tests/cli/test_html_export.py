"""`export --format html` by the installed command: one file that shows a hostile memory and does nothing that its texts say."""

import base64
import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.cli.html_export.index import groups, terms
from memory_mcp.cli.html_export.writing import HtmlExport
from memory_mcp.requests import portable
from tests.browser import pages
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import needs_proc
from tests.factories import draft

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROJECT = "github.com/acme/<b>harbour</b>"
AGENT = '" onload=alert(9) x="'
MARKUP = "<script>alert(1)</script> & <img src=x onerror=alert(2)> We decided on blue-green deployments."
ENDING = "</script><!-- <script>alert(3)</script> --> [x](javascript:alert(5)) We keep the tokenStore cache at 512 MB."
GERMAN = "Die Schlüsselverwaltung läuft über die Straße: größere Änderungen am Übersetzer."
CHINESE = "我们决定把数据库迁移到新的服务器，并且每天备份。"
JAPANESE = "キャッシュの設計を変更しました。ガードレールを追加する。"
HEBREW = "החלטנו להעביר את מסד הנתונים לשרת חדש."
ARABIC = "قررنا نقل قاعدة البيانات إلى خادم جديد."
BIDI = "The file \u202egnp.exe\u202c, \x1b[31mred\x1b[0m and a bell \x07 matter."
FENCES = "</pre></details></main></body></html><recalled-by-memory-mcp> &lt;/recalled-by-memory-mcp&gt; the fences hold."
TEMPLATE = "{{ 7*7 }} {% raw %} and a \u2028 separator stay as they are."
TEXTS = (MARKUP, ENDING, GERMAN, CHINESE, JAPANESE, HEBREW, ARABIC, BIDI, FENCES, TEMPLATE)
SECRET = "AKIAQ3EGRJ7XKZ5LBN2P"

#: What our templates are made of.
ELEMENTS = set(
    """html head meta title style body a header p h1 h2 h3 h4 h5 h6 dl div dt dd bdi section form label input ol nav ul li main
    details summary span b figure blockquote figcaption code pre time footer script strong""".split()
)
ATTRIBUTES = set(
    """charset http-equiv content name lang class href id aria-label aria-hidden hidden role for type autocomplete autocapitalize
    spellcheck placeholder dir tabindex open datetime title data-item data-open""".split()
)
VOID = {"meta", "input"}


class Seen(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.comments: list[str] = []
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]].append(data)
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def parsed(path: Path) -> Seen:
    seen = Seen()
    seen.feed(path.read_text(encoding="utf-8"))
    seen.close()
    return seen


def told(texts: tuple[str, ...], session: str, day: str, **more: Any) -> str:
    lines = [
        {
            "session_id": session,
            "timestamp": f"{day}T09:{n:02}:00Z",
            "role": ("user", "assistant")[n % 2],
            "text": text,
            "project": PROJECT,
            "agent": AGENT,
            "speaker": "<i>Ada</i>" if n % 2 == 0 else "",
            **more,
        }
        for n, text in enumerate(texts)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def place(processes: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Place]:
    with Beside(tmp_path_factory.mktemp("html"), more=SERVED | {"MEMORY_MCP_STORAGE__TIMEZONE": "Asia/Tokyo"}) as made:
        hostile = told(TEXTS, "hostile", "2026-01-30")
        output = json.dumps(
            {
                "session_id": "hostile",
                "timestamp": "2026-01-30T09:20:00Z",
                "role": "tool",
                "text": "needle in the output\n" + "x" * 40_000 + "</pre><script>alert(6)</script>",
                "project": PROJECT,
                "agent": AGENT,
                "metadata": {"tool": "<u>Bash</u>"},
            }
        )
        # A megabyte in the long form: Chromium takes seconds to lay it out.
        letters = 900_000 if request.config.getoption("--slow") else 5_000
        long = told((f"A very long line: {'y' * letters} ends here.",), "long", "2026-02-01")
        other = told(("The printer is out of toner.",), "other", "2026-03-03", project="github.com/acme/shop", agent="codex")
        done = made.run("ingest", "-", stdin=f"{hostile}{output}\n{long}{other}")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture(scope="module")
def page(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("out") / "all.html"
    done = json.loads(place.ok("export", str(path), "--format", "html", "--json"))
    assert (done["format"], done["events"], done["segments"], done["days"]) == ("html", 13, done["segments"], 3)
    assert done["bytes"] == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["all.html"]
    return path


@pytest.fixture(scope="module")
def seen(page: Path) -> Seen:
    return parsed(page)


pytestmark = needs_proc


def test_no_element_and_no_attribute_comes_from_stored_text(seen: Seen) -> None:
    assert seen.open == []
    assert seen.comments == []
    assert {tag for tag, _ in seen.elements} <= ELEMENTS
    assert {name for _, attributes in seen.elements for name in attributes} <= ATTRIBUTES
    count = Counter(tag for tag, _ in seen.elements)
    assert {tag: count[tag] for tag in ("html", "body", "main", "script", "style", "h1", "form")} == {
        **dict.fromkeys(("html", "body", "main", "style", "h1", "form"), 1),
        "script": 2,
    }
    ids = [attributes["id"] or "" for _, attributes in seen.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", one) for one in ids)
    links = {attributes["href"] or "" for tag, attributes in seen.elements if tag == "a"}
    assert {link for link in links if not (link.startswith("#") and link[1:] in ids)} == set()
    for text in (*TEXTS[:7], PROJECT, AGENT, "<i>Ada</i>", "<u>Bash</u>", "{{ 7*7 }}"):
        assert text in seen.text


def test_the_policy_allows_the_pages_own_script_and_style_alone_and_headings_come_in_order(seen: Seen) -> None:
    policy = next(a["content"] or "" for tag, a in seen.elements if tag == "meta" and a.get("http-equiv"))
    data, code = seen.inside["script"]
    [style] = seen.inside["style"]

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert policy == (
        f"default-src 'none'; script-src {digest(code)}; style-src {digest(style)}; base-uri 'none'; form-action 'none'"
    )
    # The policy stands before whatever it is to hold.
    tags = [tag for tag, _ in seen.elements]
    assert tags.index("style") > next(n for n, (_, a) in enumerate(seen.elements) if a.get("http-equiv"))
    assert not set("<>&\u2028\u2029") & set(data)
    assert set(json.loads(data)) == {"of", "segments", "stop", "terms"}
    ranks = [int(tag[1]) for tag, _ in seen.elements if re.fullmatch("h[1-6]", tag)]
    assert ranks[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(ranks))
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in seen.elements}
    assert ("search", "search") in {(a.get("id"), a.get("role")) for _, a in seen.elements}


def test_quotations_say_who_and_when_and_show_what_would_turn_the_writing(seen: Seen) -> None:
    assert not set("\u202e\u202c\u2066\x1b\x07\u2028") & set(seen.text)
    assert "The file \ufffdgnp.exe\ufffd, \ufffd[31mred\ufffd[0m and a bell \ufffd matter." in seen.text
    shown = [a for tag, a in seen.elements if tag in ("blockquote", "pre") or a.get("class") == "text"]
    assert len(shown) > len(TEXTS)
    assert all(a.get("dir") == "auto" for a in shown)
    # 09:00 UTC, told in the store's zone, which is named.
    assert "Asia/Tokyo" in seen.text
    assert re.search(r"<i>Ada</i>, Fri 30 Jan 2026, 18:0\d grip:\d+:", seen.text)


def test_nothing_of_the_file_is_taken_in_again(place: Place, page: Path) -> None:
    found = place.run("import", "auto", str(page.parent))
    assert (found.returncode, "no conversations and no events were found" in found.stderr) == (2, True)
    pasted = told((f"I opened the export:\n{page.read_text(encoding='utf-8')}\nThat is all of it.",), "pasted", "2026-04-01")
    done = place.run("ingest", "-", stdin=pasted)
    assert done.returncode == 0, done.stderr
    [event] = [json.loads(line) for line in place.ok("export", "--since", "2026-04-01").splitlines()]
    assert "That is all of it." in event["text"]
    for text in ("blue-green", "tokenStore", "Schlüsselverwaltung", "数据库", "fences hold", "toner", "needle in the output"):
        assert text not in event["text"], text


def test_a_part_of_the_memory_tells_of_nothing_else(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "part.html"
    place.ok("export", "--html", str(path), "--project", "shop")
    text = parsed(path).text
    assert "toner" in text
    assert "tokenStore" not in text
    place.ok("export", "--html", str(path), "--force", "--since", "2026-01-30T18:02", "--until", "2026-01-30T18:04")
    text = parsed(path).text
    assert CHINESE in text
    assert GERMAN in text
    for outside in ("blue-green", "tokenStore", "fences hold", "needle", "toner"):
        assert outside not in path.read_text(encoding="utf-8"), outside
    place.ok("export", "--html", str(path), "--force", "--agent", "codex")
    assert "tokenStore" not in path.read_text(encoding="utf-8")


def test_what_is_in_the_way_or_asked_twice_is_refused(place: Place, page: Path) -> None:
    there = place.run("export", "--html", str(page))
    assert (there.returncode, "is there already" in there.stderr) == (2, True)
    twice = place.run("export", "all.jsonl", "--html", str(page))
    assert (twice.returncode, "the only file" in twice.stderr) == (2, True)


def export_of(app: App, path: Path, largest: int = 10**9, **asked: str) -> dict[str, Any]:
    ask = {give.__name__: give for give in portable.METHODS}
    return HtmlExport(lambda what, of: ask[what](app, of), asked, lambda *_: None, largest).write(path)


def test_a_secret_that_was_stored_before_its_rule_was_known_does_not_leave(app: App, tmp_path: Path) -> None:
    # Straight to the store, past the gate that writes pass.
    app.log.append([draft(text=f"Use the key {SECRET} for the bucket, please, it is the only one we have.")], "jsonl")
    done = export_of(app, tmp_path / "all.html")
    assert SECRET not in (tmp_path / "all.html").read_text()
    assert done["redacted"]


def test_a_file_that_would_be_too_large_is_refused_with_a_way_out(app: App, tmp_path: Path) -> None:
    app.append([draft(text=f"Line {n} of a long story about the harbour wall.") for n in range(50)], "jsonl")
    size = export_of(app, tmp_path / "all.html")["bytes"]
    with pytest.raises(ResourceExhausted, match="larger than") as raised:
        export_of(app, tmp_path / "again.html", largest=size - 1)
    assert "--since" in raised.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["all.html"]
    assert export_of(app, tmp_path / "fits.html", largest=size + 8)["bytes"] == size


def test_a_long_conversation_comes_in_parts_and_whole(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app.append([draft(text=f"Step {n} of the migration is done.") for n in range(40)], "jsonl")
    export_of(app, tmp_path / "whole.html")
    monkeypatch.setattr(portable, "_CHARS", 100)
    export_of(app, tmp_path / "parts.html")
    assert (tmp_path / "parts.html").read_text() == (tmp_path / "whole.html").read_text()


@pytest.mark.usefixtures("processes")
def test_an_empty_memory_gives_a_page_that_says_so(app: App, tmp_path: Path) -> None:
    assert export_of(app, tmp_path / "all.html")["events"] == 0
    assert "0 messages in 0 segments on 0 days" in parsed(tmp_path / "all.html").text


WORDS = {
    "getHTTPValue tokens": {"gethttpvalue", "get", "http", "value", "token"},
    "snake_case_name v2": {"snake_case_name", "snake", "case", "name", "v2"},
    "Größere Straßen, ÜBERSETZER": {"grossere", "strassen", "ubersetzer"},
    "数据库迁移": {"数据", "据库", "库迁", "迁移"},
    "ガード猫": {"ガー", "ード", "ド猫"},
    "ｶﾞｰﾄﾞ": {"ガー", "ード"},
    "שָׁלוֹם עולם": {"שלום", "עולם"},
    "قَاعِدَة": {"قاعدة"},
    "한국어": {"한국", "국어"},
    "ΣΊΣΥΦΟΣ": {"σισυφοσ"},
    "policies boxes class status": {"policy", "boxe", "class", "status"},
}


@pytest.mark.parametrize("text", WORDS)
def test_terms_of_a_text(text: str) -> None:
    assert terms(text) == WORDS[text]


@pytest.mark.usefixtures("processes")
def test_the_script_takes_words_apart_as_the_index_does(browser: "Browser") -> None:
    source = files("memory_mcp.web").joinpath("static", "file_words.js").read_text(encoding="utf-8")
    every = [chr(c) for c in range(0x20, 0x3000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    texts = [*WORDS, *TEXTS, "x" * 70, "__init__ _", *("a" + "b".join(every[at : at + 40]) for at in range(0, len(every), 40))]
    with pages(browser) as page:
        page.add_script_tag(content=source)
        found = page.evaluate("(texts) => texts.map((text) => groups(text).map((group) => group.terms))", texts)
    assert [[list(group) for group in groups(text)] for text in texts] == found


QUERIES = {
    "blue-green deployments": MARKUP,
    "TOKENSTORE": ENDING,
    "token store": ENDING,
    "uebersetzer": "",
    "grossere": GERMAN,
    "Größere Straße": GERMAN,
    "数据库": CHINESE,
    "猫": "",
    "設計": JAPANESE,
    "מסד הנתונים": HEBREW,
    "قاعدة البيانات": ARABIC,
    "needle": "needle in the output",
    "constructor": "",
}


def test_on_a_phone_or_by_keys_one_searches_unfolds_asks_nobody_and_can_read_all_of_it_by_day_and_night(
    page: Path, browser: "Browser"
) -> None:
    with pages(browser, viewport={"width": 360, "height": 740}) as shown:
        fetched: list[str] = []
        shown.on("request", lambda request: fetched.append(request.url))
        shown.goto(page.as_uri())
        shown.keyboard.press("Tab")
        assert shown.evaluate("document.activeElement.className") == "skip"
        shown.keyboard.press("Tab")
        assert shown.evaluate("document.activeElement.id") == "words"
        shown.keyboard.type("tokenStore")
        shown.keyboard.press("Enter")
        assert shown.evaluate("document.activeElement.closest('#results') !== null")
        shown.keyboard.press("Enter")
        assert shown.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert shown.evaluate("document.activeElement.parentElement.open")
        for query, expected in QUERIES.items():
            shown.fill("#words", query)
            shown.press("#words", "Enter")
            results = shown.locator("#results li")
            assert bool(results.count()) == bool(expected), query
            if expected:
                results.first.locator("a").click()
                opened = shown.locator("details.segment[open]").filter(has_text=expected[:20])
                assert opened.locator(".text, pre").filter(has_text=expected[:20]).first.is_visible(), query
        assert shown.told == []
        assert fetched == [page.as_uri()]
        shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert shown.evaluate("document.documentElement.scrollWidth") <= 360
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            assert least_contrast(shown) >= 4.5, scheme


def test_without_script_everything_can_be_unfolded(page: Path, browser: "Browser") -> None:
    with pages(browser, java_script_enabled=False) as shown:
        shown.goto(page.as_uri())
        assert not shown.locator("#search").is_visible()
        for level in ("month", "week", "day"):
            shown.locator(f"details.level-{level}:not([open]) > summary").first.click()
        segment = shown.locator("details.segment").first
        segment.locator("summary").first.click()
        segment.locator("details.conversation > summary").click()
        assert segment.locator(".text").first.is_visible()


def least_contrast(shown: Any) -> float:
    """The least contrast of any text against what lies behind it."""
    return float(
        shown.evaluate(
            """() => {
              const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
              const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92
                : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
              const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
              let least = 21;
              for (const e of document.body.querySelectorAll("*")) {
                if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest("script, .fence")) continue;
                const a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
                least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
              }
              return least;
            }"""
        )
    )
