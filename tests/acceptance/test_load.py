"""Many clients, hooks and an import on one data directory, with and without the daemon killed under them."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import place, traffic
from bench.load import Load, Options, Report, failures
from bench.place import PATIENCE, Place
from memory_mcp.service.client import link
from tests.daemon.inside import ALONE, Done, run_inside
from tests.daemon.places import look

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")


class Watched(Place):
    """A place whose daemon builds no index but that of words; it is looked at, filled before and judged after all from here."""

    def __init__(self, root: Path, idle: int) -> None:
        super().__init__(root, idle)
        # In the file, where the clients that are to be killed find it too.
        (self.home / "config.toml").write_text("[teleport.vector]\nenabled = false\n\n[topics]\nenabled = false\n")

    def run(self, *words: str, stdin: str = "", patience: float = PATIENCE) -> Done:
        if words[-1].endswith("before.jsonl") or words[0] == "admin" or words[-1] == "stop":
            return run_inside(words, self.environment() | ALONE, self.home, stdin)
        return super().run(*words, stdin=stdin, patience=patience)

    def status(self) -> dict[str, Any]:
        try:
            return look(self)
        except (OSError, link.Refused):
            return {"running": False}


def loaded(patience: float, **options: float) -> dict[str, Any]:
    """What a run in a process of its own saw; nothing that does not hold."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "bench.load", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience, check=False)
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failures"] == []
    assert done.returncode == 0
    return report


def test_clients_hooks_and_an_import_share_one_daemon_that_ends_when_they_have_gone(tmp_path: Path) -> None:
    options = Options(clients=2, calls=8, hooks=3, import_events=60, victims=1, idle=2)
    with Watched(tmp_path, options.idle) as place:
        report = Load(place, options).run()
    assert failures(report, options) == []
    assert report.calls == 2 * 8
    assert report.tried - 2 * 10 < report.acknowledged <= report.tried
    assert report.acknowledged > 60 + 3
    assert report.most_owners == len(report.owners) == 1
    assert report.victims == 1


@pytest.mark.slow  # in the short form, `test_storm.py` kills it under clients, hooks and imports.
def test_a_daemon_killed_again_and_again_loses_nothing_and_doubles_nothing_and_no_client_notices() -> None:
    report = loaded(500, clients=4, calls=10, hooks=10, import_events=600, victims=1, idle=2, kills=3, kill_after=1)
    assert report["kills"] == 3
    assert len(report["owners"]) >= 3
    assert report["most_owners"] == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sixteen_clients_with_an_import_and_hooks_beside_them() -> None:
    report = loaded(1700, clients=16, calls=200, hooks=500, import_events=20_000, victims=6)
    assert report["calls"] == 16 * 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_daemon_killed_for_a_minute_under_sixteen_clients() -> None:
    report = loaded(1700, clients=16, calls=200, hooks=500, import_events=20_000, victims=6, kill=60)
    assert report["kills"] >= 8


# the judgement itself

SOUND: dict[str, Any] = {"most_owners": 1, "owners": [7], "resident": [100_000_000] * 160}


def test_a_sound_run_is_judged_sound() -> None:
    assert failures(Report(**SOUND), Options()) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"errors": ["c01: remember raised"]}, "1 errors, such as: c01: remember raised"),
        ({"given_up": ["a call"], "calls": 100}, "1 of 100 calls were given up: ['a call']"),
        ({"missing": ["mark-a-b-1"]}, "1 missing: ['mark-a-b-1']"),
        ({"doubled": ["mark-a-b-1"]}, "1 doubled: ['mark-a-b-1']"),
        ({"unknown": ["mark-a-b-1"]}, "1 unknown: ['mark-a-b-1']"),
        ({"left": ["7 daemon"]}, "1 left: ['7 daemon']"),
        ({"stayed": ["a relay"]}, "1 stayed: ['a relay']"),
        ({"most_owners": 2}, "2 processes had the store open at once"),
        ({"most_owners": 0}, "0 processes had the store open at once"),
        ({"owners": [7, 8]}, "the store changed hands: [7, 8]"),
        ({"spooled": 1, "spool": ["tmp/a"]}, "1 payloads were never drained: ['tmp/a']"),
        ({"check": "1: broken"}, "admin check: 1: broken"),
        (
            {"resident": [100_000_000] * 80 + [140_000_000] * 80, "calls": 3200},
            "memory grew from 100 MB in the second quarter to 140 MB in the last",
        ),
        ({"resident": [100_000_000, 500_000_000]}, "the daemon took 500 MB"),
    ],
)
def test_each_thing_that_does_not_hold_is_said(wrong: dict[str, Any], told: str) -> None:
    assert failures(Report(**(SOUND | wrong)), Options()) == [told]


def test_a_run_too_short_to_compare_its_quarters_is_not_judged_by_them() -> None:
    growing = [100_000_000] * 20 + [140_000_000] * 20
    assert failures(Report(**(SOUND | {"resident": growing, "calls": 3200})), Options()) == []
    # Also one of few calls for which a busy machine takes long.
    assert failures(Report(**(SOUND | {"resident": 8 * growing, "calls": 16})), Options()) == []


def test_a_daemon_that_was_hardly_killed_proves_nothing() -> None:
    assert failures(Report(**(SOUND | {"kills": 1})), Options(kill=60)) == ["only 1 kills in 60 s"]


def test_under_kills_a_few_calls_may_be_given_up_and_many_may_not() -> None:
    sound = SOUND | {"kills": 9, "calls": 100}
    assert failures(Report(**(sound | {"given_up": ["slow"]})), Options(kill=60)) == []
    assert len(failures(Report(**(sound | {"given_up": ["slow"] * 2})), Options(kill=60))) == 1


def test_marks_are_counted_by_the_events_that_hold_them(tmp_path: Path) -> None:
    from memory_mcp.app import App
    from memory_mcp.config import Settings
    from memory_mcp.storage.settings import StorageSettings
    from tests.factories import draft

    app = App(Settings(storage=StorageSettings(str(tmp_path / "data"), "UTC")))
    texts = ("See mark-hook-h-00001.", "Again mark-hook-h-00001, twice: mark-hook-h-00001.", "mark-remember-c03-00017")
    app.write([draft(text, source_id=str(n)) for n, text in enumerate(texts)], "test")
    app.close()
    assert traffic.counted(tmp_path / "data") == Counter({"mark-hook-h-00001": 2, "mark-remember-c03-00017": 1})
