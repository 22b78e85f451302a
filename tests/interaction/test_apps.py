"""Pages for clients that show them (extension io.modelcontextprotocol/ui): who is told of them, and what they do in a host."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, stdio_client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.types import TextResourceContents

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.model.event import Role
from memory_mcp.requests.entry import EVIDENCE_PAGE as EVIDENCE
from memory_mcp.requests.entry import TIMELINE_PAGE as TIMELINE
from memory_mcp.server.build import build_server
from tests.browser import pages
from tests.daemon.inside import SERVED
from tests.daemon.places import needs_proc
from tests.factories import draft
from tests.interaction.conftest import ERAS, Door, open_app
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SHOWS = (advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]}),)
BOUND = {"intelligent_search": EVIDENCE, "browse_toc": TIMELINE, "expand_grip": EVIDENCE}
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> We decided to rotate the harbour key \u202eevery week."
ANSWER = "Noted: the harbour key rotates weekly, and </script> changes nothing."


async def told(client: Client) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """What a client is told: `_meta` by tool, the resources listed, and each page as it is read."""
    tools = {tool.name: tool.meta for tool in (await client.list_tools()).tools if tool.meta}
    listed = [str(one.uri) for one in (await client.list_resources()).resources]
    read = {}
    for uri in (TIMELINE, EVIDENCE):
        [content] = (await client.read_resource(uri)).contents
        read[uri] = content
    return tools, listed, read


async def asked(server: Any, era: str, extensions: Sequence[Any]) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    with anyio.fail_after(PATIENCE):
        async with Client(server, mode=era, extensions=extensions) as client:
            return await told(client)


def check(tools: dict[str, Any], listed: list[str], read: dict[str, Any], shows: bool) -> None:
    assert {name: meta["ui"]["resourceUri"] for name, meta in tools.items() if "ui" in meta} == BOUND
    assert listed == ["memory://status", *((TIMELINE, EVIDENCE) if shows else ())]
    for content in read.values():
        assert content.mime_type == APP_MIME_TYPE
        assert content.meta["ui"] == {"csp": {}, "prefersBorder": True}
        assert content.text.startswith("<!DOCTYPE html>")
        # Nothing is fetched, and nothing becomes markup.
        for sign in ("http:", "https:", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "import("):
            assert sign not in content.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("shows", [True, False])
def test_pages_are_listed_for_clients_that_show_them_and_read_by_any(shared_app: App, era: str, shows: bool) -> None:
    server = build_server(shared_app, "")
    check(*anyio.run(asked, server, era, SHOWS if shows else ()), shows)


@needs_proc
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.usefixtures("processes")
def test_the_installed_server_tells_a_client_on_stdio_of_its_pages(tmp_path: Path, era: str) -> None:
    with Place(tmp_path, profile="default", more=SERVED) as place:

        async def both() -> None:
            for extensions in (SHOWS, ()):
                check(*await asked(stdio_client(place.server()), era, extensions), shows=bool(extensions))

        anyio.run(both)


# In a browser

HOST = """<!DOCTYPE html><meta charset="utf-8"><title>Host</title>
<iframe id="view" sandbox="allow-scripts" width="360" height="600"></iframe><script>
const seen = [];
const frame = document.getElementById("view");
const tell = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
let settings = {};
window.addEventListener("message", async ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  seen.push(data);
  if (data.method === "ui/initialize") tell({ id: data.id, result: { protocolVersion: "2026-01-26",
    hostInfo: { name: "tests", version: "1" }, hostCapabilities: settings.capabilities, hostContext: settings.context } });
  if (data.method === "ui/notifications/initialized") {
    tell({ method: "ui/notifications/tool-input", params: { arguments: settings.arguments } });
    tell({ method: "ui/notifications/tool-result", params: settings.result });
  }
  if (data.method === "tools/call") {
    tell({ id: data.id, result: await window.call_tool(data.params.name, data.params.arguments) });
  }
});
function show(html, told) { settings = told; frame.srcdoc = html; }
</script>"""


@pytest.fixture(scope="module")
def hostile() -> Iterator[Door]:
    app = open_app(days=None)
    drafts = [draft(f"Step {n} of the harbour plan is done.", at=f"2026-01-{n + 1:02} 10:00", session=f"s{n}") for n in range(25)]
    drafts += [
        draft(HOSTILE, at="2026-02-03 10:00", session="keys", role=Role.USER),
        draft(ANSWER, at="2026-02-03 10:01", session="keys", role=Role.ASSISTANT),
    ]
    app.write(drafts, "jsonl")
    app.derivation.run()
    yield Door(app, "auto")
    app.close()


class Shown:
    """A host page with a view in it."""

    def __init__(self, door: Door, page: Any) -> None:
        self.page = page
        self.frame = page.frame_locator("#view")
        self._door = door
        self._threads = ThreadPoolExecutor(1)
        page.expose_function("call_tool", self.call)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of the real server, from a thread of its own: the browser's loop runs in this one."""
        found = self._threads.submit(lambda: self._door.call(name, **arguments)).result(PATIENCE)
        return found.model_dump(mode="json", by_alias=True, exclude_none=True)

    def show(self, uri: str, tool: str, arguments: dict[str, Any], tools: bool = True, theme: str = "light") -> None:
        html = self._threads.submit(lambda: self._door.run(lambda client: client.read_resource(uri))).result(PATIENCE)
        [content] = html.contents
        assert isinstance(content, TextResourceContents)
        told = {
            "capabilities": {"serverTools": {}} if tools else {},
            "context": {"theme": theme},
            "arguments": arguments,
            "result": self.call(tool, arguments),
        }
        self.page.evaluate("([html, told]) => show(html, told)", [content.text, told])
        self.frame.locator("h1, blockquote, .warn").first.wait_for()

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [one["params"] for one in json.loads(self.page.evaluate("JSON.stringify(seen)")) if one.get("method") == method]


