"""Stores sixty segments in themes, more with each start, groups them into topics and says each topic; killed from inside.

Arguments: data directory, how many segments to add, and how often to group.
"""

import sys
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.storage.settings import StorageSettings
from tests.topics_material import themed


def opened(directory: Path) -> App:
    """A memory that keeps topics and no other index."""
    return App(Settings(storage=StorageSettings(str(directory), "Europe/Berlin"), teleport=TeleportSettings(enabled=False)))


def main(directory: str, count: int, times: int) -> None:
    app = opened(Path(directory))
    there = app.tree.tally().segments
    app.write(themed(count, start=there), "test")
    app.derivation.run()
    for _ in range(times):
        app.topics.rebuild_graph()
        layer = app.topics
        for topic in layer.read_graph().list_topics(layer.read_view(None), 100)[0]:
            sys.stdout.write(f"{topic.topic_id}\n")
        sys.stdout.flush()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
