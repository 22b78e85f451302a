"""Settings of the background process, each seen to change what the installed program does."""

import asyncio
import http.client
import json
import socket
from pathlib import Path

from mcp import Client

from bench.place import Place, wait_for
from memory_mcp.daemon.http import MAX_BODY
from tests.daemon.inside import BARE, SERVED, Beside, run_inside
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.daemon.test_pump import call, talk
from tests.waiting import until, until_async

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside

TOKEN = "t" * 40


def answered(port: int, host: str, size: int = 0) -> int:
    """The status of one request to the health route, or of a hook's payload of some size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": host}
        if size:
            connection.request("POST", "/hooks/json", body=b" " * size, headers=headers)
        else:
            connection.request("GET", "/health", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_http_door_has_the_port_hosts_and_token_set_bounds_bodies_and_keeps_the_daemon(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"HTTP": "true", "HTTP_HOST": "localhost", "HTTP_PORT": str(port), "HTTP_TOKEN": TOKEN}
    own |= {"HTTP_ALLOWED_HOSTS": "memory.example"}
    more = {**SERVED, **{f"MEMORY_MCP_SERVER__{k}": v for k, v in own.items()}}
    with Beside(tmp_path, idle=1, more=more | {"MEMORY_MCP_SCHEDULER__HOUSEKEEPING_AT": "04:44"}) as place:
        place.ok("daemon", "start")
        pid = look(place)["pid"]
        until(lambda: bool(look(place)["http"]))
        assert answered(port, f"localhost:{port}") == 200
        assert answered(port, "memory.example") == 200
        assert answered(port, "other.example") == 421
        assert answered(port, "localhost", MAX_BODY + 1) == 413
        assert answered(port, "localhost", MAX_BODY - 1) != 413
        # It stays for its door, to which the token is set.
        assert not wait_for(lambda: place.processes() == {}, 3)
        assert look(place)["pid"] == pid
        assert answered(port, "localhost") == 200
        assert not (place.directory / "token").exists()
        # Its daily upkeep has the time that was set.
        assert "daily at 04:44" in place.ok("scheduler", "status")


def briefing(root: Path, **hooks: str) -> str:
    """What the daemon wrote down for a new session of a project in which much was decided."""
    with Beside(root, idle=60, more={**SERVED, **{f"MEMORY_MCP_HOOKS__{k}": v for k, v in hooks.items()}}) as place:
        said = [
            {"session_id": f"s{n}", "timestamp": 1_767_225_600_000 + n * 7_200_000, "role": "user", "project": "/shop"}
            | {"text": f"We decided to keep warehouse {n} on the old scanner until its lease ends in {2030 + n}."}
            for n in range(12)
        ]
        place.ok("ingest", "-", stdin="".join(json.dumps(one) + "\n" for one in said))
        # The import counts as under way for some seconds, and briefings wait for its end.
        folder = place.directory / "briefings"

        def rendered() -> bool:
            return "switched off" in place.ok("scheduler", "run", "render_briefings") or any(folder.glob("*.txt"))

        until(rendered)
        return "".join(path.read_text() for path in folder.glob("*.txt"))


def test_briefings_are_written_and_not_at_all_when_switched_off(tmp_path: Path) -> None:
    assert "warehouse 11" in briefing(tmp_path / "usual")
    assert briefing(tmp_path / "off", BRIEFING="false") == ""


def test_a_paused_job_waits_until_it_is_resumed(place: Place) -> None:
    place.ok("scheduler", "pause", "drain_spool")
    payload = {"session_id": "s", "timestamp": 1_767_225_600_000, "role": "user", "text": "Kept in the spool for now."}
    place.ok("hook", "json", stdin=json.dumps(payload))
    assert not wait_for(lambda: place.spooled() == 0, 2.5)
    place.ok("scheduler", "resume", "drain_spool")
    until(lambda: place.spooled() == 0)
    assert "Kept in the spool for now." in place.ok("query", "events")


def test_a_settings_file_that_changed_holds_with_the_next_command(place: Place) -> None:
    place.ok("daemon", "start")
    first = look(place)["pid"]
    file = place.home / "config.toml"
    file.write_text("[retrieval]\ntoken_factor = 0.5\n")
    until(lambda: "retrieval.token_factor" in place.ok("daemon", "status") or not place.status()["running"])
    place.ok("search", "anything")
    second = look(place)
    assert second["pid"] != first
    assert second["settings_changed"] == []
    # What says the same in other words is no change.
    file.write_text("# said again\n[retrieval]\ntoken_factor = 0.5\n")
    place.ok("search", "anything")
    assert look(place)["pid"] == second["pid"]


def test_a_client_that_stays_gets_a_changed_setting_with_its_next_call(place: Place) -> None:
    """The daemon ends when nothing is under way, and the pump carries the conversation over."""

    def follows(first: int) -> bool:
        """Whether another daemon listens; between two of them there is none."""
        try:
            return bool(look(place)["pid"] != first)
        except OSError:
            return False

    async def work(client: Client) -> None:
        await call(client, "get_retrieval_status", detail="full")
        first = look(place)["pid"]
        (place.home / "config.toml").write_text("[scheduler]\nhousekeeping_at = '05:55'\n")
        await asyncio.to_thread(until, lambda: not place.status()["running"])

        async def answered_by_another() -> bool:
            # One that ends answers those who are connected to its last moment.
            await call(client, "get_retrieval_status", detail="full")
            return follows(first)

        await until_async(answered_by_another)

    talk(place, work)
    assert "daily at 05:55" in place.ok("scheduler", "status")


def test_the_data_directory_may_be_named_in_the_words_of_its_option(place: Place, tmp_path: Path) -> None:
    """By commands, the hook, the server and the daemon alike; the setting's own variable comes first."""
    own, other = place.settings, tmp_path / "other"
    place.settings = {k: v for k, v in own.items() if not k.endswith("STORAGE__DATA_DIR")}
    place.settings["MEMORY_MCP_DATA_DIR"] = str(other)
    try:
        place.ok("hook", "json", stdin='{"session_id": "s", "role": "user", "text": "Kept where it was named."}')
        assert len(list((other / "spool" / "new").iterdir())) == 1
        place.ok("serve")
        assert json.loads(place.ok("daemon", "status", "--json"))["data_dir"] == str(other)
        assert place.ok("config", "show").count(f'storage.data_dir = "{other}"') == 1
        until(lambda: "Kept where it was named." in place.ok("query", "events"))
        assert not place.directory.exists()
        run_inside(("search", "anything"), place.environment() | own | BARE, place.home)
        assert place.directory.exists()
    finally:
        place.ok("daemon", "stop")


def test_a_variable_or_a_settings_file_that_cannot_be_used_is_an_error_of_commands_and_ends_nothing(place: Place) -> None:
    place.ok("daemon", "start")
    first = look(place)["pid"]
    other = Place(place.root, idle=60, more={**SERVED, "MEMORY_MCP_TOC__GAP_MINUTE": "5"})
    for words in (("search", "anything"), ("serve",)):
        done = other.run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "unknown variable: MEMORY_MCP_TOC__GAP_MINUTE. Did you mean MEMORY_MCP_TOC__GAP_MINUTES?" in done.stderr
    (place.home / "config.toml").write_text("[toc]\ngap_minute = 5\n")
    done = place.run("search", "anything")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown setting: toc.gap_minute. Did you mean toc.gap_minutes?" in done.stderr
    assert "those of the start hold on, because the file cannot be used now" in place.ok("daemon", "status")
    assert look(place)["pid"] == first
