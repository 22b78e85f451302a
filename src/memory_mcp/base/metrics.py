"""What this process counts and times, the text that Prometheus reads, and spans for OpenTelemetry.

Invariants
1. Nothing is counted before `start`, which only a process that can be asked calls: everybody else pays one comparison. The
   library (57 ms to import) is loaded when it is asked, or has counted for a while.
2. Every name is in `COUNTERS`, `HISTOGRAMS` or `GAUGES`, or declared by another package; recording under another is a KeyError.
3. Labels have few values, and none of them is anybody's words.
4. OpenTelemetry is not imported here before somebody else has (27 ms): a process without it has nobody to tell. Without
   a configured SDK a span costs 7 µs.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from memory_mcp.base.dataclass import dataclass

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: What the text is, as a header of HTTP says it.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Name to what is counted or timed, and its labels; and to what is stated, and its label.
Metrics = dict[str, tuple[str, tuple[str, ...]]]
Gauges = dict[str, tuple[str, str]]

#: Name to what it counts and its labels.
COUNTERS: Metrics = {
    "agentic_nodes_visited_total": ("Nodes compared by searches of the time tree.", ()),
    "bm25_commit_errors_total": ("Commits of the BM25 index that failed.", ()),
    "bm25_commit_total": ("Commits of the BM25 index.", ()),
    "bm25_index_operations_total": ("Documents added to and deleted from the BM25 index.", ("op",)),
    "derive_errors_total": ("Derivations of events into the time tree that failed.", ()),
    "derive_total": ("Derivations of events into the time tree.", ()),
    "http_requests_total": ("Requests to the HTTP door by route and status.", ("route", "status")),
    "ingest_events_total": ("Events stored for the first time, by kind of source.", ("source",)),
    "redactions_total": ("Secrets replaced before an event was stored, by rule.", ("rule",)),
    "topics_rebuild_errors_total": ("Groupings of the memory into topics that failed.", ()),
    "topics_rebuild_total": ("Groupings of the memory into topics.", ()),
    "tool_calls_total": ("Tool calls: ok, cancelled, or the code of the error.", ("tool", "outcome")),
    "vector_commit_errors_total": ("Commits of the vector index that failed.", ()),
    "vector_commit_total": ("Commits of the vector index.", ()),
    "vector_index_operations_total": ("Documents added to and deleted from the vector index.", ("op",)),
}
#: Name to what it times, in seconds, and its labels.
HISTOGRAMS: Metrics = {
    "agentic_search_latency_seconds": ("Searches of the time tree.", ()),
    "bm25_commit_latency_seconds": ("Commits of the BM25 index.", ()),
    "bm25_search_latency_seconds": ("Searches of the BM25 index.", ()),
    "derive_latency_seconds": ("Derivations of events into the time tree.", ()),
    "topics_place_latency_seconds": ("Placing of segments that came or changed in the topic graph.", ()),
    "topics_rebuild_latency_seconds": ("Groupings of the memory into topics.", ()),
    "topics_search_latency_seconds": ("Questions to the topic graph.", ()),
    "tool_latency_seconds": ("Tool calls inside the server.", ("tool",)),
    "vector_commit_latency_seconds": ("Commits of the vector index.", ()),
    "vector_search_latency_seconds": ("Searches of the vector index.", ()),
}
#: Name to what it states and its label ("" for none); values come with each scrape, and a name without any has no sample.
GAUGES: Gauges = {
    "bm25_index_doc_count": ("Documents in the BM25 index.", "doc_type"),
    "bm25_index_behind": ("Changes of the store that the BM25 index does not hold yet.", ""),
    "bm25_index_size_bytes": ("Size of the BM25 index on disk.", ""),
    "bm25_rebuild_duration_seconds": ("How long the last rebuild of the BM25 index took; no sample before the first.", ""),
    "daemon_clients": ("Clients connected now.", ""),
    "deriver_lag_events": ("Stored events that the time tree does not hold yet.", ""),
    "event_count": ("Events stored.", ""),
    "grip_count": ("Quotations stored.", ""),
    "segment_count": ("Segments of the time tree.", ""),
    "spool_pending": ("Payloads of hooks that wait in the spool.", ""),
    "store_size_bytes": ("Size of the store on disk.", ""),
    "topics_index_behind": ("Changes of the store that the topic graph does not hold yet.", ""),
    "topics_index_doc_count": ("Topics, and the segments that are grouped.", "doc_type"),
    "topics_index_size_bytes": ("Size of the topic graph on disk.", ""),
    "topics_rebuild_duration_seconds": ("How long the last grouping into topics took; no sample before the first.", ""),
    "vector_index_behind": ("Changes of the store that the vector index does not hold yet.", ""),
    "vector_index_doc_count": ("Documents in the vector index.", "doc_type"),
    "vector_index_size_bytes": ("Size of the vector index on disk.", ""),
    "vector_rebuild_duration_seconds": ("How long the last rebuild of the vector index took; no sample before the first.", ""),
    "toc_node_count": ("Nodes of the time tree.", "level"),
}
#: Combinations shown from the start, so that a rate has something to begin from.
_BORN = {f"{name}_index_operations_total": ({"op": "add"}, {"op": "delete"}) for name in ("bm25", "vector")}
#: Upper bounds; 20, 50, 100 and 500 ms are those of the specification.
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0)

#: Readings of a scrape: name to value by label; the label of a name without one is "".
Readings = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _Live:
    """What this process counts: the registry, and metrics by name."""

    registry: "CollectorRegistry"
    counters: dict[str, Any]
    histograms: dict[str, Any]


# One per process, as Prometheus counts processes.
_live: _Live | None = None
#: What is counted and timed before the library is loaded: kind, name, amount and labels. None before `start`.
_early: list[tuple[Metrics, str, float, dict[str, str]]] | None = None
_MOST_EARLY = 1000
_providers: dict[str, Callable[[], Mapping[str, float]]] = {}
_starting = threading.Lock()


def declare(counters: Metrics, histograms: Metrics, gauges: Gauges) -> None:
    """Add another package's metrics, as `COUNTERS`, `HISTOGRAMS` and `GAUGES` have them."""
    with _starting:
        COUNTERS.update(counters)
        HISTOGRAMS.update(histograms)
        GAUGES.update(gauges)
        if _live is not None:
            _add_metrics(_live)


