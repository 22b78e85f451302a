"""Requests asked of the installed program: the command and a client on a pipe give the same responses and errors."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

from bench.place import Place
from tests.daemon.inside import Beside
from tests.daemon.places import DAEMON, needs_proc
from tests.daemon.test_pump import talk
from tests.factories import a_small_history
from tests.fakes import FakeClock
from tests.indexes.helpers import opened
from tests.requests.test_doors import FOUND, GRIP, REFUSED, TOPIC, argv, newest_grip, steady

pytestmark = needs_proc

#: What a second door would find changed by the first.
CHANGING = (
    *("prune_index", "label_topic", "pin", "alias_project", "split_project", "undo_project", "correct", "retract"),
    *("pause_capture", "resume_capture"),
)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    """Two weeks of three projects, without indexes (their state would differ from one call to the next), and a grip of it."""
    more = {**DAEMON, "MEMORY_MCP_SERVER__PROFILE": "full", "MEMORY_MCP_TELEPORT__ENABLED": "false"}
    with Beside(tmp_path_factory.mktemp("doors"), more=more) as made:
        app = opened(made.directory, FakeClock())
        app.write(a_small_history(2), "test")
        app.derivation.run()
        grip = newest_grip(app)
        app.close()
        yield made, grip


def test_the_command_and_a_client_on_a_pipe_are_answered_alike(doors: tuple[Place, str], request: pytest.FixtureRequest) -> None:
    place, grip = doors
    assert isinstance(place, Beside)
    # One of the requests groups the memory: what is asked before it would find no topics at one door alone.
    place.ok("admin", "rebuild-index", "--type", "topics")
    # Briefings are counted by what previews a forgetting; in the background they may come between two doors.
    place.ok("scheduler", "run", "render_briefings")
    # A text meant literally is read at once where rows are copied, in slices before.
    place.ok("scheduler", "run", "copy_rows")
    [topic, *_] = json.loads(place.ok("topics", "top", "--json", "--project", "shop"))["topics"]
    real = {GRIP: grip, TOPIC: topic["topic_id"]}
    found, refused = list(FOUND), [(name, arguments) for name, arguments, _ in REFUSED]
    if not request.config.getoption("--slow"):
        # One answer of each request, and a refusal of each third; all are compared within one process by the tests of requests.
        found, refused = list(dict(found).items()), list(dict(refused).items())[::3]
    rows = [*found, *refused]
    asked = [(name, {k: real.get(str(v), v) for k, v in given.items()}) for name, given in rows if name not in CHANGING]

    async def work(client: Client) -> list[tuple[Any, str]]:
        told = []
        for name, arguments in asked:
            found = await client.call_tool(name, arguments)
            [block] = found.content
            assert isinstance(block, TextContent)
            told.append((None, block.text) if found.is_error else (found.structured_content, ""))
        return told

    told = talk(place, work)
    for number, ((name, arguments), (response, error)) in enumerate(zip(asked, told, strict=True)):
        # Of each five one is asked of the installed program, in the long form all.
        program = number % 5 == 0 or request.config.getoption("--slow")
        done = (Place if program else Beside).run(place, *argv(name, arguments), "--json")
        assert bool(done.returncode) is bool(error), (name, arguments, done.stderr)
        assert steady(response) == (None if error else steady(json.loads(done.stdout))), (name, arguments)
        assert error.startswith(done.stderr.strip()), (name, arguments)
