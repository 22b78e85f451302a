"""What the topic graph costs whoever does not use it, and what it counts, times and tells of itself."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base import metrics
from memory_mcp.indexes.topics import keeper as keeping
from memory_mcp.indexes.topics.keeper import TopicKeeper
from memory_mcp.search.layers import topics as layering
from memory_mcp.search.layers.base import Query
from memory_mcp.service.daemon import gauges
from tests.daemon.test_metrics import samples
from tests.indexes.topics.conftest import over, said, topics_of
from tests.requirements import requirement
from tests.topics_material import THEMES, themed
from tests.waiting import PATIENCE

OVERVIEW = "What have I been working on?"
#: A process that answers a question and does the job of a minute in one memory after the other, and says after each which
#: modules of topics it has loaded by then.
_PROCESS = """
import json, sys
from pathlib import Path
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings, TopicsSettings
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.settings import StorageSettings
import memory_mcp.base.children as children
started = []
begin = children.Child.__init__
children.Child.__init__ = lambda self, module, hello: (started.append(module), begin(self, module, hello))[1]
for directory, switch in zip(sys.argv[1::2], sys.argv[2::2]):
    settings = Settings(
        storage=StorageSettings(directory, "Europe/Berlin"),
        teleport=TeleportSettings(enabled=False),
        topics=TopicsSettings(enabled=switch == "on"),
    )
    app = App(settings)
    app.ask(Query("what have I been working on?"))
    app.engine.read_statuses()
    app.scheduler.run_now("group_topics")
    app.close()
    loaded = sorted(n.rpartition(".")[2] for n in sys.modules if n.startswith("memory_mcp.indexes.topics."))
    print(json.dumps({"loaded": loaded, "started": started}))
"""


@pytest.mark.usefixtures("processes")
def test_switched_off_too_small_or_served_topics_start_no_child_and_load_nothing_that_groups(
    directory: Path, tmp_path: Path
) -> None:
    app = over(tmp_path / "small")
    said(app, themed(49))
    app.close()
    told = [str(directory), "off", str(tmp_path / "small"), "on", str(directory), "on"]
    done = subprocess.run([sys.executable, "-c", _PROCESS, *told], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    off, small, served = map(json.loads, done.stdout.splitlines())
    assert off == {"loaded": ["base"], "started": []}
    assert small["started"] == served["started"] == []
    assert not {"grouping", "areas", "naming", "reading", "phrases", "build", "child"} & set(small["loaded"])
    assert not {"grouping", "areas", "reading", "phrases", "build", "child"} & set(served["loaded"])


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """From nothing, whatever other tests of this process have counted."""
    monkeypatch.setattr(metrics, "_live", None)
    monkeypatch.setattr(metrics, "_early", None)
    metrics.start()


def now(app: App) -> dict[str, float]:
    return {n: v for n, v in samples(gauges.exposition(app)).items() if n.startswith("topics_") and "_bucket" not in n}


@pytest.mark.usefixtures("counting")
def test_what_the_graph_holds_and_does_is_counted_and_timed(memory: App, keeper: TopicKeeper) -> None:
    before = now(memory)
    assert before == {
        'topics_index_doc_count{doc_type="topic"}': len(THEMES),
        'topics_index_doc_count{doc_type="segment"}': 72,
        "topics_index_behind": 0,
        "topics_index_size_bytes": keeper.status().size_bytes,
        "topics_rebuild_total": 0,
        "topics_rebuild_errors_total": 0,
        **{f"topics_{what}_latency_seconds_{part}": 0 for what in ("place", "rebuild", "search") for part in ("count", "sum")},
    }
    said(memory, themed(3, start=72))
    assert now(memory)["topics_index_behind"] > 0
    memory.ask(Query(OVERVIEW))
    keeper.rebuild()
    after = now(memory)
    assert after['topics_index_doc_count{doc_type="segment"}'] == 75
    assert {n: after[n] for n in ("topics_rebuild_total", "topics_rebuild_errors_total", "topics_index_behind")} == {
        "topics_rebuild_total": 1,
        "topics_rebuild_errors_total": 0,
        "topics_index_behind": 0,
    }
    for what in ("place", "rebuild", "search"):
        assert after[f"topics_{what}_latency_seconds_count"] == 1, what
    assert after["topics_rebuild_duration_seconds"] == pytest.approx(after["topics_rebuild_latency_seconds_sum"], abs=0.1)


@pytest.mark.usefixtures("counting")
def test_a_memory_without_a_graph_is_told_as_one_without_topics(tmp_path: Path) -> None:
    app = over(tmp_path / "data")
    found = now(app)
    app.close()
    assert found['topics_index_doc_count{doc_type="topic"}'] == found["topics_index_size_bytes"] == 0
    assert not {"topics_index_behind", "topics_rebuild_duration_seconds"} & set(found)


def test_grouping_placing_and_asking_are_spans(memory: App, keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    @contextmanager
    def span(name: str) -> Iterator[None]:
        told.append(name)
        yield

    for module in (keeping, layering):
        monkeypatch.setattr(module, "span", span)
    said(memory, themed(3, start=72))
    memory.ask(Query(OVERVIEW))
    memory.ask(Query(OVERVIEW))
    keeper.rebuild()
    assert told.count("topics_place") == 1
    assert [name for name in told if name != "topics_place"] == ["topics_search", "topics_search", "topics_rebuild"]


@requirement("policy:FR-01", "contract:layer-5")
def test_the_status_counts_topics_and_says_what_is_wrong(
    memory: App, keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def topics() -> tuple[bool, bool, int, str]:
        (one,) = (s for s in memory.engine.read_statuses() if s.name == "topics")
        return one.enabled, one.healthy, one.count, one.reason

    assert topics() == (True, True, len(THEMES), "grouped by terms alone: the vector index is off")
    next(keeper.folder.shards_path.iterdir()).joinpath("topics.json").write_text("{}")
    monkeypatch.setattr(keeping, "_LOOK", -1.0)
    assert topics() == (True, False, 0, "its files were changed or removed from outside; it is built again")
    assert topics_of(memory).status().generation == 0