@pytest.fixture(scope="module")
def standing(hostile: Door, browser: "Browser") -> Iterator[Shown]:
    """One tab for all tests: opening one costs more than what is done in it."""
    with pages(browser) as page:
        yield Shown(hostile, page)


@pytest.fixture
def host(standing: Shown) -> Iterator[Shown]:
    standing.page.goto("about:blank")
    standing.page.set_content(HOST)
    yield standing
    assert standing.page.told == []


@pytest.mark.usefixtures("processes")
def test_the_evidence_of_a_search_is_shown_as_text_and_each_quotation_opens(host: Shown) -> None:
    host.show(EVIDENCE, "intelligent_search", {"query": "harbour key rotation"})
    card = host.frame.locator(".card").filter(has_text="<img src=x onerror=alert(1)>")
    assert "\ufffdevery week" in card.inner_text()
    assert host.frame.locator("img").count() == 0
    card.get_by_role("button", name="In context").click()
    around = card.locator(".context")
    around.get_by_text("</script> changes nothing").wait_for()
    assert "stored word for word" in around.inner_text()
    [call] = host.seen("tools/call")
    assert call["name"] == "expand_grip"
    [hello] = host.seen("ui/initialize")
    assert hello["protocolVersion"] == "2026-01-26"
    assert hello["appInfo"]["name"] == "memory-mcp evidence"
    assert all(one["width"] > 0 and one["height"] > 0 for one in host.seen("ui/notifications/size-changed"))


def test_the_evidence_of_a_grip_is_its_conversation(host: Shown, hostile: Door) -> None:
    grip = host.call("intelligent_search", {"query": "harbour key"})["structuredContent"]["results"][0]["grip"]
    host.show(EVIDENCE, "expand_grip", {"grip_id": grip})
    assert host.frame.locator(".said.cited").count() == 1
    assert host.frame.locator(".said").count() == 2


def test_more_results_come_when_asked_for(host: Shown) -> None:
    host.show(EVIDENCE, "intelligent_search", {"query": "harbour plan", "limit": 2})
    cards = host.frame.locator("ol > .card")
    before = cards.count()
    host.frame.get_by_role("button", name="More").click()
    cards.nth(before).wait_for()
    assert host.seen("tools/call")[0]["arguments"]["query"] == "harbour plan"


def test_the_timeline_leads_from_the_years_to_a_statement_and_back(host: Shown) -> None:
    host.show(TIMELINE, "browse_toc", {"scope": "all"})
    for level in ("Years", "2026", "February", "W06", "3 Feb"):
        if level != "Years":
            host.frame.get_by_role("button").filter(has_text=level).first.click()
            host.frame.locator("h1").filter(has_text=level).wait_for()
    host.frame.locator(".child").first.click()
    host.frame.locator("h1").filter(has_text="2026-02-03").wait_for()
    host.frame.get_by_role("button", name="In context").first.click()
    host.frame.locator(".context .said").first.wait_for()
    host.frame.get_by_role("button", name="Up").click()
    host.frame.locator("h1").filter(has_text="3 Feb").wait_for()
    assert all(call["arguments"].get("scope") == "all" for call in host.seen("tools/call") if call["name"] == "browse_toc")
    assert host.frame.locator("img").count() == 0


def test_a_host_that_calls_no_tools_gets_no_buttons(host: Shown) -> None:
    host.show(TIMELINE, "browse_toc", {}, tools=False)
    assert host.frame.get_by_role("button").count() == 0
    assert host.frame.locator(".child").count() >= 1


def test_a_refusal_is_told_in_its_own_words(host: Shown) -> None:
    host.show(EVIDENCE, "expand_grip", {"grip_id": "grip:1:0000000000000000"})
    assert "NOT_FOUND" in host.frame.locator("main").inner_text()


def test_the_view_wears_the_hosts_colours_and_answers_it(host: Shown) -> None:
    host.show(TIMELINE, "browse_toc", {}, theme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    view = host.page.frames[1]
    assert view.evaluate(paper) == "rgb(27, 30, 35)"
    changed = {"method": "ui/notifications/host-context-changed", "params": {"theme": "light"}}
    host.page.evaluate("(message) => tell(message)", changed)
    view.wait_for_function(f"{paper} === 'rgb(255, 255, 255)'")
    host.page.evaluate("tell({ id: 900, method: 'ui/resource-teardown', params: { reason: 'closed' } })")
    host.page.evaluate("tell({ id: 901, method: 'no/such', params: {} })")
    host.page.wait_for_function("seen.some((one) => one.id === 901 && one.error)")
    answers = [one for one in json.loads(host.page.evaluate("JSON.stringify(seen)")) if one.get("id") in (900, 901)]
    assert [("result" in one, "error" in one) for one in answers] == [(True, False), (False, True)]
