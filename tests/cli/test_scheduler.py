"""`scheduler`: what jobs there are and how they went; running, pausing and resuming one without a background process."""

from pathlib import Path

import pytest

from memory_mcp.base import extensions, paths
from memory_mcp.upkeep.jobs.registry import JOBS
from tests.cli.conftest import Cli

HARBOUR = "github.com/acme/harbour"


#: Those of other packages are the last.
NAMES = [*JOBS, *extensions.names(extensions.JOBS)]


@pytest.fixture
def jobs(cli: Cli, copy: Path) -> Cli:
    """`scheduler` on that copy."""
    return lambda *argv: cli("scheduler", *argv, "--data-dir", str(copy))


def test_status_names_every_job_with_its_schedule(jobs: Cli) -> None:
    done = jobs("status", "--json")
    assert done.status == 0
    assert [j["name"] for j in done.data["jobs"]] == NAMES
    assert set(done.data["jobs"][0]) == {
        *("name", "help", "schedule", "paused", "running", "last_started", "last_seconds", "last_result", "next_run"),
        *("runs", "failures"),
    }
    assert all(j["schedule"] and j["help"] and j["next_run"] and not j["last_result"] for j in done.data["jobs"])
    told = jobs("status").out
    assert "\nhousekeeping      daily at 03:00    next 20" in told
    assert told.count("never run") == len(NAMES)


def test_run_does_the_job_here_and_now_and_the_next_command_knows(jobs: Cli, copy: Path) -> None:
    done = jobs("run", "render_briefings")
    assert (done.status, done.out) == (0, "render_briefings: 2 projects looked at, 2 files written\n")
    file = Path(paths.briefing_file(str(copy), HARBOUR))
    assert "We decided to fix the refresh token rotation logic and keep HS256." in file.read_text("utf-8")
    again = jobs("run", "render_briefings", "--json").data
    assert again == {"name": "render_briefings", "ok": True, "report": "nothing changed", "counts": {"written": 0, "removed": 0}}
    (kept,) = [j for j in jobs("status", "--json").data["jobs"] if j["name"] == "render_briefings"]
    assert (kept["runs"], kept["failures"], kept["last_result"]) == (2, 0, "ok: nothing changed")
    assert kept["next_run"] > kept["last_started"]
    assert "ok: nothing changed (2 runs, 0 failed)" in jobs("status").out


def test_a_paused_job_stays_paused_until_it_is_resumed(jobs: Cli) -> None:
    assert jobs("pause", "roll_up").out == "roll_up is paused. It runs again after: memory-mcp scheduler resume roll_up\n"
    (kept,) = [j for j in jobs("status", "--json").data["jobs"] if j["name"] == "roll_up"]
    assert (kept["paused"], kept["next_run"]) == (True, None)
    assert "\nroll_up           every hour        paused\n" in jobs("status").out
    assert jobs("run", "roll_up").status == 0
    resumed = jobs("resume", "roll_up", "--json").data
    assert (resumed["name"], resumed["paused"], bool(resumed["next_run"])) == ("roll_up", False, True)
    assert jobs("resume", "roll_up").out.startswith("roll_up is resumed; next run 20")
    assert jobs("pause", "roll_up", "--json").data == {"name": "roll_up", "paused": True}


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_an_unknown_job_is_refused_by_naming_the_known_ones(jobs: Cli, verb: str) -> None:
    done = jobs(verb, "rollup")
    assert (done.status, done.out) == (2, "")
    assert done.err == f"no job is called 'rollup'. Jobs: {', '.join(NAMES)}.\n"


def test_a_job_that_fails_says_why_and_is_remembered(jobs: Cli, copy: Path) -> None:
    (copy / "briefings").write_text("a file in the way")
    done = jobs("run", "render_briefings")
    assert done.status == 1
    assert "briefings" in done.err
    (kept,) = [j for j in jobs("status", "--json").data["jobs"] if j["name"] == "render_briefings"]
    assert (kept["runs"], kept["failures"]) == (1, 1)
    assert kept["last_result"].startswith("[Errno ")
