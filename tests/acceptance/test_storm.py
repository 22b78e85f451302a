"""Clients, hooks and imports under attack: nothing acknowledged is lost or doubled, nobody is left without an answer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import place

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")


def stormed(*words: str, patience: float) -> dict[str, Any]:
    """What a run in a process of its own saw; nothing that does not hold."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.storm", "--json", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failures"] == []
    return report


def test_what_was_acknowledged_is_there_after_every_kind_of_attack() -> None:
    # Of noise and links in the places of its files `daemon/test_damage.py` and `daemon/test_links.py` try each alone.
    kinds = ("kill", "delete", "messages")
    report = stormed("--each-once", "--clients=2", "--import-events=60", f"--only={','.join(kinds)}", patience=560)
    assert report["storms"]["attacks"] == dict.fromkeys(report["storms"]["attacks"], 1)
    assert set(report["storms"]["attacks"]) == set(kinds)
    assert report["acknowledged"] > 200
    assert report["storms"]["hostile"] > 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_an_hour_of_every_attack() -> None:
    report = stormed("--minutes=60", "--clients=4", patience=7000)
    assert sum(report["storms"]["attacks"].values()) >= 60
