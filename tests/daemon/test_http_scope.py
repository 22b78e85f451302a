"""`server.scope_lock` over HTTP, by a server process: the requests of a pipe, and sessions that stay with their project."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.daemon.http_client import Caller, served
from tests.daemon.inside import WORDS, Beside
from tests.daemon.places import DAEMON, needs_proc
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import history
from tests.interaction.test_scope_lock import BY_ID, FOREIGN, LISTS, REFUSED, REFUSES, SCOPED, Ids, _unlike
from tests.waiting import PATIENCE, until

pytestmark = needs_proc

LOCKED = {"MEMORY_MCP_SERVER__SCOPE_LOCK": "true"}
#: Messages of the older transport.
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Caller]:
    """A caller whose project is not known; the indexes of meaning and of topics are there in the long form."""
    folder = tmp_path_factory.mktemp("locked")
    fields = ("session_id", "timestamp", "role", "text", "project", "agent")
    lines = [{name: getattr(draft, name) for name in fields} for draft in history()]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Beside(folder, more=(DAEMON if request.config.getoption("--slow") else WORDS) | LOCKED) as place:
        place.ok("import", "jsonl", str(folder / "history.jsonl"))
        with served(place) as caller:
            yield caller


@pytest.fixture(scope="module", params=["newest", "session"])
def shop(request: pytest.FixtureRequest, nobody: Caller) -> Caller:
    """A caller that is bound to one of the two projects, in either era."""
    caller = replace(nobody, project=SHOP)
    return caller.begin() if request.param == "session" else caller


def ids(caller: Caller) -> Ids:
    hit = caller.ok("intelligent_search", query="decided", detail="full")["results"][0]
    event = caller.ok("get_events", session_id=hit["session_id"])["events"][0]
    node = caller.node_of(hit["grip_ids"][0])
    return Ids(hit["grip_ids"][0], node, hit["session_id"], event["event_id"])


@pytest.fixture(scope="module")
def other(nobody: Caller) -> Ids:
    return ids(replace(nobody, project=BILLING))


@pytest.fixture(scope="module")
def own(nobody: Caller) -> Ids:
    return ids(replace(nobody, project=SHOP))


def plain(result: Mapping[str, Any]) -> str:
    return json.dumps(result)


@pytest.mark.parametrize("tool", [tool for tool in BY_ID if tool not in ("correct", "retract")])
@pytest.mark.few(12)
def test_an_id_of_another_project_does_not_exist(shop: Caller, own: Ids, other: Ids, tool: str) -> None:
    there = shop.error(tool, **BY_ID[tool](other))
    assert there.startswith("NOT_FOUND")
    nothing = Ids(*(_unlike(x) for x in (other.grip, other.node, other.session, other.event)))
    nowhere = shop.error(tool, **BY_ID[tool](nothing))
    for name in ("grip", "node", "event"):
        there, nowhere = there.replace(getattr(other, name), name), nowhere.replace(getattr(nothing, name), name)
    assert there == nowhere
    shop.ok(tool, **BY_ID[tool](own))


@pytest.mark.parametrize("tool", SCOPED)
@pytest.mark.few(22)
def test_nothing_but_its_own_project_can_be_named_or_is_told(shop: Caller, tool: str) -> None:
    for asked in ({"scope": "all"}, {"project": BILLING}):
        assert shop.error(tool, **SCOPED[tool], **asked).startswith(REFUSED)
    said = plain(shop.call(tool, **SCOPED[tool]))
    assert not [word for word in FOREIGN if word in said]
    if tool == "get_events":
        assert SHOP in said


def test_lists_name_its_own_and_what_concerns_all_is_refused(shop: Caller) -> None:
    for tool, arguments in LISTS.items():
        said = plain(shop.ok(tool, **arguments))
        assert SHOP in said
        assert not [word for word in FOREIGN if word in said], tool
    for tool, arguments in REFUSES.items():
        assert "concerns more than the project of this connection" in shop.error(tool, **arguments), tool


def test_resources_completions_and_prompts_know_nothing_of_another(shop: Caller, own: Ids, other: Ids) -> None:
    for kind, name in (("grip", "grip"), ("session", "session"), ("toc", "node")):
        assert "contents" in shop.ask("resources/read", uri=f"memory://{kind}/{getattr(own, name)}")
        assert "error" in shop.ask("resources/read", uri=f"memory://{kind}/{getattr(other, name)}")
    ref = {"type": "ref/resource", "uri": "memory://session/{+session_id}"}
    for name in ("project", "agent", "session_id"):
        found = shop.ask("completion/complete", ref=ref, argument={"name": name, "value": ""})["completion"]["values"]
        assert found
        assert not [v for v in found if any(word in v for word in FOREIGN) or v == other.session]
    for name, arguments in (
        ("recall", {"topic": "billing invoice ledger"}),
        ("what_did_we_decide", {"about": "ledger"}),
        ("weekly_digest", {"week": "2026-W04"}),
        ("continue_session", {}),
    ):
        said = plain(shop.ask("prompts/get", name=name, arguments=arguments)["messages"])
        assert not [word for word in FOREIGN if word in said.replace("billing invoice ledger", "").replace("about: ledger", "")]
    assert "error" in shop.ask("prompts/get", name="continue_session", arguments={"session_id": other.session})


@pytest.mark.parametrize("project", ["", " ", "\t"])
def test_a_caller_without_a_project_is_refused(nobody: Caller, project: str) -> None:
    more = {"Memory-Project": project} if project else {}
    assert "none is known" in replace(nobody, more=more).error("intelligent_search", query="decided")


@pytest.mark.parametrize("project", ["*", "all", "%", "github.com/acme/*", "acme/..", ".", "/", "github.com"])
def test_no_spelling_of_a_project_means_several(nobody: Caller, project: str) -> None:
    answer = replace(nobody, project=project).ok("intelligent_search", query="decided cause ledger", limit=50)
    # The question's own words that occur nowhere in the project come back as they were asked, and nothing of another beside them.
    missing = answer.pop("missing")
    said = plain(answer)
    assert missing == ["cause", "ledger"]
    assert not [word for word in (*FOREIGN[1:], "single-use") if word in said]


def test_two_projects_in_one_request_are_refused(nobody: Caller) -> None:
    connection = http.client.HTTPConnection(urlsplit(nobody.url).netloc, timeout=PATIENCE)
    connection.putrequest("GET", "/health")
    for name, value in (*nobody.headers().items(), ("Memory-Project", SHOP), ("memory-project", BILLING)):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["error"]["message"]) == (400, "the Memory-Project header comes twice")
    connection.close()


@pytest.mark.parametrize("project", [BILLING, "", "billing"])
def test_a_session_stays_with_the_project_that_began_it(nobody: Caller, project: str) -> None:
    begun = replace(nobody, project=SHOP).begin()
    thief = replace(begun, project=project)
    asked = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "get_events", "arguments": {}}})
    for method, body in (("POST", asked.encode()), ("GET", None), ("DELETE", None)):
        status, _, answer = thief.send(method, "/mcp", body, Last_Event_ID="1")
        assert (status, json.loads(answer)["error"]["message"]) == (404, "Session not found"), method
    assert begun.ok("get_events")["events"]
    assert begun.send("DELETE", "/mcp")[0] == 200
    assert begun.send("POST", "/mcp", asked.encode())[0] == 404


def test_a_stream_of_the_older_transport_stays_with_the_project_that_began_it(nobody: Caller) -> None:
    shop = replace(nobody, project=SHOP)
    connection = http.client.HTTPConnection(urlsplit(nobody.url).netloc, timeout=PATIENCE)
    connection.request("GET", "/sse", headers=shop.headers())
    stream = connection.getresponse()
    heard: list[bytes] = []

    def listen() -> None:
        while line := stream.fp.readline():
            heard.append(line)

    threading.Thread(target=listen, daemon=True).start()
    until(lambda: any(line.startswith(b"data: ") for line in heard))
    place = next(line for line in heard if line.startswith(b"data: "))[6:].strip().decode()
    events = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "get_events", "arguments": {"limit": 100}}}
    for message in (HELLO, READY):
        assert shop.send("POST", place, json.dumps(message).encode())[0] == 202
    for project in (BILLING, ""):
        assert replace(shop, project=project).send("POST", place, json.dumps(events | {"id": 2}).encode())[0] == 404
    assert shop.send("POST", place, json.dumps(events | {"id": 3}).encode())[0] == 202
    until(lambda: any(b'"id":3' in line for line in heard))
    said = b"".join(heard)
    assert SHOP.encode() in said
    assert BILLING.encode() not in said
    assert b'"id":2' not in said
    connection.sock.close() if connection.sock else stream.close()


def test_callers_of_two_projects_at_once_get_their_own(nobody: Caller) -> None:
    """The newest revision without sessions, and sessions, all through one server."""
    callers = [replace(nobody, project=project) for project in (SHOP, BILLING)]
    callers += [caller.begin() for caller in callers]

    def ask(number: int) -> tuple[bool, bool]:
        caller = callers[number % 4]
        said = plain(caller.ok("get_events", limit=20))
        return caller.project in said, (BILLING if caller.project == SHOP else SHOP) in said

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(ask, range(24))) == {(True, False)}


def test_a_stream_that_asks_for_what_it_missed_begins_anew(nobody: Caller) -> None:
    """Nothing is kept to be sent again; a client that lost its connection is given a stream all the same."""
    begun = replace(nobody, project=SHOP).begin()
    connection = http.client.HTTPConnection(urlsplit(nobody.url).netloc, timeout=PATIENCE)
    connection.request("GET", "/mcp", headers=begun.headers() | {"Last-Event-ID": "7"})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Content-Type", "").partition(";")[0]) == (200, "text/event-stream")
    connection.close()


def test_the_routes_beside_the_protocol_name_no_project(nobody: Caller, tmp_path: Path) -> None:
    for path in ("/health", "/metrics"):
        status, _, body = nobody.send("GET", path)
        assert status == 200
        assert not [word for word in (SHOP, *FOREIGN) if word.encode() in body]
