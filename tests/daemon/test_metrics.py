"""What Prometheus reads: the names, that they count what happened, and that nobody pays who is not asked."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver.tools import Tool

from memory_mcp.app import App
from memory_mcp.base import metrics
from memory_mcp.model.ids import event_id, span_grip_id
from memory_mcp.search.layers.base import Query
from memory_mcp.server.build import assemble
from memory_mcp.server.guard import MemoryServer
from memory_mcp.server.host import Host
from memory_mcp.service.daemon import gauges
from memory_mcp.tree.derive.close_segments import SegmentDeriver
from tests.daemon.door import opened
from tests.factories import a_small_history, draft
from tests.waiting import PATIENCE
from tests.work import calls

#: Names and types of the BM25 specification, section 13.
BM25 = {
    "bm25_index_doc_count": "gauge",
    "bm25_index_size_bytes": "gauge",
    "bm25_search_latency_seconds": "histogram",
    "bm25_commit_latency_seconds": "histogram",
    "bm25_commit_total": "counter",
    "bm25_commit_errors_total": "counter",
    "bm25_index_operations_total": "counter",
    "bm25_rebuild_duration_seconds": "gauge",
}
OURS = {
    "bm25_index_behind": "gauge",
    "vector_index_behind": "gauge",
    "vector_index_doc_count": "gauge",
    "vector_index_size_bytes": "gauge",
    "vector_rebuild_duration_seconds": "gauge",
    "agentic_nodes_visited_total": "counter",
    "agentic_search_latency_seconds": "histogram",
    "daemon_clients": "gauge",
    "derive_errors_total": "counter",
    "derive_latency_seconds": "histogram",
    "derive_total": "counter",
    "deriver_lag_events": "gauge",
    "event_count": "gauge",
    "grip_count": "gauge",
    "http_requests_total": "counter",
    "ingest_events_total": "counter",
    "redactions_total": "counter",
    "segment_count": "gauge",
    "spool_pending": "gauge",
    "store_size_bytes": "gauge",
    "toc_node_count": "gauge",
    "topics_index_behind": "gauge",
    "topics_index_doc_count": "gauge",
    "topics_index_size_bytes": "gauge",
    "topics_place_latency_seconds": "histogram",
    "topics_rebuild_duration_seconds": "gauge",
    "topics_rebuild_errors_total": "counter",
    "topics_rebuild_latency_seconds": "histogram",
    "topics_rebuild_total": "counter",
    "topics_search_latency_seconds": "histogram",
    "tool_calls_total": "counter",
    "tool_latency_seconds": "histogram",
    "vector_commit_errors_total": "counter",
    "vector_commit_latency_seconds": "histogram",
    "vector_commit_total": "counter",
    "vector_index_operations_total": "counter",
    "vector_search_latency_seconds": "histogram",
}
#: Of the Prometheus library, and of a package that another test of this process has loaded.
_OF_OTHERS = ("process_", "team_")
_SAMPLE = re.compile(r"([a-z_0-9]+)(?:\{(.*)\})? ([^ ]+)\Z")


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """From nothing, whatever other tests of this process have counted."""
    monkeypatch.setattr(metrics, "_live", None)
    monkeypatch.setattr(metrics, "_early", None)
    metrics.start()


def samples(text: str) -> dict[str, float]:
    """Name with labels to value."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match, line
            name, labels, value = match.groups()
            found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


def now(app: App) -> dict[str, float]:
    return samples(gauges.exposition(app))


@contextmanager
def rises(app: App, **expected: float) -> Iterator[None]:
    """By how much samples rise in the block; double underscores stand around a label."""
    before = now(app)
    yield
    after = now(app)
    names = {name: re.sub(r"__(\w+?)__(\w+)", r'{\1="\2"}', name) for name in expected}
    assert {name: after.get(n, 0) - before.get(n, 0) for name, n in names.items()} == expected


def test_every_name_is_exposed_with_its_type_and_an_explanation(app: App) -> None:
    text = gauges.exposition(app)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    assert {n: t for n, t in types.items() if not n.startswith(_OF_OTHERS)} == BM25 | OURS
    assert set(re.findall(r"^# HELP (\S+) \S", text, re.M)) == set(types)


