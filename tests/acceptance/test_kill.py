"""Real processes, really killed: at every point the program names, and at any moment. Nothing acknowledged is lost,
going on where it stopped gives the store that an undisturbed run gives, and no child process outlives its parent."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base.failpoints import FAILPOINTS, VARIABLE
from memory_mcp.config import Settings
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from tests.acceptance.test_hook import DRAIN_POINTS
from tests.daemon.inside import BARE, run_inside
from tests.factories import a_small_history
from tests.requirements import requirement
from tests.toc.helpers import findings, texts
from tests.waiting import until

ROOT = Path(__file__).parents[2]
LIMIT = 60
#: More than one batch, and enough segments that derivation shares its work with a child process.
DRAFTS = [*a_small_history(2, first="2026-01-19"), *a_small_history(1, first="2026-02-09")][:540]
#: Each point, at which visit, and whether events must be there when the dead program's store is opened.
#: Those of which the short form runs the first few begin.
POINTS = [
    ("derive.before_commit", 1, True),
    ("compact.swapped", 1, True),
    ("events.before_commit", 1, False),
    ("import.mark_written", 1, True),
    ("events.committed", 1, True),
    ("derive.computed", 1, True),
    ("import.batch_stored", 1, True),
    ("events.before_commit", 2, True),
    ("derive.committed", 1, True),
    ("rollup.level_published", 1, True),
    ("compact.copied", 1, True),
]
#: Later visits of the same points.
LATER = [
    pytest.param("import.batch_stored", 2, True, marks=pytest.mark.slow),
    pytest.param("rollup.level_published", 3, True, marks=pytest.mark.slow),
]


#: Points that tests of their own visit.
ELSEWHERE = ("writes.", "index.", "topics.", "backup.", "restore.", "sync.", "forget.", "migrate.", "share.")


def line(d: EventDraft) -> str:
    told = {"session_id": d.session_id, "timestamp": d.timestamp, "role": d.role, "type": d.type, "text": d.text}
    return json.dumps(told | {"id": d.source_id, "agent": d.agent, "project": d.project, "metadata": dict(d.metadata)})


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "history.jsonl"
    path.write_text("".join(line(d) + "\n" for d in DRAFTS), encoding="utf-8")
    return path


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEMORY_MCP_")}
    settings = {"MEMORY_MCP_STORAGE__TIMEZONE": "Europe/Berlin", "MEMORY_MCP_CONFIG": str(home / "config.toml")}
    return kept | settings | BARE | more


def start(arguments: Sequence[object], directory: Path, **more: str) -> "subprocess.Popen[str]":
    """A process in a session of its own, so that what it leaves behind can be seen."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=environment(directory.parent, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> int:
    """Its end; and that nothing of its session is left a moment later."""
    with contextlib.suppress(ValueError):
        sys.stderr.write(process.communicate(timeout=LIMIT)[1])
    try:
        until(lambda: not alive(process.pid), "for the processes that it started to end")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode


def alive(session: int) -> bool:
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def command(words: str, source: Path, directory: Path) -> list[object]:
    arguments: list[object] = ["-m", "memory_mcp", *words.split()]
    return [*arguments, *([source] if words.startswith("import") else []), "--data-dir", directory]


def run(words: str, source: Path, directory: Path, **more: str) -> int:
    return finish(start(command(words, source, directory), directory, **more))


def run_to_its_end(words: str, source: Path, directory: Path) -> None:
    """The same command in this process."""
    typed = [str(word) for word in command(words, source, directory)[2:]]
    done = run_inside(typed, environment(directory.parent), ROOT)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[App]:
    app = App(Settings(storage=StorageSettings(str(directory), "Europe/Berlin")))
    try:
        yield app
    finally:
        app.close()


def everything(directory: Path) -> dict[str, object]:
    """All that a reader can meet; and that it is sound."""
    with opened(directory) as app:
        assert findings(app) == []
        assert app.derivation.count_pending() == 0
        return {**texts(app), "events": app.storage.events.list_events(Scope(), limit=10_000)}


