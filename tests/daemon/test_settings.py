"""Settings of the background process, each seen to change what the installed program does."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client

from bench.place import Place, wait_for
from memory_mcp.service.daemon.http import MAX_BODY
from tests.daemon.inside import BARE, SERVED, Beside, run_inside
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.daemon.test_pump import call, talk
from tests.files import read_at_rest
from tests.ports import free_port
from tests.waiting import PATIENCE, until, until_async

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside

TOKEN = "t" * 40


def answered(port: int, host: str, size: int = 0) -> int:
    """The status of one request to the health route, or of a hook's payload of some size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": host}
        if size:
            connection.request("POST", "/hooks/json", body=b" " * size, headers=headers)
        else:
            connection.request("GET", "/health", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def decided() -> str:
    """Lines of a project in which much was decided."""
    said = [
        {"session_id": f"s{n}", "timestamp": 1_767_225_600_000 + n * 7_200_000, "role": "user", "project": "/shop"}
        | {"text": f"We decided to keep warehouse {n} on the old scanner until its lease ends in {2030 + n}."}
        for n in range(12)
    ]
    return "".join(json.dumps(one) + "\n" for one in said)


def briefed(place: Place) -> bool:
    """Whether the daemon wrote something down for a new session; made to, as soon as no import counts as under way."""
    told = place.ok("scheduler", "run", "render_briefings")
    return "switched off" in told or any((place.directory / "briefings").glob("*.txt"))


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for tests that leave its daemon as it is, whose data directory is named in the words of its option."""
    with Beside(tmp_path_factory.mktemp("named"), more=SERVED) as made:
        made.directory = made.root / "other"
        del made.settings["MEMORY_MCP_STORAGE__DATA_DIR"]
        made.settings["MEMORY_MCP_DATA_DIR"] = str(made.directory)
        yield made


def test_the_http_door_has_what_was_set_bounds_bodies_and_keeps_the_daemon_whose_jobs_have_what_was_set_too(
    tmp_path: Path,
) -> None:
    port = free_port()
    own = {"HTTP": "true", "HTTP_HOST": "localhost", "HTTP_PORT": str(port), "HTTP_TOKEN": TOKEN}
    own |= {"HTTP_ALLOWED_HOSTS": "memory.example"}
    more = {**SERVED, **{f"MEMORY_MCP_SERVER__{k}": v for k, v in own.items()}}
    more |= {"MEMORY_MCP_SCHEDULER__HOUSEKEEPING_AT": "04:44", "MEMORY_MCP_HOOKS__BRIEFING": "false"}
    with Beside(tmp_path, idle=1, more=more) as place:
        place.ok("daemon", "start")
        pid = look(place)["pid"]
        until(lambda: bool(look(place)["http"]))
        assert answered(port, f"localhost:{port}") == 200
        assert answered(port, "memory.example") == 200
        assert answered(port, "other.example") == 421
        assert answered(port, "localhost", MAX_BODY + 1) == 413
        assert answered(port, "localhost", MAX_BODY - 1) != 413
        # It stays for its door, to which the token is set.
        assert not wait_for(lambda: not Path(f"/proc/{pid}").exists(), 3)
        assert look(place)["pid"] == pid
        assert answered(port, "localhost") == 200
        assert not (place.directory / "token").exists()
        # Its daily upkeep has the time that was set.
        assert "daily at 04:44" in place.ok("scheduler", "status")
        # And briefings that were switched off are not written.
        place.ok("ingest", "-", stdin=decided())
        until(lambda: briefed(place))
        assert not list((place.directory / "briefings").glob("*.txt"))


def test_briefings_are_written(named: Place) -> None:
    named.ok("ingest", "-", stdin=decided())
    until(lambda: briefed(named))
    assert any(b"warehouse 11" in text for text in read_at_rest(named.directory / "briefings").values())


def test_a_paused_job_waits_until_it_is_resumed(named: Place) -> None:
    place = named
    place.ok("scheduler", "pause", "drain_spool")
    payload = {"session_id": "s", "timestamp": 1_767_225_600_000, "role": "user", "text": "Kept in the spool for now."}
    place.ok("hook", "json", stdin=json.dumps(payload))
    assert not wait_for(lambda: place.spooled() == 0, 2.5)
    place.ok("scheduler", "resume", "drain_spool")
    until(lambda: place.spooled() == 0)
    assert "Kept in the spool for now." in place.ok("query", "events")


def test_a_changed_setting_holds_with_a_client_s_next_call_and_the_next_command_and_one_that_is_wrong_ends_nothing(
    place: Place,
) -> None:
    """The daemon ends when nothing is under way, and the pump carries the conversation over."""
    file = place.home / "config.toml"

    def follows(first: int) -> bool:
        """Whether another daemon listens; between two of them there is none."""
        try:
            return bool(look(place)["pid"] != first)
        except OSError:
            return False

    def wrong() -> None:
        """It is an error of commands, in a variable as in the file."""
        other = Beside(place.root, more={**SERVED, "MEMORY_MCP_TOC__GAP_MINUTE": "5"})
        for words in (("search", "anything"), ("serve",)):
            done = other.run(*words)
            assert (done.returncode, done.stdout) == (2, "")
            assert "unknown variable: MEMORY_MCP_TOC__GAP_MINUTE. Did you mean MEMORY_MCP_TOC__GAP_MINUTES?" in done.stderr
        file.write_text("[toc]\ngap_minute = 5\n")
        done = place.run("search", "anything")
        assert (done.returncode, done.stdout) == (2, "")
        assert "unknown setting: toc.gap_minute. Did you mean toc.gap_minutes?" in done.stderr
        assert "those of the start hold on, because the file cannot be used now" in place.ok("daemon", "status")

    async def work(client: Client) -> None:
        await call(client, "get_retrieval_status", detail="full")
        first = look(place)["pid"]
        await asyncio.to_thread(wrong)
        assert look(place)["pid"] == first
        file.write_text("[scheduler]\nhousekeeping_at = '05:55'\n")
        await asyncio.to_thread(until, lambda: not place.status()["running"])
        assert "daily at 05:55" in await asyncio.to_thread(place.ok, "scheduler", "status")

        async def answered_by_another() -> bool:
            # One that ends answers those who are connected to its last moment.
            await call(client, "get_retrieval_status", detail="full")
            return follows(first)

        await until_async(answered_by_another)

    talk(place, work)
    second = look(place)["pid"]
    # What says the same in other words is no change.
    file.write_text("# said again\n[scheduler]\nhousekeeping_at = '05:55'\n")
    place.ok("search", "anything")
    assert (look(place)["pid"], look(place)["settings_changed"]) == (second, [])
    assert place.ok("daemon", "stop") == f"Stopped (process {second}).\n"
    assert not (place.directory / "daemon.sock").exists()


def test_the_data_directory_may_be_named_in_the_words_of_its_option(named: Place) -> None:
    """By commands, the hook, the server and the daemon alike; the setting's own variable comes first."""
    place, usual = named, named.root / "data"
    place.ok("hook", "json", stdin='{"session_id": "s", "role": "user", "text": "Kept where it was named."}')
    place.ok("serve")
    assert json.loads(place.ok("daemon", "status", "--json"))["data_dir"] == str(place.directory)
    assert place.ok("config", "show").count(f'storage.data_dir = "{place.directory}"') == 1
    until(lambda: "Kept where it was named." in place.ok("query", "events"))
    assert not usual.exists()
    run_inside(("search", "anything"), place.environment() | {"MEMORY_MCP_STORAGE__DATA_DIR": str(usual)} | BARE, place.home)
    assert usual.exists()
