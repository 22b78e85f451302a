"""`memory-mcp try`, as somebody runs it who has just installed it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import SAMPLES, Command
from tests.daemon.inside import run_inside
from tests.requirements import requirement
from tests.waiting import PATIENCE, until


@requirement("contract:evidence-handling")
def test_try_shows_three_cited_and_verified_answers_and_leaves_nothing(command: Command, environment: dict[str, str]) -> None:
    done = command("try")
    assert (done.returncode, "Traceback" not in done.stderr) == (0, True), done.stderr
    assert len(re.findall(r"^Question \d: .+\?$", done.stdout, re.M)) == 3
    assert len(re.findall(r'^    > ".+', done.stdout, re.M)) == 3
    assert len(re.findall(r"^    \[grip:\d+:\S+\]$", done.stdout, re.M)) == 3
    assert done.stdout.count("(verified: stored word for word)") == 3
    assert done.stdout.count("Path (tier 2, ") == 3, "it waits for the indexes there can be"
    assert "sample transcripts" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "claude mcp add" not in line) <= 100
    assert not list(Path(environment["TMPDIR"]).iterdir())
    assert not list(Path(environment["HOME"]).iterdir())
    until(lambda: no_process_of(environment["TMPDIR"]), "for its processes to end")


@pytest.mark.slow  # in the short form, the test above has both indexes.
def test_try_answers_through_the_index_there_can_be_and_waits_for_no_other(command: Command, environment: dict[str, str]) -> None:
    done = command("try", env={"MEMORY_MCP_EMBEDDER__MODEL": ""})
    assert (done.returncode, done.stdout.count("Path (tier 4, ")) == (0, 3)
    until(lambda: no_process_of(environment["TMPDIR"]), "for its processes to end")


def test_a_question_comes_from_the_transcripts_given_and_the_configuration_it_prints_starts_the_server(
    command: Command, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    done = command("try", str(SAMPLES), "--keep", str(kept), env={"MEMORY_MCP_TELEPORT__ENABLED": "false"})
    assert done.returncode == 0
    assert re.findall(r"^Question \d: .+\?$", done.stdout, re.M) != []
    assert "your transcripts in" in done.stdout
    assert done.stdout.count("(verified: stored word for word)") == 1
    assert done.stdout.splitlines()[-1].endswith("memory-mcp setup")
    [line] = [line for line in done.stdout.splitlines() if "claude mcp add" in line]
    assert f"claude mcp add memory -e MEMORY_MCP_STORAGE__DATA_DIR={kept} -- " in line
    program, *arguments = shlex.split(line.partition(" -- ")[2])
    assert os.access(program, os.X_OK)
    asked = subprocess.run(
        [program, *arguments[:-1], "query", "root", "--json"],
        env=os.environ | {"MEMORY_MCP_STORAGE__DATA_DIR": str(kept)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(asked.stdout)["node"]["events"] == 10


def own_transcript(environment: dict[str, str]) -> Path:
    """What the client of this home has kept."""
    place = Path(environment["HOME"], ".claude", "projects", "-home-kim")
    place.mkdir(parents=True)
    (place / "a.jsonl").write_bytes(next(SAMPLES.rglob("*.jsonl")).read_bytes())
    return place.parent


@pytest.mark.slow  # in the short form, the tests above and below try the transcripts given, and begin with one's own.
@pytest.mark.parametrize("own", [True, False])
def test_questions_come_from_the_transcripts_given_or_ones_own(command: Command, environment: dict[str, str], own: bool) -> None:
    if own:
        own_transcript(environment)
    data = json.loads(command("try", "--own" if own else str(SAMPLES), "--json").stdout)
    assert (data["built"]["sessions"], data["built"]["projects"]) == (1, ["/home/kim/code/lantern"])
    (answer,) = data["questions"]
    assert answer["expanded"]["verified"] is True
    assert answer["results"][0]["project"] == "/home/kim/code/lantern"


@pytest.mark.parametrize(
    "argv", [pytest.param(("nowhere",), marks=pytest.mark.slow), ("empty",), ("--own",), (".", "--own"), ("--own", "--sample")]
)
def test_what_cannot_be_tried_ends_with_status_two(
    command: Command, environment: dict[str, str], argv: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    # What is refused before anything is made needs no process.
    done = run_inside(("try", *argv), environment, tmp_path) if "--own" in argv else command("try", *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert not list(Path(environment["TMPDIR"]).iterdir())


def test_a_stopped_trial_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    own, told = own_transcript(environment), list[str]()
    with subprocess.Popen(
        [sys.executable, "-m", "memory_mcp", "try", "--own"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            told.append(line)
            if line.startswith("starting the server"):
                process.terminate()
                break
        process.stderr.read()
        assert process.wait(timeout=PATIENCE) == 130
    assert f"importing {own} ...\n" in told
    assert not list(Path(environment["TMPDIR"]).iterdir())
    until(lambda: no_process_of(environment["TMPDIR"]), "for its processes to end")


def no_process_of(place: str) -> bool:
    """Whether no process has this place in its environment any more."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if place.encode() in entry.read_bytes():
                return False
        except OSError:
            continue
    return True