def test_the_keyword_index_that_is_not_built_is_told_as_empty_and_never_rebuilt(app: App) -> None:
    found = now(app)
    told = {n: v for n, v in found.items() if n.startswith("bm25_") and "_bucket" not in n}
    assert told == {
        'bm25_index_doc_count{doc_type="grip"}': 0,
        'bm25_index_doc_count{doc_type="toc_node"}': 0,
        "bm25_index_size_bytes": 0,
        'bm25_index_operations_total{op="add"}': 0,
        'bm25_index_operations_total{op="delete"}': 0,
        "bm25_commit_total": 0,
        "bm25_commit_errors_total": 0,
        "bm25_commit_latency_seconds_count": 0,
        "bm25_commit_latency_seconds_sum": 0,
        "bm25_search_latency_seconds_count": 0,
        "bm25_search_latency_seconds_sum": 0,
    }
    assert {f'bm25_search_latency_seconds_bucket{{le="{le}"}}' for le in ("0.02", "0.05", "0.1")} <= set(found)
    assert 'bm25_commit_latency_seconds_bucket{le="0.5"}' in found


def test_counts_of_the_store_are_those_of_the_store(app: App) -> None:
    app.write(a_small_history(1), "jsonl")
    waiting = now(app)
    assert waiting["deriver_lag_events"] == waiting["event_count"] == app.storage.events.last_seq()
    app.derivation.run()
    found, rows = now(app), app.storage.get_stats().rows
    assert found["deriver_lag_events"] == 0
    assert found["grip_count"] == rows["grip"] > 0
    assert found["segment_count"] == found['toc_node_count{level="segment"}'] == app.tree.tally().segments > 0
    levels = {n: v for n, v in found.items() if n.startswith("toc_node_count")}
    assert len(levels) == 5
    assert sum(levels.values()) == rows["node"]
    assert all(levels.values())


def test_the_size_of_the_store_and_waiting_payloads_are_told(tmp_path: Path) -> None:
    from memory_mcp.config import Settings
    from memory_mcp.storage.settings import StorageSettings

    app = App(Settings(storage=StorageSettings(str(tmp_path / "data"))))
    try:
        (tmp_path / "data" / "spool" / "new").mkdir(parents=True)
        assert now(app)["spool_pending"] == 0
        for name in "ab":
            (tmp_path / "data" / "spool" / "new" / name).write_text("{}")
        found = now(app)
    finally:
        app.close()
    assert found["spool_pending"] == 2
    assert found["store_size_bytes"] > 0


def test_writing_deriving_and_searching_are_counted(app: App) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    notes = [draft(f"the deploy key is {token}"), draft("rotate it on Mondays")]
    with rises(app, ingest_events_total__source__jsonl=2, redactions_total__rule__github=1):
        app.write(notes, "jsonl")
    with rises(app, ingest_events_total__source__jsonl=0):
        app.write([draft("rotate it on Mondays", source_id="same")], "other")
        app.write([draft("rotate it on Mondays", source_id="same")], "other")
    with rises(app, derive_total=1, derive_errors_total=0, derive_latency_seconds_count=1):
        app.derivation.run()
    with rises(app, agentic_search_latency_seconds_count=1, agentic_nodes_visited_total=1):
        assert app.ask(Query("rotate Mondays", 5)).why.nodes_visited == 1


