"""What other pages, other browsers and other servers get of the explorer, seen from a real browser: nothing."""

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from bench.place import Place
from memory_mcp.web.registry import ACTS, FIRST
from memory_mcp.web.visits import COOKIE
from tests.waiting import until
from tests.web.conftest import Tabs, Visit, address
from tests.web.foreign import Foreign, elsewhere

if TYPE_CHECKING:
    from playwright.sync_api import Page

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
    audit = [line for line in place.ok("audit", "--json").splitlines() if '"at"' in line] if "audit" in _commands(place) else []
    return json.dumps({k: v for k, v in stats.items() if k in ("events", "nodes", "grips", "pins")}), *audit


def _commands(place: Place) -> str:
    return place.ok("--help")


def form(page: "Page", action: str, fields: dict[str, str]) -> None:
    """Let a page send a form by itself, into this tab."""
    script = """([action, fields]) => {
        const form = document.createElement('form'); form.method = 'post'; form.action = action;
        for (const [name, value] of Object.entries(fields)) {
            const input = document.createElement('input'); input.name = name; input.value = value; form.append(input); }
        document.body.append(form); form.submit(); }"""
    with page.expect_navigation():
        page.evaluate(script, [action, fields])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_port_or_name_reads_and_changes_nothing(tab: Visit, foreign: Foreign, served: Place, host: str) -> None:
    """Another port is the same site to a browser, so that it sends the cookie along; the server refuses all the same."""
    token = tab.go("status").evaluate("document.body.dataset.token")
    before = changed(served)
    other = beside(tab, foreign.url(host))
    wanted = {"a stream": "live", "a picture": "icon", "a style sheet": "style", "a script of ours": "script"}
    links = dict(
        zip(
            ("style", "icon", "script"),
            tab.page.evaluate("[...document.head.querySelectorAll('[href], [src]')].map(e => e.href || e.src)"),
            strict=True,
        )
    )
    for name, script in ATTEMPTS.items():
        url = links.get(wanted.get(name, ""), f"{tab.base}/{wanted.get(name, 'status')}")
        try:
            got = other.evaluate(script, url)
        except Exception as error:
            got = f"refused: {error}"
        # An opaque response tells a page nothing, not even its status.
        assert got.startswith(("refused", "opaque0")), (name, got)
    page = beside(tab, foreign.url(host))
    # One guard stands before all of them. Without the cookie it says so before it looks at the act.
    for act in (*list(ACTS)[:: 4 if host == "127.0.0.1" else 16], "nothing"):
        page.goto(foreign.url(host))
        form(page, f"{tab.base}/do/{act}", {"token": token, "id": "toc:year:2026", "on": "true"})
        # To another name of this machine the browser sends no cookie at all.
        refusal = "another page made the browser ask" if host == "127.0.0.1" else "this visit has ended"
        assert refusal in page.inner_text("body"), act
    assert changed(served) == before
    page.close()
    other.close()


def test_a_window_that_another_page_opens_shows_nothing(tab: Visit, foreign: Foreign) -> None:
    for host in ("127.0.0.1", "localhost"):
        other = beside(tab, foreign.url(host))
        with other.expect_popup() as opened:
            other.evaluate("url => { window.opened = window.open(url); }", f"{tab.base}/{FIRST}")
        popup = opened.value
        popup.wait_for_load_state()
        assert not any(word in popup.content() for word in PAGE_WORDS)
        # Our pages part with whoever opened them.
        until(partial(other.evaluate, "window.opened.closed"), "the opener's hold to end")
        popup.close()
        other.evaluate("url => { location.href = url; }", f"{tab.base}/{FIRST}")
        other.wait_for_url(f"{tab.base}/{FIRST}")
        assert not any(word in other.content() for word in PAGE_WORDS)
        other.close()


def test_the_cookie_is_sent_to_no_other_server(tab: Visit, foreign: Foreign) -> None:
    """Cookies know no ports: what keeps this one here is that its address cannot be guessed."""
    [cookie] = tab.page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (
        COOKIE,
        True,
        "Strict",
        urlsplit(tab.base).path,
    )
    assert tab.go("status").evaluate("document.cookie") == ""
    page = beside(tab, foreign.url())
    for path in ("/ui/", "/ui/enter/x", "/ui/x/tree", "/mcp"):
        page.goto(foreign.url() + path)
        page.evaluate("path => fetch(path, {method: 'POST', credentials: 'include', body: 'x'})", path)
    assert len(foreign.seen) >= 8
    assert [path for _, path, headers in foreign.seen if "cookie" in headers or cookie["value"] in str(headers)] == []
    page.close()


def test_another_browser_with_the_copied_address_gets_nothing(tabs: Tabs, tab: Visit, served: Place) -> None:
    url = address(served)
    first, other = tabs.open(), tab.page.context.browser
    assert other is not None
    context = other.new_context()
    tabs.contexts.append(context)
    page = context.new_page()
    page.goto(f"{first.base}/{FIRST}")
    assert "another browser's" in page.inner_text("body")
    page.goto(url)
    page.wait_for_url(lambda found: "/ui/enter/" not in found)
    again = tab.page.context.new_page()
    again.goto(url)
    assert "opens nothing any more" in again.inner_text("body")
    again.close()


def test_a_link_that_leads_out_tells_nobody_where_it_was(tab: Visit, foreign: Foreign) -> None:
    """The address of a page is half of what lets a browser in."""
    page = tab.go("status")
    page.evaluate(
        "url => { const a = document.createElement('a'); a.href = url; a.rel = 'opener'; document.body.append(a); a.click(); }",
        foreign.url(),
    )
    tab.wrong.clear()
    page.wait_for_url(f"{foreign.url()}/")
    tab.wrong.clear()
    assert foreign.seen
    assert [headers.get("referer") for _, path, headers in foreign.seen if path == "/"] == [None]
    assert page.evaluate("document.referrer") == ""


def test_nothing_that_gets_into_a_page_runs_or_leads_out(tab: Visit, foreign: Foreign) -> None:
    """Should a template ever let markup through, the policy is what is left: the browser refuses it."""
    page = tab.go("status")
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
    assert page.url.startswith(tab.base)
    assert foreign.seen == []
    assert len(tab.wrong) >= 4
    tab.wrong.clear()
