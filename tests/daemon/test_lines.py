"""Whatever bytes a client sends on its pipe: each message that has an id is answered, and the session goes on."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place, wait_for
from memory_mcp.base import lines
from memory_mcp.service.client import link
from memory_mcp.service.client.door import connect
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import look, needs_proc
from tests.waiting import PATIENCE, until

pytestmark = needs_proc

#: A surrogate without its other half, as JavaScript writes an emoji that was cut in two.
LONE = "\\ud83d"
#: Ids as they are written: JSON-RPC allows any text and any number.
ODD_IDS = ("1.5", "-0.25", "1e3", '""', "0", "-3", "123456789012345678901234567890", '"a\\u0000b"', '"7"', '"1.5"')


def message(number: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


HELLO = message(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "raw", "version": "1"})


def remember(number: Any, text: str) -> bytes:
    """A call whose text stands in the line as it is."""
    return message(number, "tools/call", name="remember", arguments={"text": "TEXT"}).replace(b'"TEXT"', text.encode())


class Raw:
    """A client that writes bytes."""

    def __init__(self, place: Place, *words: str, greets: bool = True) -> None:
        self.process = subprocess.Popen(
            [*place.command, *words],
            env=place.environment(),
            cwd=place.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if greets:
            assert self.ask(HELLO)["result"]["serverInfo"]["name"] == "memory-mcp"
            self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, line: bytes) -> dict[str, Any]:
        self.say(line)
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One whose daemon is started by whoever needs it first, for clients of their own."""
    with Beside(tmp_path_factory.mktemp("served"), more=SERVED) as place:
        yield place


