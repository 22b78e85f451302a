"""Child processes that end, or stand still, in the midst of their work: nothing is lost or doubled, and nothing stays behind."""

import ctypes
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.place import PROC, Place
from memory_mcp.cli.main import INTERRUPTED
from tests.daemon.inside import WORDS, Beside
from tests.daemon.places import needs_proc
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES, KIND = WORDS, Beside

#: Modules that children run: of an import, of the daemon for the tree, and of the daemon for the indexes.
KINDS = ("memory_mcp.capture.reading_pool", "memory_mcp.tree.derive.workers", "memory_mcp.indexes.child")
#: Enough bytes for an import to have children, enough segments (each event is a session) for the tree and the indexes to have
#: some; few events, so that all else is quick.
FILES, EVENTS, SIZE = 2, 100, 46_000
#: Of <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36


def history(folder: Path, first: int = 0) -> None:
    folder.mkdir()
    for number in range(first, first + FILES):
        lines = [
            {"session_id": f"s{number}-{n}", "timestamp": 1_767_225_600_000 + n * 600_000, "role": "tool"}
            | {
                "type": "tool_result",
                "text": f"The {n}th fender of {number} is checked. " + f"row {n * 7919} of it\n" * (SIZE // 18),
            }
            for n in range(EVENTS)
        ]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))


class Killer(threading.Thread):
    """Sends a signal to the first child of each kind that is seen at work."""

    def __init__(self, place: Place, sent: signal.Signals) -> None:
        super().__init__(name="killer", daemon=True)
        self._place, self._signal = place, sent
        self.hit: dict[str, int] = {}
        self.over = threading.Event()
        #: Set once a child of each kind was sent it.
        self.hit_all = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05) and not self.hit_all.is_set():
            for pid, seen in self._place.processes().items():
                for kind in KINDS:
                    if kind in seen.command and kind not in self.hit and _at_work(pid):
                        self.hit[kind] = pid
                        os.kill(pid, self._signal)
            if len(self.hit) == len(KINDS):
                self.hit_all.set()


def imported(place: Place, folder: Path) -> "subprocess.CompletedProcess[str]":
    """By a process of its own, whose children they are."""
    return Place.run(place, "import", "jsonl", str(folder), patience=2 * PATIENCE)


@pytest.mark.parametrize("sent", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGSTOP"])
@pytest.mark.few(1)
def test_a_child_that_is_sent_a_signal_costs_no_more_than_its_work(place: Place, tmp_path: Path, sent: str) -> None:
    history(tmp_path / "history")
    place.ok("daemon", "start")
    killer = Killer(place, signal.Signals[sent])
    killer.start()
    if sent == "SIGSTOP":
        # Each goes on once it is let; nobody else waits meanwhile.
        first: list[subprocess.CompletedProcess[str]] = []
        going = threading.Thread(target=lambda: first.append(imported(place, tmp_path / "history")))

        going.start()
        until(lambda: KINDS[0] in killer.hit)
        assert place.run("search", "fender", "--all").returncode == 0
        while going.is_alive():
            for pid in killer.hit.values():
                _let_go_on(pid)
            going.join(0.5)
        done = first[0]
        assert done.returncode == 0, done.stderr
    else:
        done = imported(place, tmp_path / "history")
        if done.returncode != 0:
            assert "a process that reads files has ended" in done.stderr
            assert "run the command again to go on" in done.stderr
    again = imported(place, tmp_path / "history")
    assert again.returncode == 0, again.stderr
    # On a busy machine events come slowly enough for the daemon to file them itself, without a child: more at once need one.
    files = FILES
    while not killer.hit_all.wait(15):
        assert files < 6 * FILES
        folder = tmp_path / f"more-{files}"
        history(folder, files)
        files += FILES
        # The first run may lose its child to the signal.
        assert 0 in (imported(place, folder).returncode, imported(place, folder).returncode)
    for pid in killer.hit.values() if sent == "SIGSTOP" else ():
        _let_go_on(pid)
    killer.over.set()
    killer.join()
    until(lambda: indexed(place))
    for said in (done.stderr, again.stderr):
        assert "Traceback" not in said
    stats = json.loads(place.ok("admin", "stats", "--json"))
    assert stats["rows"]["event"] == files * EVENTS
    assert json.loads(place.ok("admin", "check", "--json"))["findings"] == []
    place.ok("daemon", "stop")
    until(lambda: not place.processes(), place.processes())
    assert not list((place.directory / "spool" / "import").iterdir())
    assert "KeyboardInterrupt" not in (place.directory / "daemon.log").read_text()


def as_from_a_terminal() -> None:
    """Ignore no signal, as whatever runs the tests in the background may: a command that is told to ignore one does."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


# In the short form: an importer that is interrupted, test_import.py; a child that stands still, test_children.py.
@pytest.mark.slow
@pytest.mark.parametrize("sent", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_stop_while_children_work_or_stand_still_leaves_none_and_tells_no_traceback(
    place: Place, tmp_path: Path, sent: str
) -> None:
    history(tmp_path / "history")
    place.ok("daemon", "start")
    killer = Killer(place, signal.SIGSTOP)
    killer.start()
    with orphans_left_alone():
        going = subprocess.Popen(
            [*place.command, "import", "jsonl", str(tmp_path / "history")],
            env=place.environment(), cwd=place.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=as_from_a_terminal,  # noqa: PLW1509 - no thread of this process holds what it needs
        )  # fmt: skip
        until(lambda: KINDS[0] in killer.hit)
        going.send_signal(signal.Signals[sent])
        # A child that is left has their end of the pipe.
        _, said = going.communicate(timeout=PATIENCE)
    assert going.returncode == INTERRUPTED, said
    assert said.endswith("run the command again for the rest.\nstopped\n")
    assert not list((place.directory / "spool" / "import").iterdir())
    killer.over.set()
    killer.join()
    place.ok("daemon", "stop")
    until(lambda: not place.processes(), place.processes())
    assert "Traceback" not in said
    assert "Traceback" not in (place.directory / "daemon.log").read_text()
    assert imported(place, tmp_path / "history").returncode == 0
    assert json.loads(place.ok("admin", "stats", "--json"))["rows"]["event"] == FILES * EVENTS


@contextmanager
def orphans_left_alone() -> Iterator[None]:
    """Adopt processes that others leave behind.

    Else the system ends those that stand still as their starter ends, where it sees in time that they do: on a busy machine,
    or in a container whose first process began the session, it does not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def indexed(place: Place) -> bool:
    found = json.loads(place.ok("search", "fender checked", "--all", "--json"))
    return bool(found["results"])


def _at_work(pid: int) -> bool:
    """Whether it has begun its work: Python, once loaded, ignores SIGPIPE and catches SIGINT, and a child does so no more.

    Its lower priority tells nothing where the tests themselves run at the lowest.
    """
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return False
    sets = {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name in ("SigIgn", "SigCgt")}
    return bool(sets["SigIgn"] & _bit(signal.SIGPIPE)) and not sets["SigCgt"] & _bit(signal.SIGINT)


def _bit(number: signal.Signals) -> int:
    return 1 << (number - 1)


def _let_go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
