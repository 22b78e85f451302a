"""Imports through the daemon: the same memory as without it, complete when the command ends, and when it is killed."""

import json
import os
import signal
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.indexes.generation import IndexFolder
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.change import ChangeKind
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import open_storage
from tests.daemon.inside import BARE, WORDS, Beside, Inside
from tests.daemon.places import DAEMON, look, needs_proc
from tests.files import iter_entries
from tests.waiting import until

pytestmark = needs_proc

_START = 1_767_225_600_000
_TOPICS = ("harbour", "fenders", "compasses", "tides", "ropes")


def history(folder: Path, sessions: int, events: int = 40, size: int = 250, first: int = 0) -> int:
    """Sessions of some days, a file each; how many events."""
    folder.mkdir()
    for s in range(first, first + sessions):
        said = (
            {
                "id": f"{s}-{n}",
                "session_id": f"s{s}",
                "timestamp": _START + s * 7_200_000 + n * 30_000,
                "role": ("user", "assistant")[n % 2],
                "project": f"/home/dev/p{s % 3}",
                "text": f"Number {s} of {n}: the {_TOPICS[(s + n) % 5]} need {s * 7919 + n} looks. " * (size // 50),
            }
            for n in range(events)
        )
        (folder / f"{s:04d}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    return sessions * events


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Beside(tmp_path, more=DAEMON) as made:
        yield made


def content(storage: Storage) -> dict[str, Any]:
    """Everything that is stored but the times and numbers of building it."""
    nodes = [replace(node, version=0, built=0) for node in storage.toc.iter_nodes()]
    cuts = storage.toc.list_day_segments("0000", "9999", None)
    return {
        "events": [(s.seq, s.event) for batch in storage.events.iter_all() for s in batch],
        "nodes": {node.node_id: node for node in nodes},
        "cuts": {cut.key: cut for cut in cuts},
        "grips": {grip.grip_id: grip for batch in storage.grips.iter_all() for grip in batch},
        "marks": storage.outbox.get_positions("import:"),
        "frequencies": Counter(project for project, _, _ in storage.toc.list_frequencies()).keys(),
    }


def report(told: dict[str, Any]) -> dict[str, Any]:
    """What an import says of itself but its seconds."""
    return {k: v for k, v in told.items() if k != "seconds"}


def parts(directory: Path) -> dict[str, int]:
    """How many parts each index has."""
    found = {name: IndexFolder(directory / "indexes" / name).read_current() for name in ("bm25", "vector")}
    return {name: len(manifest.shards) if manifest else 0 for name, manifest in found.items()}


def settled(place: Place) -> bool:
    """Whether everything stored is filed and indexed."""
    try:
        now = look(place)
    except OSError:
        return False
    return not now["queues"]["events_to_file"] and not now["deriving"] and not now["indexing"]


def test_an_import_that_a_test_runs_in_its_own_process_leaves_that_its_priority(place: Place, tmp_path: Path) -> None:
    priority = os.nice(0)
    history(tmp_path / "source", 1)
    place.ok("import", "jsonl", str(tmp_path / "source"))
    assert os.nice(0) == priority


def test_the_daemon_stores_what_a_process_of_its_own_would(place: Place, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    source = place.home / "events"
    # In the long form more than one batch.
    count = history(source, *((30, 30) if pytestconfig.getoption("--slow") else (14, 10)))
    told = json.loads(place.ok("import", "jsonl", str(source), "--json"))
    assert told["new"] == count
    assert settled(place)
    # On disk before the daemon ends, in as few parts as there can be.
    assert parts(place.directory) == {"bm25": 1, "vector": 1}
    assert place.owners() == {look(place)["pid"]}
    again = json.loads(place.ok("import", "jsonl", str(source), "--json"))
    assert (again["new"], again["files_unchanged"]) == (0, told["files"])
    place.stop()
    assert list((place.directory / "spool" / "import").iterdir()) == []

    alone = Inside(tmp_path / "alone", more=BARE)
    here = json.loads(alone.ok("import", "jsonl", str(source), "--json"))
    assert report(here) == report(told)
    both = [open_storage(p.directory) for p in (place, alone)]
    there, alike = map(content, both)
    changes = both[0].outbox.read_after(0, 1_000_000)
    for opened in both:
        opened.close()
    for kind, found in there.items():
        assert found == alike[kind], kind
    # Periods were rolled up once, after everything had been stored.
    published = Counter(c.subject for c in changes if c.kind is ChangeKind.NODE_PUBLISHED)
    assert set(published.values()) == {1}
    stored = max(c.seq for c in changes if c.kind is ChangeKind.EVENTS_APPENDED)
    assert min(c.seq for c in changes if c.kind is ChangeKind.NODE_PUBLISHED) > stored
    assert {n.level for n in there["nodes"].values()} == set(TocLevel) - {TocLevel.ROOT}


def test_the_command_ends_with_something_to_try(tmp_path: Path) -> None:
    place = Inside(tmp_path, more=BARE)
    source = place.home / "events"
    history(source, 2)
    said = place.ok("import", "jsonl", str(source))
    last = said.splitlines()[-1]
    assert last.startswith('Try it: memory-mcp ask "')
    assert place.run("ask", last.partition('"')[2].rstrip('"')).returncode == 0


def start(place: Place, source: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*place.command, "import", "jsonl", str(source), "--json"],
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever runs the tests in the background of a shell has them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no thread runs here
    )


def stored(place: Place) -> int:
    """Events the running daemon has stored."""
    try:
        return int(json.loads((place.directory / "high-water.json").read_text())["last_seq"])
    except (OSError, ValueError, KeyError):
        return 0


def test_an_import_goes_on_with_the_next_daemon_and_one_that_is_killed_or_interrupted_is_finished_without_it(
    place: Place,
) -> None:
    source = place.home / "events"
    count = history(source, 14, size=50)
    place.settings |= WORDS | {VARIABLE: "events.committed"}
    place.ok("daemon", "start")
    del place.settings[VARIABLE]
    first = look(place)["pid"]
    importer = start(place, source)
    told, beside = importer.communicate()
    assert importer.returncode == 0, beside
    assert look(place)["pid"] != first
    assert json.loads(told)["built"]["events"] == count
    assert place.run("admin", "check").returncode == 0
    assert "What was stored stays" in ended_early(place, signal.SIGINT, both_killed(place, count))


def both_killed(place: Place, before: int) -> int:
    """Kill importer and daemon: the next daemon files and indexes what was stored, the next import the rest; how many."""
    source = place.home / "both"
    count = before + history(source, 32, size=100, first=50)
    daemon = look(place)["pid"]
    importer = start(place, source)
    until(lambda: stored(place) > before)
    assert {stat.S_IMODE(state.st_mode) for _, state in iter_entries(place.directory / "spool" / "import")} <= {0o600}
    os.kill(importer.pid, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    importer.communicate()
    # A machine that looks late finds all of it stored: then nothing is missing for the next import.
    assert before < stored(place) <= count
    place.ok("daemon", "start")
    # Answers once the memory is open, and with it everything that works beside it.
    place.ok("retrieval", "status")
    until(lambda: settled(place))
    # What no import waits for is gone.
    assert list((place.directory / "spool" / "import").iterdir()) == []
    assert place.run("admin", "check").returncode == 0
    place.ok("import", "jsonl", str(source))
    assert stored(place) == count
    assert settled(place)
    assert all(number <= 3 for number in parts(place.directory).values())
    return count


@pytest.mark.slow  # in the short form: one that is interrupted, and one that is killed, and its daemon with it, above.
def test_an_importer_that_is_killed_leaves_a_memory_that_is_finished_without_it(place: Place) -> None:
    place.settings |= WORDS
    place.ok("daemon", "start")
    ended_early(place, signal.SIGKILL, 0)


def ended_early(place: Place, end: signal.Signals, before: int) -> str:
    """End an importer in the midst of its work and wait until what it stored is finished; what it said."""
    source = place.home / "more"
    count = history(source, 64, size=100, first=100)
    importer = start(place, source)
    until(lambda: stored(place) > before)
    importer.send_signal(end)
    _, beside = importer.communicate()
    assert importer.returncode != 0
    until(lambda: settled(place))
    assert before < stored(place) <= before + count
    assert place.run("admin", "check").returncode == 0
    return beside
