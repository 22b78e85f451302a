"""Clients, hooks and imports under attack: nothing acknowledged is lost or doubled, nobody is left without an answer."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from bench import place, traffic
from bench.load import Options
from bench.storm import Storm
from bench.traffic import ERAS, Talker
from tests.acceptance.test_load import Watched
from tests.waiting import PATIENCE, beside, until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")


class Short(Storm):
    """Each attack meets clients, hooks and an import of its own, of so many calls; in the long form none of them ever ends."""

    def beside(self, tasks: TaskGroup) -> None:
        tasks.start_soon(anyio.to_thread.run_sync, self._attack)

    def _one(self, kind: str) -> None:
        number = len(self.storms.attacks)
        source = self.place.root / f"beside{number}"
        marks = traffic.write_history(source, self.options.import_events, source.name, number)
        self.account.tried |= marks
        talkers = [Talker(self.place, f"c{number}{n}", era, bearable=self.bearable) for n, era in enumerate(ERAS)]

        def imported(_: object) -> None:
            self.account.acknowledged |= marks if self._imported(source) else set()

        def hooked(_: object) -> None:
            anyio.run(traffic.hooks, self.place, 3, 2, self.account, 3 * number, self.bearable)

        def talked(talker: Talker, _: object) -> None:
            anyio.run(talker.talk, lambda done: done < self.options.calls)

        with beside(imported, hooked, *(partial(talked, talker) for talker in talkers)):
            until(lambda: all(talker.done > 2 or talker.rests for talker in talkers), "for clients that talk")
            super()._one(kind)
        for talker in talkers:
            self.account.add(talker.account)
            self.report.calls += talker.done


def test_what_was_acknowledged_is_there_after_the_daemon_was_killed_under_all_of_them(tmp_path: Path) -> None:
    # Of files that are gone, noise and links in their places and what is no message `test_found.py`, `test_tiers.py`,
    # `test_damage.py`, `test_links.py` and `test_lines.py` of the daemon try each alone.
    kinds = ["kill"]
    options = Options(clients=0, calls=8, import_events=60, kills=1, grace=PATIENCE)
    with Watched(tmp_path, options.idle) as attacked:
        storm = Short(attacked, options, 0, kinds, each_once=True, mounted=False)
        report = storm.run()
        assert storm.judge() == []
    assert storm.storms.attacks == dict.fromkeys(kinds, 1)
    assert (report.kills, report.calls) == (1, 2 * 8)
    assert {mark.split("-")[1] for mark in storm.account.acknowledged} == {"hook", "import", "ingest", "probe", "remember"}
    assert report.acknowledged > 60 + 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_attack_once_under_clients_hooks_and_imports() -> None:
    # Counted in attacks, of which a busy machine bears fewer in a time. The nightly workflow goes on with them for an hour.
    command = [sys.executable, "-m", "bench.storm", "--json", "--each-once", "--clients=4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3500, check=False)
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failures"] == []
    assert len(report["storms"]["attacks"]) > 8
    assert {*report["storms"]["attacks"].values()} == {1}
