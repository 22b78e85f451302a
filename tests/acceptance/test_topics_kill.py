"""Processes that group a memory into topics, really killed at every point they name: the store goes on, and every id that was
ever told leads to a topic, or says that it has ended."""

import contextlib
import io
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base.failpoints import FAILPOINTS, VARIABLE
from memory_mcp.indexes.generation import IndexFolder
from memory_mcp.indexes.topics.graph import TopicGraph
from memory_mcp.indexes.topics.identity import resolve_topic
from memory_mcp.model.ids import parse_topic_id
from tests.acceptance.grouper import main, opened
from tests.acceptance.test_index_kill import nothing_left
from tests.acceptance.test_kill import finish, start
from tests.toc.helpers import findings
from tests.topics_material import themed

#: Each point, and at which visit: while a graph is in force, and before there is any.
POINTS = [(name, visit) for visit in (2, 1) for name in ("topics.grouped", "topics.known")] + [
    ("index.manifest_written", 2),
    ("index.swapped", 2),
    ("index.swept", 2),
]
#: A line that a dying process wrote whole.
_TOLD = re.compile(r"topic:[0-9a-z]{12}")
#: Segments there are first, and those that come before the process that is killed.
FIRST, MORE = 60, 18


def grouper(directory: Path, count: int, times: int, **more: str) -> "subprocess.Popen[str]":
    return start(["-m", "tests.acceptance.grouper", directory, count, times], directory, **more)


def told_by(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return [line for line in process.stdout.read().splitlines() if _TOLD.fullmatch(line)]


def partition(graph: TopicGraph) -> set[frozenset[str]]:
    topics = graph.rows.topic.tolist()
    return {
        frozenset(graph.rows.node_id_at(n) for n, t in enumerate(topics) if t == place) for place in set(topics) if place >= 0
    }


def lead_on(app: App, ids: list[str]) -> None:
    """Every topic that was ever told is there, or leads to one that is."""
    layer = app.topics
    graph, known = layer.read_graph(), {topic.topic_id: topic for topic in app.storage.topics.list_topics()}
    shown = graph.topics.indices.keys() | graph.areas.indices.keys()
    for one in ids:
        assert one in known, "an id that was told is never forgotten"
        if resolve_topic(parse_topic_id(one), known) is not None or one in shown:
            assert graph.get_topic(one, layer.read_view(None)).mentions > 0


def test_every_point_of_grouping_is_tried() -> None:
    assert {name for name, _ in POINTS} >= {name for name in FAILPOINTS if name.startswith("topics.")}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> set[frozenset[str]]:
    """What all segments come to without any death."""
    app = opened(tmp_path_factory.mktemp("undisturbed") / "data")
    app.write(themed(FIRST + MORE), "test")
    app.derivation.run()
    app.topics.rebuild_graph()
    found = partition(app.topics.read_graph())
    app.close()
    return found


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A memory that was grouped once, and its topics."""
    directory = tmp_path_factory.mktemp("origin") / "data"
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        main(str(directory), FIRST, 1)
    assert told.getvalue()
    return directory, told.getvalue().split()


@pytest.mark.parametrize(("point", "visit"), POINTS, ids=str)
@pytest.mark.few(1)
def test_killed_at_any_point_of_grouping_the_memory_goes_on_and_its_ids_lead_on(
    point: str, visit: int, origin: tuple[Path, list[str]], undisturbed: set[frozenset[str]], tmp_path: Path
) -> None:
    directory, told = tmp_path / "data", list[str]()
    if visit == 1:
        process = grouper(directory, FIRST + MORE, 2, **{VARIABLE: point})
    else:
        shutil.copytree(origin[0], directory)
        told += origin[1]
        process = grouper(directory, MORE, 2, **{VARIABLE: f"{point}:{visit}"})
    told += told_by(process)
    assert finish(process) == -signal.SIGKILL
    app = opened(directory)
    try:
        assert findings(app) == []
        keeper = app.accelerators.find_topic_keeper()
        assert keeper is not None
        if keeper.status().healthy:
            lead_on(app, told)
        else:
            assert keeper.status().message == "topics are looked for within a minute"
            assert keeper.is_due()
        keeper.rebuild()
        assert keeper.status().healthy
        lead_on(app, told)
        assert partition(keeper.get_graph()) == undisturbed
        nothing_left_of(IndexFolder(directory / "indexes" / "topics"))
    finally:
        app.close()


def nothing_left_of(home: IndexFolder) -> None:
    (home.directory / "stamps").touch()
    nothing_left(home)
