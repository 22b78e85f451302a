"""Child processes that end, or stand still, in the midst of their work: nothing is lost or doubled, and nothing stays behind."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from bench.place import Place
from tests.daemon.places import needs_proc
from tests.waiting import PATIENCE, until

pytestmark = needs_proc

#: Modules that children run: of an import, of the daemon for the tree, and of the daemon for the indexes.
KINDS = ("memory_mcp.ingest.child", "memory_mcp.jobs.child", "memory_mcp.indexes.child")
#: Enough bytes for an import to have children, enough segments (each event is a session) for the tree and the indexes to have
#: some; few events, so that all else is quick.
FILES, EVENTS, SIZE = 2, 160, 30_000


def history(folder: Path) -> None:
    folder.mkdir()
    for number in range(FILES):
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

    def run(self) -> None:
        while not self.over.wait(0.05):
            for pid, seen in self._place.processes().items():
                for kind in KINDS:
                    # Its priority is lowered when it begins its work: before that, it is no more than Python being loaded.
                    if kind in seen.command and kind not in self.hit and _priority(pid) > _priority(seen.parent):
                        self.hit[kind] = pid
                        os.kill(pid, self._signal)


def imported(place: Place, folder: Path) -> "subprocess.CompletedProcess[str]":
    return place.run("import", "jsonl", str(folder), patience=2 * PATIENCE)


@pytest.mark.parametrize("sent", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGSTOP"])
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
    until(lambda: len(killer.hit) == len(KINDS))
    for pid in killer.hit.values() if sent == "SIGSTOP" else ():
        _let_go_on(pid)
    killer.over.set()
    killer.join()
    until(lambda: indexed(place))
    for said in (done.stderr, again.stderr):
        assert "Traceback" not in said
    stats = json.loads(place.ok("admin", "stats", "--json"))
    assert stats["rows"]["event"] == FILES * EVENTS
    assert json.loads(place.ok("admin", "check", "--json"))["findings"] == []
    place.ok("daemon", "stop")
    until(lambda: not place.processes(), place.processes())
    assert not list((place.directory / "spool" / "import").iterdir())
    assert "KeyboardInterrupt" not in (place.directory / "daemon.log").read_text()


def test_a_stop_while_children_work_or_stand_still_leaves_none_and_tells_no_traceback(place: Place, tmp_path: Path) -> None:
    history(tmp_path / "history")
    place.ok("daemon", "start")
    killer = Killer(place, signal.SIGSTOP)
    killer.start()
    going = subprocess.Popen(
        [*place.command, "import", "jsonl", str(tmp_path / "history")],
        env=place.environment(), cwd=place.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: KINDS[0] in killer.hit)
    going.send_signal(signal.SIGTERM)
    _, said = going.communicate(timeout=PATIENCE)
    killer.over.set()
    killer.join()
    place.ok("daemon", "stop")
    until(lambda: not place.processes(), place.processes())
    assert "Traceback" not in said
    assert "Traceback" not in (place.directory / "daemon.log").read_text()
    assert imported(place, tmp_path / "history").returncode == 0
    assert json.loads(place.ok("admin", "stats", "--json"))["rows"]["event"] == FILES * EVENTS


def indexed(place: Place) -> bool:
    found = json.loads(place.ok("search", "fender checked", "--all", "--json"))
    return bool(found["results"])


def _priority(pid: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except ProcessLookupError:
        return 0


def _let_go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
