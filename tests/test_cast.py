"""The terminal in the README: the script still records the real program, and draws a picture that stands alone."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.files import load_script
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GRIP = re.compile(r"grip:(?:\d+:)?[0-9a-z]{16}")
#: What a picture in the README may weigh (bytes).
HEAVIEST = 150_000

pytestmark = [
    pytest.mark.timeout(PATIENCE),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals that Python opens"),
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """docs/cast.py, which lies in no package."""
    return load_script(DOCS / "cast.py")


def rows(svg: str, at_the_end: bool = False) -> list[str]:
    """What each row says, from above; at the end: without those that are replaced."""
    groups = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")
    kept = [g for g in groups if "r" in g.get("class", "").split() and not (at_the_end and g.get("visibility"))]
    return [" ".join("".join(text.itertext()) for text in group) for group in kept]


def stands_alone(svg: str) -> bool:
    return not re.search(r"<script|@import|@font-face|href|url\(|/tmp/|/root/", svg.replace('xmlns="http://www.w3.org', ""))


@pytest.mark.usefixtures("processes")
def test_the_program_recorded_now_answers_with_a_grip_and_opens_it(script: ModuleType, tmp_path: Path) -> None:
    text = script.cast(script.record(tmp_path))
    assert json.loads(text.splitlines()[0])["version"] == 2
    assert str(tmp_path) not in text
    svg = script.draw(script.events_of(text))
    seen = rows(svg, at_the_end=True)
    typed = [row for row in seen if row.startswith("$ ")]
    assert len(typed) == len(script.COMMANDS)
    answer = "\n".join(seen[seen.index(typed[1]) : seen.index(typed[2])])
    assert "lock in Postgres" in answer
    assert (found := GRIP.search(answer)) is not None
    assert typed[2].endswith(found[0])
    assert any("verified" in row for row in seen[seen.index(typed[2]) :])
    assert stands_alone(svg)
    # The recording that is kept shows the same: the program did not change below it.
    kept = script.events_of((DOCS / "terminal.cast").read_text(encoding="utf-8"))
    assert [row for row in rows(script.draw(kept), at_the_end=True) if row.startswith("$ ")] == typed


def test_the_picture_that_is_kept_is_drawn_from_the_recording_that_is_kept(script: ModuleType) -> None:
    svg = (DOCS / "terminal.svg").read_text(encoding="utf-8")
    assert svg == script.draw(script.events_of((DOCS / "terminal.cast").read_text(encoding="utf-8")))
    assert stands_alone(svg)
    assert len(svg.encode()) < HEAVIEST
    assert any(GRIP.search(row) for row in rows(svg))


def test_a_row_that_is_written_anew_is_seen_as_it_was_at_each_time(script: ModuleType) -> None:
    screen = script.Screen()
    for at, text in ((0.0, "10%"), (1.0, "\r\x1b[2K90%\r\n\x1b[1A\x1b[2K"), (2.0, "done\r\n"), (3.0, "x" * (script.COLUMNS + 1))):
        screen.feed(at, text)
    assert screen.rows == ["done", "x" * script.COLUMNS, "x"]
    assert [said for _, said in screen.versions[0]] == ["10%", "", "done"]