def test_a_derivation_that_fails_is_counted_as_one(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.write([draft("anything")], "jsonl")
    monkeypatch.setattr(SegmentDeriver, "_publish_step", lambda *args: 1 / 0)
    with rises(app, derive_total=1, derive_errors_total=1, derive_latency_seconds_count=1), pytest.raises(ZeroDivisionError):
        app.derivation.run()


def test_tool_calls_are_counted_by_how_they_end(app: App) -> None:
    from mcp import Client

    server = assemble(Host.of(app))
    unknown = span_grip_id(event_id(1_760_000_000_000, "test", "no such event"), 0, 5)

    async def main() -> None:
        async with Client(server) as client:
            await client.call_tool("get_retrieval_status", {})
            await client.call_tool("expand_grip", {"grip_id": unknown})
            await client.call_tool("expand_grip", {"grip": "x"})
            await client.call_tool("no_such_tool", {})

    before = now(app)
    anyio.run(main)
    after = now(app)
    risen = {n: after[n] - before.get(n, 0) for n in after if n.startswith("tool_") and "_bucket" not in n and "_sum" not in n}
    risen = {n: v for n, v in risen.items() if v}
    assert risen == {
        'tool_calls_total{outcome="ok",tool="get_retrieval_status"}': 1,
        'tool_calls_total{outcome="NOT_FOUND",tool="expand_grip"}': 1,
        'tool_calls_total{outcome="INVALID_ARGUMENT",tool="expand_grip"}': 1,
        'tool_calls_total{outcome="INVALID_ARGUMENT",tool="unknown"}': 1,
        'tool_latency_seconds_count{tool="get_retrieval_status"}': 1,
        'tool_latency_seconds_count{tool="expand_grip"}': 2,
        'tool_latency_seconds_count{tool="unknown"}': 1,
    }


def test_a_call_that_is_given_up_is_counted_as_cancelled(app: App) -> None:
    scopes: list[anyio.CancelScope] = []

    async def slow() -> None:
        scopes[0].cancel()
        await anyio.sleep_forever()

    tool = Tool.from_function(slow, name="get_retrieval_status")
    server = MemoryServer("slow", {tool.name: lambda: tool})

    async def main() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await server.call_tool("get_retrieval_status", {})

    before = now(app)
    anyio.run(main)
    name = 'tool_calls_total{outcome="cancelled",tool="get_retrieval_status"}'
    assert now(app)[name] - before.get(name, 0) == 1


def test_requests_are_counted_by_route_and_status_and_never_by_what_was_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as door:
        before = now(door.app)
        door.request("GET", "/health")
        door.request("GET", "/health", {"Authorization": ""})
        door.request("GET", "/secret/words")
        door.request("POST", "/hooks/claude-code", body=b"{}")
        after = now(door.app)
    risen = {n: after[n] - before.get(n, 0) for n in after if n.startswith("http_requests_total")}
    assert {n: v for n, v in risen.items() if v} == {
        'http_requests_total{route="/health",status="200"}': 1,
        'http_requests_total{route="/health",status="401"}': 1,
        'http_requests_total{route="other",status="404"}': 1,
        'http_requests_total{route="/hooks",status="200"}': 1,
    }


def test_the_command_line_prints_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from memory_mcp.cli.main import main

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_MCP_SERVER__DAEMON", "false")
    assert main(["admin", "stats", "--prometheus", "--data-dir", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", printed, re.M))
    assert {n: t for n, t in types.items() if not n.startswith(_OF_OTHERS)} == BM25 | OURS
    assert samples(printed)["event_count"] == 0


def test_what_only_the_process_knows_is_asked_at_each_scrape(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_providers", {})
    assert "daemon_clients" not in now(app)
    clients = [1, 2]
    metrics.provide("daemon_clients", lambda: {"": len(clients)})
    assert now(app)["daemon_clients"] == 2
    clients.append(3)
    assert now(app)["daemon_clients"] == 3
    with pytest.raises(KeyError):
        metrics.provide("no_such_gauge", dict)


def test_a_name_that_is_not_listed_is_an_error(app: App) -> None:
    with pytest.raises(KeyError):
        metrics.count("no_such_total")
    with pytest.raises(KeyError):
        metrics.exposition({"no_such_gauge": {"": 1}})


@pytest.mark.skipif(sys.platform != "linux", reason="the library reads /proc")
def test_the_memory_of_the_process_is_told(app: App) -> None:
    assert now(app)["process_resident_memory_bytes"] > 10_000_000


# who is not asked pays nothing

WORK = """
import sys
from memory_mcp.app import App
from memory_mcp.tree.derive.close_segments import SegmentDeriver
from memory_mcp.config import Settings
from memory_mcp.search.layers.base import Query
from tests.factories import a_small_history
from tests.fakes import FakeClock
app = App(Settings(), FakeClock(), in_memory=True)
app.write(a_small_history(1), "test")
app.derivation.run()
assert app.ask(Query("idempotency key", 5)).hits
print([n for n in ("prometheus_client", "opentelemetry", "starlette", "uvicorn") if n in sys.modules])
"""


def test_a_process_that_is_never_asked_loads_neither_library() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=root)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# spans


class Recorder:
    """Stands for a configured library: every span with those it lies in."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[str] = []

    @contextmanager
    def start_as_current_span(self, name: str) -> Iterator[None]:
        self.open.append(name)
        self.seen.append(" > ".join(self.open))
        yield
        self.open.pop()


def test_the_steps_of_a_search_are_spans_within_each_other(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    app.write(a_small_history(1), "jsonl")
    app.derivation.run()
    recorder = Recorder()
    asked: list[Any] = []

    def tracer(name: str) -> Recorder:
        asked.append(name)
        return recorder

    monkeypatch.setattr(trace, "get_tracer", tracer)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder)
    app.ask(Query("idempotency key", 5))
    assert set(asked) == {"memory_mcp"}
    whole = "intelligent_search"
    search = f"{whole} > agentic_search"
    steps = [f"{search} > {step}" for step in ("parse_query", "execute_search", "collect_results")]
    assert recorder.seen == [whole, search, *steps]


def test_without_a_configured_library_a_span_costs_next_to_nothing() -> None:
    """Sixty calls were counted, which take 7 microseconds."""
    from opentelemetry import trace

    from memory_mcp.base.metrics import span

    def search() -> None:
        with span("search"):
            pass

    assert trace
    search()
    assert calls(search) <= 100
