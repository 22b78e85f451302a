"""Processes that keep an index, really killed: at every point they name, and at any moment. What was acknowledged is found
at once, following goes on from the last generation and comes to what a rebuild gives, and nothing is left lying about."""

import contextlib
import random
import signal
import subprocess
from pathlib import Path

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.failpoints import FAILPOINTS, VARIABLE
from memory_mcp.indexes.base import Filters, Health, IndexQuery
from memory_mcp.indexes.generation import IndexFolder
from memory_mcp.search.layers.base import LayerName
from tests.acceptance.test_kill import finish, start
from tests.indexes.helpers import found, from_scratch, opened, same
from tests.requirements import requirement
from tests.toc.helpers import findings

#: Each point and at which visit.
INDEX_POINTS = [
    ("index.swapped", 3),
    ("index.followed", 4),
    ("index.built", 2),
    ("index.part_written", 1),
    ("index.manifest_written", 2),
    ("index.swept", 2),
]
#: First and later visits of the same points: before there is any generation, and among merges.
_MORE = [
    (name, visit) for name, at in INDEX_POINTS for visit in (1, 3, 5) if visit != at and (name != "index.built" or visit < 3)
]
LATER = [pytest.param(name, visit, marks=pytest.mark.slow) for name, visit in _MORE]
ROUNDS = 26


def writer(directory: Path, **more: str) -> "subprocess.Popen[str]":
    return start(["-m", "tests.acceptance.indexer", directory, ROUNDS], directory, **more)


def said(lines: str) -> dict[str, str]:
    """Ids of acknowledged events, and their numbers; a last line may be cut off."""
    pairs = (line.split() for line in lines.splitlines())
    return {p[0]: p[1] for p in pairs if len(p) == 2}


def goes_on(directory: Path, acknowledged: dict[str, str]) -> None:
    """Opened again: everything is found at once, the store is sound, and the index is what a rebuild gives."""
    app = opened(directory, SystemClock())
    try:
        assert len(app.storage.events.get_events(acknowledged)) == len(acknowledged)  # type: ignore[arg-type]
        keeper, home = app.accelerators.get_keeper("bm25"), IndexFolder(directory / "indexes" / "bm25")
        assert keeper.status().health in (Health.HEALTHY, Health.BUILDING), keeper.status().reason
        if keeper.status().ready:
            nothing_left(home)
            layer = app.teleports[LayerName.BM25]
            for number in list(acknowledged.values())[-3:]:
                assert layer.teleport(IndexQuery(f"remark{number}", Filters(), 5)).hits, "acknowledged and not found"
        app.derivation.run()
        assert findings(app) == []
        keeper.catch_up()
        numbers = [*acknowledged.values()]
        assert [n for n in numbers if not found(keeper.index, f"remark{n}")[0]] == []
        queries = ("retry queue", *(f"remark{n}" for n in numbers[-3:]))
        same(keeper.index, from_scratch(app.storage, directory.parent / "scratch"), queries)
        keeper.index.commit()
        nothing_left(home)
    finally:
        app.close()


def nothing_left(home: IndexFolder) -> None:
    manifest = home.read_current()
    assert manifest is not None
    assert {p.name for p in home.shards_path.iterdir()} == {p.name for p in manifest.shards}
    assert sorted(p.name for p in home.directory.iterdir()) == sorted(["CURRENT", f"{manifest.name}.json", "parts", "stamps"])


def test_every_point_of_an_index_is_tried() -> None:
    assert {name for name, _ in INDEX_POINTS} == {name for name in FAILPOINTS if name.startswith("index.")}


@requirement("bm25:decision-persistent", "tele:TELE-03")
@pytest.mark.parametrize(("point", "visit"), [*INDEX_POINTS, *LATER], ids=str)
@pytest.mark.few(2)
def test_killed_at_any_point_the_index_goes_on_as_if_nothing_had_happened(point: str, visit: int, tmp_path: Path) -> None:
    process = writer(tmp_path / "data", **{VARIABLE: f"{point}:{visit}"})
    assert process.stdout is not None
    acknowledged = said(process.stdout.read())
    assert finish(process) == -signal.SIGKILL
    assert acknowledged
    goes_on(tmp_path / "data", acknowledged)


def killed_at_random(directory: Path, kills: int, seed: int) -> None:
    """The same store, again and again, and looked at after each kill."""
    rng = random.Random(seed)
    acknowledged: dict[str, str] = {}
    for _ in range(kills):
        process = writer(directory)
        assert process.stdout is not None
        # Counted in events instead of seconds: a slow machine is killed at the same places.
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, ROUNDS))]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0, 0.05))
        process.kill()
        acknowledged |= said("".join(lines) + process.stdout.read())
        assert finish(process) in (0, -signal.SIGKILL)
        goes_on(directory, acknowledged)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_many_random_moments_the_index_goes_on(tmp_path: Path) -> None:
    for seed in range(6):
        killed_at_random(tmp_path / str(seed) / "data", 6, seed)