@pytest.fixture(scope="module", params=["relay", "in process"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, served: Place) -> Iterator[Raw]:
    with Place(tmp_path_factory.mktemp("lines"), more=SERVED) as alone:
        place = served if request.param == "relay" else alone
        found = Raw(place, *([] if request.param == "relay" else ["serve", "--in-process"]))
        yield found
        status, said = found.end()
        assert status == 0
        assert "Traceback" not in said


def hold(place: Place, *words: str) -> "subprocess.Popen[bytes]":
    """A process that has the store to itself."""
    holder = subprocess.Popen(
        [*place.command, *words], env=place.environment(), cwd=place.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    until(lambda: holder.pid in place.owners())
    return holder


@pytest.mark.parametrize("how", ["killed", "closed"])
@pytest.mark.few(1)
def test_clients_that_came_while_another_process_had_the_store_go_over_to_one_daemon(
    served: Place, how: str, request: pytest.FixtureRequest
) -> None:
    """None of them becomes its owner when that process ends, and none notices more than that its calls work."""
    place = served
    place.stop()
    holder = hold(place, "serve", "--in-process")
    clients = [Raw(place) for _ in range(2 if request.config.getoption("--slow") else 1)]
    for client in clients:
        assert client.ask(message(0, "tools/list"))["result"]["tools"]
        found = client.ask(message(1, "tools/call", name="browse_toc", arguments={}))
        assert found["result"]["isError"]
        assert found["result"]["content"][0]["text"].startswith("LOCKED: "), found
        assert f"(process {holder.pid})" in found["result"]["content"][0]["text"]
    if how == "killed":
        holder.kill()
    holder.communicate(timeout=PATIENCE)
    for number, client in enumerate(clients):
        stored = client.ask(remember(2, f'"We decided on tabs, said {number}."'))
        assert not stored["result"].get("isError", False), stored
    assert place.owners() == {look(place)["pid"]}
    # Those that stood in are gone.
    until(lambda: not [seen for seen in place.processes().values() if "--held" in seen.command])
    assert {client.end()[0] for client in clients} == {0}


def goes_on(client: Raw) -> None:
    assert client.ask(message("after", "ping")) == {"jsonrpc": "2.0", "id": "after", "result": {}}


def nested(number: int, levels: int) -> bytes:
    return remember(number, "[" * levels + "]" * levels)


def test_half_an_emoji_is_stored_as_the_sign_for_what_cannot_be_read(client: Raw) -> None:
    stored = client.ask(remember(1, f'"We decided {LONE} on tabs."'))
    assert not stored["result"].get("isError", False)
    grip = stored["result"]["structuredContent"]["grip_id"]
    opened = client.ask(message(2, "tools/call", name="expand_grip", arguments={"grip_id": grip}))
    assert "We decided \ufffd on tabs." in json.dumps(opened, ensure_ascii=False)


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (nested(3, 800), 3, lines.INVALID_REQUEST),
        (nested(4, 20_000), 4, lines.INVALID_REQUEST),
        (remember(5, '"TEXT"').replace(b"TEXT", b"\xff\xfe"), 5, lines.PARSE_ERROR),
        (remember(6, '"TEXT"').replace(b"TEXT", b"\xed\xa0\xbd"), 6, lines.PARSE_ERROR),
        (b"hello", None, lines.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list"', 7, lines.PARSE_ERROR),
        (b"[" + message(8, "ping") + b"]", None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":9,"method":4}', 9, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":"x","method":"ping","params":[1]}', "x", lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"method":4}', 1.5, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"', 1.5, lines.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', None, lines.INVALID_REQUEST),
        (b"\0" * 40, None, lines.PARSE_ERROR),
        (b"a" * 20_000_000, None, lines.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}', "\ud83d", lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":10}', 10, lines.INVALID_REQUEST),
        (b'\0{"jsonrpc":"2.0","id":11,"method":"ping"}', 11, lines.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":"caf\xe9","method":"ping"}', None, lines.PARSE_ERROR),
        # An answer's id is one of the server's, and may be that of a call of the client's, too.
        (b'{"jsonrpc":"2.0","id":"after","result":' + b'{"x":' * 150 + b"1" + b"}" * 150 + b"}", None, lines.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":"after","result":' + b'{"x":' * 9000 + b"1" + b"}" * 9000 + b"}", None, lines.INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_answered_with_its_id_where_it_has_one(client: Raw, line: bytes, number: Any, code: int) -> None:
    found = client.ask(line)
    assert (found["id"], found["error"]["code"]) == (number, code)
    goes_on(client)


@pytest.mark.parametrize("number", ODD_IDS)
def test_each_id_that_json_rpc_allows_is_answered_as_it_came(client: Raw, number: str) -> None:
    """With a token of progress that is null, as some clients send it, or a fraction."""
    for token in ("null", "2.5"):
        meta = f'"params":{{"name":"browse_toc","arguments":{{}},"_meta":{{"progressToken":{token}}}}}'
        client.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7.5}}')
        answer = client.ask(f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call",{meta}}}'.encode())
        assert (answer["id"], answer["result"]["isError"]) == (json.loads(number), False)
    goes_on(client)


@pytest.mark.parametrize("first", [True, False])
def test_a_line_that_is_longer_than_is_taken_is_answered_and_skipped(client: Raw, first: bool) -> None:
    """Clients write the id at either end of a message."""
    number, text = b'"jsonrpc":"2.0","id":11', b'"params":{"name":"remember","arguments":{"text":"'
    assert client.process.stdin is not None
    client.process.stdin.write(b'{"method":"tools/call",' + (number + b"," if first else b"") + text)
    for _ in range(65):
        client.process.stdin.write(b"a" * 2**20)
    found = client.ask(b'"}}' + (b"" if first else b"," + number) + b"}")
    assert found["id"] == 11
    assert "RESOURCE_EXHAUSTED: the message is longer than 67108864 bytes" in found["error"]["message"]
    goes_on(client)


def test_a_mark_before_the_first_line_and_any_end_of_a_line_are_taken(client: Raw) -> None:
    client.say(b"\xef\xbb\xbf" + message(12, "ping") + b"\r" + message(13, "ping") + b"\r")
    assert client.process.stdout is not None
    answers = [json.loads(client.process.stdout.readline()) for _ in range(2)]
    assert sorted(found["id"] for found in answers if "result" in found) == [12, 13]
    goes_on(client)


def test_a_client_that_takes_no_answers_is_not_read_on_and_holds_up_nobody_else(served: Place) -> None:
    """What it asks for and does not take would else fill the memory of the process that everybody shares."""
    count, pad = 300, "x" * 10_000
    other = Raw(served)
    sent: list[int] = []
    line = link.exchange_hellos(connect(str(served.directory)), "mcp", link.Wanted(str(served.directory)))
    line.sock.sendall(HELLO + b"\n")

    def ask() -> None:
        for number in range(1, count + 1):
            line.sock.sendall(message(number, "prompts/list", _meta={"pad": pad}) + b"\n")
            sent.append(number)

    asking = threading.Thread(target=ask)
    asking.start()
    assert not wait_for(lambda: len(sent) == count, 5)
    goes_on(other)
    assert "result" in other.ask(message("call", "tools/call", name="browse_toc", arguments={}))
    answered = [line.receive()["id"] for _ in range(count + 1)]
    assert sorted(answered) == list(range(count + 1))
    asking.join()
    line.close()
    other.end()


def test_an_empty_line_is_nothing(client: Raw) -> None:
    client.say(b"")
    goes_on(client)


def test_a_line_that_the_client_leaves_unfinished_is_answered(served: Place) -> None:
    told, _ = Raw(served).process.communicate(message(1, "ping")[:-1], timeout=PATIENCE)
    assert json.loads(told)["error"]["code"] == lines.PARSE_ERROR


class Counted(bytes):
    """A chunk that counts how often it is searched."""

    searched = 0

    def split(self, *words: Any) -> list[bytes]:
        Counted.searched += len(self)
        return super().split(*words)


def test_a_long_line_is_searched_once_however_it_comes() -> None:
    splitter = lines.Splitter(longest=1000)
    for _ in range(100):
        assert splitter.feed(Counted(b"a" * 100)) == []
    assert splitter.feed(Counted(b"end\nnext\n")) == [lines.Cut(b"a" * 1100, (b"a" * 10_000 + b"end")[-4096:]), b"next"]
    assert Counted.searched == 100 * 100 + 9


@pytest.mark.slow  # in the short form: one that is closed later, `client`.
def test_in_process_an_early_close_ends_clean(tmp_path: Path) -> None:
    """The store is still being opened, and stdin waited for, when the client goes."""
    done = Place(tmp_path).run("serve", "--in-process")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("year", ["0001", "9999"])
def test_times_at_the_ends_of_the_calendar_are_refused(client: Raw, year: str) -> None:
    event = {"session_id": "s", "role": "user", "text": "We decided on tabs."}
    moment = f"{year}-12-31T23:00:00"
    for tool, arguments in (
        ("intelligent_search", {"query": "tabs", "since": moment}),
        ("intelligent_search", {"query": "tabs", "until": moment}),
        ("intelligent_search", {"query": "tabs next year", "as_of": moment}),
        ("ingest_events", {"events": [{**event, "timestamp": moment}]}),
    ):
        result = client.ask(message(20, "tools/call", name=tool, arguments=arguments))["result"]
        assert result["isError"]
        assert result["content"][0]["text"].startswith("INVALID_ARGUMENT: "), (arguments, result)


@pytest.mark.slow  # in the short form: a client whose daemon is killed, test_pump.
def test_a_daemon_whose_first_starts_fail_is_tried_for_until_it_runs(tmp_path: Path) -> None:
    """The client is greeted by it, and nobody else has opened the store."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"count = {str(site / 'count')!r}\n"
        "if sys.orig_argv[-4:-2] == ['daemon', 'run'] and (not os.path.exists(count) or os.path.getsize(count) < 3):\n"
        "    open(count, 'a').write('x')\n"
        "    os._exit(1)\n"
    )
    with Place(tmp_path / "place", more=SERVED | {"PYTHONPATH": str(site)}) as place:
        client = Raw(place)
        stored = client.ask(remember(1, '"We decided on tabs."'))
        assert not stored["result"].get("isError", False)
        assert (site / "count").read_text() == "xxx"
        assert place.owners() == {look(place)["pid"]}
        assert client.end()[0] == 0


@pytest.mark.slow  # in the short form: that another process has the store, below.
def test_a_client_is_told_why_no_daemon_can_be_had_and_served_when_one_can(tmp_path: Path) -> None:
    with Beside(tmp_path, more=SERVED) as place:
        client = Raw(place)
        place.ok("daemon", "stop")
        wrong = place.home / "config.toml"
        wrong.write_text("[storage\n")
        found = client.ask(message(1, "tools/call", name="browse_toc", arguments={}))
        assert found["error"]["message"].startswith("UNAVAILABLE: ")
        assert "(retryable: true)" in found["error"]["message"]
        wrong.unlink()
        assert not client.ask(message(2, "tools/call", name="browse_toc", arguments={}))["result"].get("isError", False)
        client.end()


# In the short form: a client that came while another process had the store, above; links are named, test_links.
@pytest.mark.slow
def test_a_client_is_served_by_a_daemon_once_a_link_is_taken_away(tmp_path: Path) -> None:
    with Place(tmp_path, more=SERVED) as place:
        place.directory.mkdir(mode=0o700)
        link_in_there = place.directory / "models"
        link_in_there.symlink_to(tmp_path)
        client = Raw(place)
        found = client.ask(message(1, "tools/call", name="browse_toc", arguments={}))
        assert f"{link_in_there} is a link" in found["result"]["content"][0]["text"]
        link_in_there.unlink()
        assert not client.ask(remember(2, '"We decided on tabs."'))["result"].get("isError", False)
        assert place.owners() == {look(place)["pid"]}
        client.end()


@pytest.mark.slow
def test_clients_of_a_daemon_that_starts_for_longer_than_is_waited_for_are_all_served_by_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    slow = f"import sys, time\nif sys.orig_argv[-4:-2] == ['daemon', 'run']: time.sleep({link.START_PATIENCE + 5})\n"
    (site / "sitecustomize.py").write_text(slow)
    with Place(tmp_path / "place", more=SERVED | {"PYTHONPATH": str(site)}) as place:
        clients: list[Raw] = []
        starts = [threading.Thread(target=lambda: clients.append(Raw(place))) for _ in range(3)]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        assert len(clients) == 3
        for client in clients:
            assert not client.ask(remember(1, '"We decided on tabs."'))["result"].get("isError", False)
        assert place.owners() == {look(place)["pid"]}
        assert (place.directory / "daemon.log").read_text().count(" listens") == 1
        for client in clients:
            client.end()
