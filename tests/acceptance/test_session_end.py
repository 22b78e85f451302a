"""A session that ends is told to the next one: hooks and daemon as real processes, from payloads to the next start."""

import datetime as dt
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base import paths
from memory_mcp.service.client.door import connect
from tests.acceptance.test_hook import ROOT, environment, hook, kept, payload
from tests.daemon.inside import BARE, Done, as_installed, run_inside
from tests.daemon.places import DAEMON
from tests.waiting import until

ON = BARE | DAEMON
#: What the job's schedule leaves between two runs (milliseconds).
ROUND_MS = 30_000


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "some where" / "data"
    yield place
    daemon(place, "stop")


def daemon(place: Path, *words: str) -> Done:
    return run_inside(["daemon", *words], environment(place, **ON), ROOT)


def project_of(place: Path, name: str = "shop") -> str:
    project = place.parent / name
    project.mkdir(parents=True, exist_ok=True)
    return str(project)


def lived(place: Path, project: str, session: str, asked: str, closed: str, **more: str) -> None:
    """A session from its prompt to its end, as its hooks tell it."""
    here: dict[str, Any] = {"cwd": project, "session_id": session}
    hook(place, payload("UserPromptSubmit", prompt=asked, **here), **more)
    hook(place, payload("Stop", last_assistant_message=closed, **here), **more)
    hook(place, payload("SessionEnd", reason="exit", **here), **more)


def told(place: Path, project: str, session: str = "next") -> str:
    """What a session that begins now is told."""
    done = hook(place, payload("SessionStart", source="startup", cwd=project, session_id=session), **ON)
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def briefed(place: Path, project: str) -> str:
    file = Path(paths.briefing_file(str(place), project))
    return file.read_text("utf-8") if file.exists() else ""


def rendered(place: Path) -> int:
    """When the briefings were last rendered."""
    done = run_inside(["scheduler", "status", "--json"], environment(place, **ON), ROOT, begin=as_installed)
    [job] = [one for one in json.loads(done.stdout)["jobs"] if one["name"] == "render_briefings"]
    return round(dt.datetime.fromisoformat(job["last_started"]).timestamp() * 1000)


def is_early(runs: list[int]) -> bool:
    return any(later - earlier < ROUND_MS for earlier, later in pairwise(runs))


def test_the_end_of_a_session_starts_a_daemon_and_each_is_told_without_waiting_for_the_jobs_round(directory: Path) -> None:
    project = project_of(directory)
    runs: list[int] = []
    # By the schedule alone each would come half a minute after the one before, as on a busy machine some do.
    for number, matter in enumerate((*(f"page {n}" for n in range(9)), "the landing page", "the ledger")):
        if number < 9 and is_early(runs):
            continue
        lived(directory, project, f"s{number}", f"Please look into {matter} for me.", f"Fixed {matter} in one place.", **ON)
        until(lambda matter=matter: f"Fixed {matter}" in briefed(directory, project), matter)  # type: ignore[misc]
        runs.append(rendered(directory))
    until(lambda: kept(directory) == [])
    assert is_early(runs)
    text = told(directory, project)
    assert 'user asked: "Please look into the ledger for me." grip:' in text
    assert '- fixed (agent): "Fixed the ledger in one place." grip:' in text
    assert text.index("the ledger") < text.index("the landing page")


def test_a_session_that_begins_has_filed_what_an_earlier_one_left_without_its_end(directory: Path) -> None:
    project = project_of(directory)
    hook(directory, payload("UserPromptSubmit", prompt="Please look into the retry queue.", cwd=project), **ON)
    assert not Path(paths.socket_path(str(directory))).exists()
    told(directory, project)
    until(lambda: kept(directory) == [])


def test_no_daemon_is_started_where_none_may_run_or_for_a_payload_alone(directory: Path) -> None:
    project = project_of(directory)
    told(directory, project)
    assert not Path(paths.start_lock(str(directory))).exists()
    lived(directory, project, "s1", "Please look into the retry queue for me.", "Fixed the retry queue.")
    assert len(kept(directory)) == 4
    with pytest.raises(FileNotFoundError):
        connect(str(directory))
