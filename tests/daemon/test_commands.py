"""Commands while the daemon has the store: the same words as without it, and at once."""

import copy
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from tests.daemon.inside import ALONE, Beside, Done, run_inside
from tests.daemon.places import DAEMON, NO_INDEXES, look, needs_proc
from tests.waiting import PATIENCE, until

#: Every command that reads, in text and in JSON, and some that are asked wrongly.
ASKED = (
    ("search", "harbour"),
    ("search", "harbour", "--json"),
    ("search", "harbour", "--level", "month"),
    ("search", "--query", ""),
    ("search", "harbour", "--node", "toc:day:1999-01-01"),
    ("navigate", "which fenders", "--verbose"),
    ("query", "root"),
    ("query", "browse", "--json"),
    ("query", "events", "--limit", "3", "--json"),
    ("timeline",),
    ("retrieval", "status"),
    ("admin", "check"),
    ("query", "nonsense"),
)

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside


def lines(count: int, session: str = "s") -> str:
    start = 1_767_225_600_000
    said = (
        {
            "id": f"{session}-{n}",
            "session_id": f"{session}-{n // 20}",
            "timestamp": start + n * 600_000,
            "role": ("user", "assistant")[n % 2],
            "text": f"Message {n} of {session} about {('harbour', 'fenders', 'compasses')[n % 3]} and number {n * 7919 % 1000}.",
        }
        for n in range(count)
    )
    return "".join(json.dumps(one) + "\n" for one in said)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A filled memory for tests that only read; in the long form with indexes."""
    more = DAEMON if request.config.getoption("--slow") else DAEMON | NO_INDEXES
    with Beside(tmp_path_factory.mktemp("shared"), more=more) as made:
        made.ok("ingest", "-", stdin=lines(120))
        yield made


@pytest.fixture
def shared(once: Place) -> Place:
    """The same with its daemon running."""
    once.ok("daemon", "start")
    return once


def alone(place: Place, *words: str) -> Done:
    """The command where it opens the store itself."""
    return run_inside(words, place.environment() | ALONE, place.home)


def test_a_question_to_a_running_daemon_loads_no_engine(shared: Place) -> None:
    code = (
        "import sys, json\n"
        "from memory_mcp.__main__ import main\n"
        "sys.argv = ['memory-mcp', 'search', 'harbour', '--json']\n"
        "status = main()\n"
        "heavy = ('argparse', 'duckdb', 'mcp', 'pydantic', 'memory_mcp.app', 'memory_mcp.cli')\n"
        "sys.stderr.write(json.dumps([n for n in heavy if n in sys.modules]))\n"
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=shared.environment(),
        cwd=shared.home,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout)["results"]
    assert json.loads(done.stderr) == []


def test_the_callers_directory_decides_the_scope_of_a_forwarded_search(shared: Place, tmp_path: Path) -> None:
    place = copy.copy(shared)
    here = tmp_path / "here"
    here.mkdir()
    said = {"session_id": "a", "timestamp": 1_767_225_600_000, "role": "user", "text": "The otter sleeps.", "project": str(here)}
    place.ok(
        "ingest", "-", stdin=json.dumps(said) + "\n" + json.dumps({**said, "session_id": "b", "project": "elsewhere"}) + "\n"
    )
    place.home = here
    place.ok("timeline")
    assert place.status()["running"] is True
    assert "otter" in place.ok("navigate", "otter", "--project", ".")


def test_whoever_has_read_enough_may_leave(shared: Place) -> None:
    script = f"{' '.join(shared.command)} query events --all --limit 100 --json | head -c 20"
    done = subprocess.run(
        ["bash", "-c", script], env=shared.environment(), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert len(done.stdout) == 20
    assert done.stderr == ""
    until(lambda: look(shared)["queues"]["calls"] == 0)


def test_a_stopped_command_leaves_the_daemon_answering(shared: Place) -> None:
    process = subprocess.Popen(
        [*shared.command, "admin", "check"], env=shared.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: process.poll() is not None or look(shared)["queues"]["calls"])
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT, 0)
    assert "Traceback" not in said or process.returncode == -signal.SIGINT
    assert shared.run("search", "harbour").returncode == 0


def test_what_is_private_is_not_reached_over_the_protocol(shared: Place) -> None:
    """A client's own words never become a private method."""
    asked = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x", "version": "1"}, "capabilities": {}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "daemon/stop", "params": {}},
        {"jsonrpc": "2.0", "id": 3, "method": "cli/run", "params": {"argv": ["admin", "stats"]}},
    ]
    process = subprocess.Popen(shared.command, env=shared.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    for message in asked:
        process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    answers = {a["id"]: a for a in (json.loads(process.stdout.readline()) for _ in range(3))}
    process.stdin.close()
    process.stdout.close()
    assert process.wait(PATIENCE) == 0
    assert all("error" in answers[number] for number in (2, 3))
    assert shared.status()["running"] is True


def test_every_reading_command_says_the_same_with_and_without_the_daemon(shared: Place, pytestconfig: pytest.Config) -> None:
    # In the short form the installed program is asked the first three alone.
    program = ASKED if pytestconfig.getoption("--slow") else ASKED[:3]
    through = [Place.run(shared, *words) if words in program else shared.run(*words) for words in ASKED]
    assert shared.status()["running"] is True
    shared.ok("daemon", "stop")
    for words, one in zip(ASKED, through, strict=True):
        other = alone(shared, *words)
        assert (one.returncode, steady(one.stdout), one.stderr) == (other.returncode, steady(other.stdout), other.stderr), words


def steady(text: str) -> str:
    """An answer without the time it took."""
    return "\n".join(line for line in text.splitlines() if "_ms" not in line and " ms" not in line)


@pytest.mark.slow  # in the short form: a new zone, cli/test_admin.py; a command that ends with another daemon, test_embedder.py.
def test_moving_the_days_to_another_zone_gives_the_clients_a_daemon_that_knows(place: Place) -> None:
    place.ok("ingest", "-", stdin=lines(60))
    before = place.status()["pid"]
    place.ok("admin", "rebuild-toc", "--timezone", "Pacific/Auckland")
    assert place.run("admin", "check").returncode == 0
    assert "Pacific/Auckland" in place.ok("admin", "stats")
    assert place.status()["pid"] != before