def _add_metrics(live: _Live) -> None:
    from prometheus_client import Counter, Histogram

    for name, (text, labels) in COUNTERS.items():
        if name not in live.counters:
            live.counters[name] = Counter(name, text, labels, registry=live.registry)
    for name, (text, labels) in HISTOGRAMS.items():
        if name not in live.histograms:
            live.histograms[name] = Histogram(name, text, labels, registry=live.registry, buckets=_BUCKETS)


def start() -> None:
    """Begin to count in this process; a second call does nothing."""
    global _early
    with _starting:
        if _early is None:
            _early = []


def _load_library() -> None:
    """Load prometheus_client, and tell it what was counted before."""
    global _live
    with _starting:
        if _live is not None:
            return
        from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        # Resident memory, processor time and open files of this process, where the platform tells them.
        ProcessCollector(registry=registry)
        live = _Live(registry, {}, {})
        _add_metrics(live)
        for name, combinations in _BORN.items():
            for labels in combinations:
                live.counters[name].labels(**labels)
        _live = live
        while _early:
            _add(live, *_early.pop(0))


def count(name: str, amount: float = 1, **labels: str) -> None:
    """Add to a counter, not before `start`.

    KeyError for a name not in `COUNTERS`, ValueError for other labels than its own.
    """
    _record(COUNTERS, name, amount, labels)


def observe(name: str, seconds: float, **labels: str) -> None:
    """Add seconds to a histogram, not before `start`.

    KeyError for a name not in `HISTOGRAMS`, ValueError for other labels.
    """
    _record(HISTOGRAMS, name, seconds, labels)


def _record(kind: Metrics, name: str, amount: float, labels: dict[str, str]) -> None:
    if _early is None:
        return
    if _live is None:
        if set(labels) != set(kind[name][1]):
            raise ValueError(f"{name} has other labels than {sorted(labels)}")
        with _starting:
            if _live is None:
                _early.append((kind, name, amount, labels))
        if len(_early) >= _MOST_EARLY:
            _load_library()
    else:
        _add(_live, kind, name, amount, labels)


def _add(live: _Live, kind: Metrics, name: str, amount: float, labels: dict[str, str]) -> None:
    metric = live.counters[name] if kind is COUNTERS else live.histograms[name]
    labelled = metric.labels(**labels) if labels else metric
    if kind is COUNTERS:
        labelled.inc(amount)
    else:
        labelled.observe(amount)


def provide(name: str, values: Callable[[], Mapping[str, float]]) -> None:
    """Have every scrape call `values` for a gauge.

    In place of an earlier one of that name; only this process knows it. Raises KeyError for a name that is not in `GAUGES`.
    """
    GAUGES[name]
    _providers[name] = values


@contextmanager
def timed(name: str, **labels: str) -> Iterator[None]:
    """Record the block's seconds in the histogram `name`.

    However it ends; nothing before `start`. Raises KeyError, at the block's end, for a name that is not in `HISTOGRAMS`.
    """
    began = time.perf_counter()
    try:
        yield
    finally:
        observe(name, time.perf_counter() - began, **labels)


@contextmanager
def run(what: str) -> Iterator[None]:
    """Record one run of `what`: latency, count and failure.

    An Exception counts as a failure and is passed on. Nothing is recorded before `start`; else the
    metrics {what}_latency_seconds, {what}_total and {what}_errors_total must exist.
    """
    try:
        with timed(f"{what}_latency_seconds"):
            yield
    except Exception:
        count(f"{what}_errors_total")
        raise
    finally:
        count(f"{what}_total")


def exposition(readings: Readings) -> str:
    """Return all metrics in the text format of Prometheus.

    What was counted, `readings` and the values of `provide`. Begins to count where nothing does yet. Raises KeyError for a
    reading that is not in `GAUGES`.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    if unknown := sorted(set(readings) - set(GAUGES)):
        raise KeyError(", ".join(unknown))
    values_by_name = {**readings, **{name: values() for name, values in _providers.items()}}

    class Scrape(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            for name, (text, label) in GAUGES.items():
                family = GaugeMetricFamily(name, text, labels=[label] if label else [])
                for labelled, value in values_by_name.get(name, {}).items():
                    family.add_metric([labelled] if label else [], value)
                yield family

    start()
    _load_library()
    assert _live is not None
    now = CollectorRegistry()
    now.register(Scrape())
    return (generate_latest(_live.registry) + generate_latest(now)).decode()


def is_traced() -> bool:
    """Return whether OpenTelemetry is set up in this process; without it spans are not recorded."""
    if "opentelemetry.trace" not in sys.modules:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def span(name: str) -> AbstractContextManager[Any]:
    """Return a span of OpenTelemetry as a context manager, inside the one that is open in this thread or task."""
    if not is_traced():
        return nullcontext()
    from opentelemetry import trace

    return trace.get_tracer("memory_mcp").start_as_current_span(name)
