"""The real clients, each with a fresh home and nothing but the built wheel and `memory-mcp install`: server, record, recall.

Run with --slow. CLIENTS_NODE names a folder that holds the npm packages already; without it they are fetched.
What was seen is logged (--log-cli-level=INFO).
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.model.event import HOOK, EventType, Role
from memory_mcp.model.sentinel import MARK
from tests.acceptance.clients.drive import CLIENTS, ClaudeCode, Driven
from tests.acceptance.clients.machine import ROOT, Machine, Missing, built, fetched
from tests.acceptance.clients.models import Call, Model, Say
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SEEN = logging.getLogger("clients")
ASKED = "Where does the quokka ledger listen from now on?"
SAID = "The quokka ledger listens on port 7411 from now on."
LATER = "Which port did we choose?"
SEARCHED = {"query": "quokka ledger port"}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return built(tmp_path_factory.mktemp("program"))
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as started:
        yield started


def machine_of(client: type[Driven], program: Path, tmp_path: Path) -> Machine:
    try:
        programs = fetched(client.package, tmp_path / "npm")
    except Missing as missing:
        pytest.skip(str(missing))
    return Machine(tmp_path / "machine", program, programs)


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_a_client_lists_records_and_recalls(kind: type[Driven], program: Path, model: Model, tmp_path: Path) -> None:
    machine = machine_of(kind, program, tmp_path)
    client = kind(machine, model.address)
    SEEN.info("%s: %s", client.version(), machine.ours("install", client.name))
    client.review()
    line = client.servers()
    SEEN.info("%s", line)
    assert line.count("\n") == 0, line
    two_sessions(client, model)


def test_claude_code_records_by_the_plugin_alone_and_what_both_tell_once(program: Path, model: Model, tmp_path: Path) -> None:
    machine = machine_of(ClaudeCode, program, tmp_path)
    client = ClaudeCode(machine, model.address)
    # The plugin finds the program by its name.
    bin_folder = machine.home / "bin"
    bin_folder.mkdir()
    (bin_folder / "memory-mcp").symlink_to(machine.program)
    machine.environ["PATH"] = f"{bin_folder}:{machine.programs}:/usr/local/bin:/usr/bin:/bin"
    for words in (("marketplace", "add", str(ROOT)), ("install", "memory@memory-mcp")):
        done = machine.run("claude", "plugin", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    [held] = (machine.home / ".claude/plugins/cache").glob("*/memory/*")
    assert sorted(p.name for p in held.iterdir()) == [".claude-plugin", "agents", "commands", "hooks", "skills"]
    assert client.servers().count("\n") == 0
    two_sessions(client, model)
    machine.ours("install", client.name)
    model.say(Say("It is a heron."))
    client.ask("Which bird stands at the pond?")
    until(machine.filed, "for what hooks left to be stored")
    told = [e.text for e in machine.stored() if "bird" in e.text or "heron" in e.text]
    assert told == ["Which bird stands at the pond?", "It is a heron."]


def two_sessions(client: Driven, model: Model) -> None:
    """One session says something, a later one is told of it and finds it; what is stored is what was said."""
    machine = client.machine
    model.say(Say(SAID))
    assert SAID in client.ask(ASKED)
    until(machine.filed, "for what hooks left to be stored")
    machine.ours("scheduler", "run", "render_briefings")
    before = len(model.asked)
    model.say(Call("intelligent_search", SEARCHED), Say("Port 7411."))
    client.ask(LATER)
    first, *_, last = (a for a in model.asked[before:] if a.offers)
    told = json.dumps(first.body)
    # Opened and closed once; Gemini CLI shows the brackets around it as entities.
    assert told.count(MARK) == 2, "the new session was not told where the last one left off"
    SEEN.info("told: %s", told[told.index(MARK) :][:400])
    SEEN.info("recalled: %s", last.latest)
    # The words, and what stands in an answer of the search alone.
    assert SAID in last.latest
    assert "confidence" in last.latest
    until(machine.filed, "for what hooks left to be stored")
    events = machine.stored()
    spoken = [e for e in events if e.type in (EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE)]
    assert [e.text.strip('"') for e in spoken] == [ASKED, SAID, LATER, "Port 7411."]
    assert [e.role for e in spoken] == [Role.USER, Role.ASSISTANT] * 2
    assert {e.source for e in events} == {HOOK + client.name}
    assert len({e.session_id for e in spoken}) == 2
    assert {Path(e.project).name for e in events} == {"shop"}
