"""Writes events one after another and says so after each; killed from outside. Arguments: data directory, how many."""

import sys
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.storage.settings import StorageSettings
from tests.factories import draft, ms


def main(directory: str, count: int) -> None:
    app = App(Settings(storage=StorageSettings(str(Path(directory)), "Europe/Berlin")))
    begin = app.storage.events.last_seq()
    for i in range(begin, begin + count):
        appended = app.write(
            [draft(f"remark {i} about the retry queue", at=ms("2026-01-12 09:00") + i * 60_000, source_id=str(i))], "test"
        )
        sys.stdout.write(f"{appended.new_ids[0]}\n")
        sys.stdout.flush()
        if i % 4 == 3:
            app.derivation.run()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
