"""What a client is answered while a daemon starts: by real clients in both eras, with a daemon that comes late, or not again."""

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from bench.place import Place
from memory_mcp.base import paths
from memory_mcp.config import Settings
from memory_mcp.service.client import handshake, link
from tests.daemon.inside import SERVED, Beside
from tests.daemon.places import needs_proc
from tests.daemon.test_pump import ERAS, call, named, talk
from tests.waiting import PATIENCE, until

pytestmark = needs_proc


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One whose daemon has answered a client of each era."""
    with Beside(tmp_path_factory.mktemp("used"), more=SERVED, profile="default") as place:
        for era in ERAS:
            talk(place, get_to_know, era)
        until(lambda: len(saved(place)["results"]) >= 2 * 3)
        yield place


async def get_to_know(client: Client) -> dict[str, Any]:
    """What a client is told of the server."""
    lists = [await client.list_tools(), await client.list_prompts(), await client.list_resource_templates()]
    answers = {str(number): answer.model_dump(mode="json") for number, answer in enumerate(lists)}
    return answers | {
        "instructions": client.instructions,
        "info": client.server_info and client.server_info.model_dump(mode="json"),
    }


def saved(place: Place) -> dict[str, Any]:
    path = Path(handshake.handshake_file(str(place.directory)))
    return dict(json.loads(path.read_text())) if path.exists() else {"results": {}}


def hold(place: Place) -> "HeldStart":
    return HeldStart(place)


class HeldStart:
    """No daemon can start while the block runs, since another process seems to be starting one."""

    def __init__(self, place: Place) -> None:
        self._starting = link.hold_start_lock(str(place.directory), time.monotonic() + PATIENCE)

    def __enter__(self) -> None:
        self._starting.__enter__()

    def __exit__(self, *_: object) -> None:
        self._starting.__exit__(None, None, None)


@pytest.mark.parametrize("era", ERAS)
def test_a_client_gets_to_know_the_server_before_a_daemon_runs_and_is_then_known_to_it(used: Place, era: str) -> None:
    used.ok("daemon", "start")
    from_daemon = talk(used, get_to_know, era)
    used.stop()

    async def work(client: Client) -> tuple[dict[str, Any], dict[str, Any], str]:
        early = await get_to_know(client)
        assert not (used.directory / "daemon.sock").exists()
        held.__exit__(None)
        made = await call(client, "remember", text=f"The ferry to the island leaves at noon, in the era {era}.")
        status = await asyncio.to_thread(named, used)
        later = await get_to_know(client)
        os.kill(int(status["pid"]), signal.SIGKILL)
        assert await get_to_know(client) == later == early
        return early, status, str(made["event_id"])

    held = hold(used)
    held.__enter__()
    early, status, event_id = talk(used, work, era)
    assert early == from_daemon
    assert event_id
    [client] = status["clients"]
    assert (client["name"], client["version"]) == ("tester", "7")
    assert client["era"] == ("2026-07-28" if era == "auto" else "2025-11-25")


@pytest.mark.parametrize("era", ERAS)
def test_the_first_client_of_all_is_answered_before_the_protocols_library_is_loaded(
    tmp_path: Path, used: Place, era: str
) -> None:
    used.ok("daemon", "start")
    expected = talk(used, get_to_know, era)

    async def work(client: Client) -> None:
        assert await get_to_know(client) == expected
        await client.list_resources()
        await call(client, "remember", text=f"The first client of all speaks in the era {era}.")
        pid = int((await asyncio.to_thread(named, place))["pid"])
        assert "pydantic_core" not in Path(f"/proc/{pid}/maps").read_text()

    with Beside(tmp_path, more=SERVED, profile="default") as place:
        talk(place, work, era)
        assert len(saved(place)["results"]) == len(("opening", "tools", "prompts", "resources", "templates"))


@pytest.mark.parametrize("era", ERAS)
def test_plain_calls_are_answered_before_the_protocols_library_is_loaded(used: Place, era: str) -> None:
    used.stop()

    def is_loaded(pid: int) -> bool:
        return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()

    async def work(client: Client) -> None:
        await get_to_know(client)
        await call(client, "remember", text=f"The library of the protocol is loaded for what is not plain, in the era {era}.")
        assert (await call(client, "intelligent_search", query="library of the protocol", limit=3))["results"]
        failed = await client.call_tool("expand_grip", {"grip_id": "grip:nope"})
        pid = int((await asyncio.to_thread(named, used))["pid"])
        assert failed.is_error
        assert not is_loaded(pid)
        # Whoever writes a number as a text has the library look, which is told the greeting or the era that it has not heard.
        assert (await call(client, "intelligent_search", query="library of the protocol", limit="3"))["results"]
        assert is_loaded(pid)
        assert (await client.get_prompt("recall", {"topic": "library"})).messages
        assert await call(client, "get_retrieval_status")

    talk(used, work, era)


def test_two_clients_at_once_start_one_daemon(used: Place) -> None:
    used.stop()
    log = used.directory / "daemon.log"
    before = log.stat().st_size

    async def one() -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE), Client(used.server()) as client:
            await get_to_know(client)
            return await call(client, "get_retrieval_status")

    async def both() -> list[dict[str, Any]]:
        return list(await asyncio.gather(one(), one()))

    assert len(asyncio.run(both())) == 2
    assert log.read_bytes()[before:].count(b" listens") == 1


def test_what_was_asked_before_a_client_closed_its_end_is_answered(used: Place) -> None:
    """The daemon runs, so that what it takes to load does not count; the client has gone before it is reached."""
    talk(used, lambda client: call(client, "get_retrieval_status"))
    hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "get_retrieval_status", "arguments": {}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run(
        used.command,
        env=used.environment(),
        cwd=used.home,
        input=lines,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"MEMORY_MCP_SERVER__PROFILE": "full"},
        {"MEMORY_MCP_RETRIEVAL__TOKEN_FACTOR": "2"},
    ],
    ids=["profile", "setting"],
)
def test_other_settings_have_answers_of_their_own(used: Place, change: Mapping[str, str]) -> None:
    before = current(used)
    settings = dict(used.settings)
    try:
        used.settings.update(change)
        assert handshake.load_results(str(used.directory), current(used)) == {}
    finally:
        used.settings.clear()
        used.settings.update(settings)
    assert handshake.load_results(str(used.directory), before) != {}


def test_a_daemon_of_another_profile_answers_itself_and_its_list_is_kept(tmp_path: Path) -> None:
    with Beside(tmp_path, more=SERVED, profile="default") as place:
        few = talk(place, get_to_know)["0"]["tools"]
        place.stop()
        place.settings["MEMORY_MCP_SERVER__PROFILE"] = "full"
        many = talk(place, get_to_know)["0"]["tools"]
        assert len(many) > len(few)
        until(lambda: saved(place)["fingerprint"] == current(place))
        assert talk(place, get_to_know)["0"]["tools"] == many


def test_an_answer_counts_only_for_the_same_code_and_the_same_packages(used: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, known = str(used.directory), current(used)
    assert handshake.load_results(directory, known)
    files = saved(used)["files"]
    assert {Path(path).name for path in files} == {"METADATA"}
    monkeypatch.setattr(handshake, "file_stamp", lambda _: [1, 1])
    assert handshake.load_results(directory, known) == {}
    monkeypatch.undo()
    package = used.root / "package"
    package.mkdir()
    (package / "one.py").write_text("a = 1\n")
    monkeypatch.setattr(handshake, "_PACKAGE", str(package))
    first = handshake.compute_fingerprint({})
    (package / "one.py").write_text("a = 12\n")
    assert handshake.compute_fingerprint({}) != first != known


@pytest.mark.parametrize("content", ["", "{", "[]", '{"fingerprint": 1}', '{"fingerprint": "%s", "files": {}, "results": 3}'])
def test_a_file_that_cannot_be_read_counts_as_none(used: Place, tmp_path: Path, content: str) -> None:
    known = current(used)
    Path(handshake.handshake_file(str(tmp_path))).write_text(content.replace("%s", known))
    assert handshake.load_results(str(tmp_path), known) == {}


def test_a_link_counts_as_none(used: Place, tmp_path: Path) -> None:
    Path(handshake.handshake_file(str(tmp_path))).symlink_to(handshake.handshake_file(str(used.directory)))
    assert handshake.load_results(str(tmp_path), current(used)) == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "get_retrieval_status"}),
        ("ping", None),
        ("tools/list", {}),
        ("tools/list", {"_meta": 3}),
        ("initialize", []),
    ],
)
def test_what_is_no_handshake_is_not_kept(method: str, params: object) -> None:
    assert handshake.Opening().name_request(method, params) == ""


def test_a_request_is_known_by_what_decides_its_answer() -> None:
    def name(version: str, capabilities: Mapping[str, object], client: object = "tester") -> str:
        info = {"name": client, "version": "1"}
        hello = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info, "_meta": {"progressToken": client}}
        return handshake.Opening().name_request("initialize", hello)

    known = name("2025-11-25", {})
    assert name("2025-11-25", {}, "another") == known
    assert len({known, name("2025-06-18", {}), name("2025-11-25", {"roots": {}}), name("2025-11-25", {}, 7)}) == 4


def current(place: Place) -> str:
    """The fingerprint of a relay of this place."""
    with pytest.MonkeyPatch.context() as patch:
        for key in [key for key in os.environ if key.startswith(paths.PREFIX)]:
            patch.delenv(key)
        for key, text in place.settings.items():
            patch.setenv(key, text)
        return handshake.compute_fingerprint(link.Wanted(str(place.directory)).settings)


def test_a_process_that_learns_answers_ends_with_its_daemon_wherever_it_is(tmp_path: Path) -> None:
    # The library is loaded for ever.
    (tmp_path / "mcp").mkdir()
    reached = tmp_path / "reached"
    (tmp_path / "mcp" / "__init__.py").write_text(
        f"import time\nopen({str(reached)!r}, 'w').close()\nwhile True: time.sleep(1)\n"
    )
    command = [sys.executable, "-P", "-m", "memory_mcp.server.introduce"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((Settings(), [])))
            process.stdin.flush()
            until(lambda: reached.exists() or process.poll() is not None, "for the library to be loaded")
            assert process.poll() is None
            process.stdin.close()
            assert process.wait(PATIENCE) == 1
        finally:
            process.kill()


@pytest.mark.parametrize("asked", [b"", pickle.dumps((Settings(), []))], ids=["before it asked", "before the answer"])
def test_a_daemon_that_ends_while_answers_are_learned_leaves_nothing_in_its_log(asked: bytes) -> None:
    nobody, sink = os.pipe()
    os.close(nobody)
    command = [sys.executable, "-P", "-m", "memory_mcp.server.introduce"]
    done = subprocess.run(command, input=asked, stdout=sink, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    os.close(sink)
    assert (done.returncode, done.stderr) == (1, b"")
