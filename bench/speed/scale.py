"""The same rows on stores of several sizes, and how they grow.

A store of each size is made once, from a history of real sessions told anew, by the import; measuring is done on copies.
"""

import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from bench import histories
from bench.place import Place
from bench.speed.kinds import calls
from bench.speed.reads import questions
from bench.speed.rest import disk, memory, start
from bench.speed.run import Options, Run, copied, stopped
from bench.speed.table import Row, lines, markdown, number
from bench.speed.writes import alone, bring_in

#: What stands beside a value that grew more than the size, and by how much more before it does.
_FASTER, _TOLERANCE = ", faster than the size", 1.05
Group = Callable[[Run], Awaitable[list[Row]]]
#: What is measured on each size.
GROUPS: Mapping[str, Group] = {
    "start": start,
    "memory": memory,
    "questions": questions,
    "calls": calls,
    "disk": disk,
    "alone": alone,
}


def built(data: Path, folder: Path, events: int, still: float) -> tuple[Path, list[Row]]:
    """A store of about so many events in `folder`, made when it is not there, and what its import took."""
    home, told = folder / str(events), folder / str(events) / "import.json"
    if not told.exists():
        shutil.rmtree(home, ignore_errors=True)
        histories.write(home / "history", data, events)
        with Place(home, profile="full") as place:
            rows = anyio.run(bring_in, home / "history", place, still)
        told.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    return home, [Row(**row) for row in json.loads(told.read_text(encoding="utf-8"))]


def measured(home: Path, options: Options, groups: Sequence[str], say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Rows of one size, on a copy."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=home) as scratch, Place(Path(scratch), profile="full") as place:
        copied(home / "data", place)
        run = Run(place, home / "history", options, paired=False)
        for name in groups:
            rows += (found := anyio.run(GROUPS[name], run))
            say("\n".join(lines(found)))
        stopped(place)
    return rows


def curve(sizes: Sequence[int], tables: Sequence[Sequence[Row]]) -> list[str]:
    """Every value by size, how often the first the last is, and a mark where that is more than the size has grown."""
    found: dict[str, list[float | None]] = {}
    for at, rows in enumerate(tables):
        for row in rows:
            for name, value in row.values.items():
                key = f"{row.name} {name}".strip() + f", {row.unit}"
                found.setdefault(key, [None] * len(tables))[at] = value
    drawn = []
    for key, values in found.items():
        growth = ""
        if values[0] and values[-1] is not None:
            factor = values[-1] / values[0]
            growth = f"{factor:.2f}x" + (_FASTER if factor > _TOLERANCE * sizes[-1] / sizes[0] else "")
        drawn.append((key, *("" if v is None else number(v) for v in values), growth))
    return markdown(("what", *(f"{size:,}" for size in sizes), "last over first"), drawn)
