"""Reads from an open memory the numbers that `/metrics` publishes."""

import os
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base import metrics, paths
from memory_mcp.indexes.accelerators import NAMES
from memory_mcp.model.calendar import TocLevel

#: Levels whose nodes are few; segments are counted by the store.
_PERIODS = (TocLevel.YEAR, TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY)


def exposition(app: App) -> str:
    """Return this process's counts and the memory's state for Prometheus."""
    return metrics.exposition(readings(app))


def readings(app: App) -> metrics.Readings:
    """Return the gauges by name, each {label or "": number}."""
    stats = app.storage.get_stats(text=False)
    segments = app.tree.tally().segments
    levels = {str(level): float(len(app.storage.toc.list_ids(level))) for level in _PERIODS}
    return {
        **_read_indexes(app),
        **_read_topics(app),
        "deriver_lag_events": {"": stats.last_seq - stats.derived_to},
        "event_count": {"": stats.rows["event"]},
        "grip_count": {"": stats.rows["grip"]},
        "segment_count": {"": segments},
        "spool_pending": {"": count_spooled(str(app.settings.storage.directory))},
        "store_size_bytes": {"": stats.size_bytes},
        "toc_node_count": {**levels, str(TocLevel.SEGMENT): segments},
    }


def _read_indexes(app: App) -> dict[str, dict[str, float]]:
    """Return the gauges of the indexes by name and label.

    A missing one has 0 documents (labels toc_node and grip) and bytes, and nothing else; seconds of a rebuild come after one.
    """
    gauges: dict[str, dict[str, float]] = {}
    for name in NAMES:
        gauges[f"{name}_index_doc_count"] = {"toc_node": 0, "grip": 0}
        gauges[f"{name}_index_size_bytes"] = {"": 0}
    for name, keeper in app.accelerators.keepers.items():
        status = keeper.status()
        gauges[f"{name}_index_doc_count"] |= status.counts
        gauges[f"{name}_index_size_bytes"] = {"": status.size_bytes}
        gauges[f"{name}_index_behind"] = {"": status.behind}
        if keeper.last_rebuild_secs is not None:
            gauges[f"{name}_rebuild_duration_seconds"] = {"": keeper.last_rebuild_secs}
    return gauges


def _read_topics(app: App) -> dict[str, dict[str, float]]:
    """Return the gauges of the topic graph by name and label.

    Labels are "topic", "segment", or "" for none. How far it is behind is there only while there is a graph, the seconds that a
    rebuild took only after one.
    """
    layer = app.topics
    status = layer.describe_status()
    gauges: dict[str, dict[str, float]] = {
        "topics_index_doc_count": {"topic": status.topic_count, "segment": status.segments},
        "topics_index_size_bytes": {"": status.size_bytes},
    }
    if status.generation:
        gauges["topics_index_behind"] = {"": status.behind}
    if status.last_rebuild_secs is not None:
        gauges["topics_rebuild_duration_seconds"] = {"": status.last_rebuild_secs}
    return gauges


def count_spooled(directory: str) -> int:
    """Return how many payloads wait in a data directory's spool."""
    try:
        with os.scandir(Path(paths.spool_dir(directory)) / "new") as entries:
            return sum(1 for _ in entries)
    except OSError:
        return 0
