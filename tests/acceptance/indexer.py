"""Writes events, derives, follows, commits, merges and rebuilds a keyword index; says each event's id once it is stored.

Killed from inside or outside. Arguments: data directory, how many rounds.
"""

import sys

from memory_mcp.base.clock import SystemClock
from tests.factories import draft, ms
from tests.indexes.helpers import followed, opened


def main(directory: str, rounds: int) -> None:
    from pathlib import Path

    app = opened(Path(directory), SystemClock())
    begin = app.storage.events.last_seq()
    keeper = app.accelerators.get_keeper("bm25")
    for i in range(begin, begin + rounds):
        text = f"remark{i} about the retry queue"
        appended = app.write([draft(text, at=ms("2026-01-12 09:00") + i * 1_900_000, source_id=str(i))], "test")
        sys.stdout.write(f"{appended.new_ids[0]} {i}\n")
        sys.stdout.flush()
        app.derivation.run()
        if i == begin:
            keeper.catch_up()
        followed(keeper, app.storage)
        if i % 2:
            keeper.index.commit()
            keeper.index.merge_once()
        if i % 12 == 5:
            keeper.rebuild()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