def same(found: dict[str, object], wanted: dict[str, object]) -> None:
    """The same in every part; what differs is named part by part, because a whole store is too much to read."""
    for part, got in found.items():
        expected = wanted[part]
        if isinstance(expected, dict) and isinstance(got, dict):
            assert set(got) == set(expected)
            assert {key: (got[key], value) for key, value in expected.items() if got[key] != value} == {}
        assert got == expected, part


@pytest.fixture(scope="module")
def undisturbed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    directory = tmp_path_factory.mktemp("undisturbed") / "data"
    run_to_its_end("import jsonl", source, directory)
    found = everything(directory)
    assert len(found["events"]) == len(DRAFTS)  # type: ignore[arg-type]
    return found | {"directory": directory}


def test_every_point_that_the_program_names_is_tried() -> None:
    tried = {name for name, _, _ in POINTS} | {name for name, _ in DRAIN_POINTS}
    assert tried == {name for name in FAILPOINTS if not name.startswith(ELSEWHERE)}


@requirement("bm25:decision-append-only")
@pytest.mark.parametrize(("point", "visit", "some"), [*POINTS, *LATER], ids=str)
@pytest.mark.few(2)
def test_killed_at_any_point_the_store_goes_on_as_if_nothing_had_happened(
    point: str, visit: int, some: bool, source: Path, undisturbed: dict[str, object], tmp_path: Path
) -> None:
    directory = tmp_path / "data"
    words = "import jsonl"
    if point.startswith("compact"):
        shutil.copytree(str(undisturbed["directory"]), directory)
        words = "admin compact"
    assert run(words, source, directory, **{VARIABLE: f"{point}:{visit}"}) == -signal.SIGKILL
    with opened(directory) as app:
        stored = app.storage.events.list_events(Scope(), limit=10_000)
        assert bool(stored) == some
        assert stored == [e for e in undisturbed["events"] if e in stored]  # type: ignore[attr-defined]
        assert app.storage.loss is None
        assert [f for f in findings(app) if f.rule not in ("nodes", "freshness")] == []
    run_to_its_end(words, source, directory)
    same(everything(directory), undisturbed)
    assert [p.name for p in directory.iterdir() if "compact" in p.name] == []


def killed_at_random(source: Path, directory: Path, kills: int, seed: int) -> int:
    """Start the import again and again and kill it at random moments; how often it was killed before it was done."""
    rng = random.Random(seed)
    done = 0
    for _ in range(kills):
        process = start(command("import jsonl", source, directory), directory)
        try:
            process.communicate(timeout=rng.uniform(0.2, 2.0))
        except subprocess.TimeoutExpired:
            process.kill()
            done += 1
        assert finish(process) in (0, -signal.SIGKILL)
    return done


@pytest.mark.slow  # in the short form, the tests above and below kill at points that are named and after lines that are counted.
@pytest.mark.timeout(900)
def test_killed_at_many_random_moments_the_import_still_comes_to_the_same_end(
    source: Path, undisturbed: dict[str, object], tmp_path: Path
) -> None:
    for seed in range(20):
        directory = tmp_path / str(seed) / "data"
        killed_at_random(source, directory, 10, seed)
        assert run("import jsonl", source, directory) == 0
        same(everything(directory), undisturbed)


def test_what_was_acknowledged_to_a_writer_is_there_whenever_it_is_killed(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for lines in (1, 11):
        process = start(["-m", "tests.acceptance.writer", tmp_path / "data", 1000], tmp_path / "data")
        assert process.stdout is not None
        acknowledged += [process.stdout.readline().strip() for _ in range(lines)]
        process.kill()
        rest = process.stdout.read()
        acknowledged += [told for told in rest.splitlines() if len(told) == 26]
        assert finish(process) == -signal.SIGKILL
        with opened(tmp_path / "data") as app:
            assert len(app.storage.events.get_events(acknowledged)) == len(acknowledged)  # type: ignore[arg-type]
            app.derivation.run()
            assert findings(app) == []
    assert len(acknowledged) == len(set(acknowledged)) >= 12
