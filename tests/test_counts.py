"""The program that counts the source beside other projects'."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.counts import ROOT, count, count_names, private_uses, sample

_MODULE = '''"""A module."""

import numpy as np


def load(rows: np.ndarray, name: str) -> int:
    """Return the number of rows of an array of shape (n, 3). ValueError for none."""
    if not len(rows):
        raise ValueError(name)
    return _twice(_twice(len(rows))) + _once(1)


def check(name: str) -> None:
    if not name:
        raise ValueError(name)


def _twice(number: int) -> int:
    return 2 * number


def _once(number: int) -> int:
    # A comment.
    return sorted([number], key=lambda one: -one)[0]
'''


def test_a_module_is_counted(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(_MODULE)
    counts = count("one", tmp_path)
    assert (counts.modules, counts.functions, counts.long_functions, counts.code) == (1, 4, 0, 12)
    assert counts.private_helpers_per_1000 == 2 / 0.012
    assert counts.private_used_once_percent == 50
    assert counts.lambdas_per_1000 == 1 / 0.012
    assert (counts.with_docstring_percent, counts.raising, counts.raising_documented) == (50, 2, 1)
    assert (counts.with_arrays, counts.arrays_with_shape) == (1, 1)


def test_a_sample_shows_functions_without_their_bodies(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(_MODULE)
    told = "\n".join(sample(tmp_path, 4, seed=1))
    assert "load(rows: np.ndarray, name: str) -> int\n    Return the number of rows" in told
    assert "_once(number: int) -> int\n    (no docstring)" in told
    assert "raise" not in told


def test_private_attributes_of_others_are_counted_in_tests(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test(it):\n    assert it._secret == it.open\n    assert it.__class__\n")
    assert private_uses(tmp_path) == 1


@pytest.mark.usefixtures("processes")
def test_the_program_prints_its_project_as_json(tmp_path: Path) -> None:
    for name in ("src/memory_mcp/one.py", "src/memory_mcp/room/two.py", "tests/test_one.py", "tools/counts.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text() if name.startswith("tools") else _MODULE)
    program = [sys.executable, str(tmp_path / "tools/counts.py"), "--alone", "--json"]
    told = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert [(row["name"], row["modules"]) for row in told["rows"]] == [("memory-mcp", 2), ("its tests", 1)]
    assert (told["root_modules"], told["private_uses_in_tests"]) == (1, 0)


# the bars of names

#: Packages whose functions are not all named by verb and object yet.
UNFINISHED = {"base", "install", "question", "requests", "server", "service"}


def test_names_of_variables_and_functions_say_what_is_held_and_done() -> None:
    folders = [path.parent for path in sorted((ROOT / "src" / "memory_mcp").glob("*/__init__.py"))]
    unfit = {}
    for folder in (*folders, ROOT / "src" / "memory_mcp_team"):
        names = count_names(folder)
        # A folder of few functions may have a few that its protocols name.
        if folder.name not in UNFINISHED and (
            names.vague_variables > 0.5 or names.participle_functions > 6 or names.one_word_functions > 50
        ):
            unfit[folder.name] = names
    assert unfit == {}
    whole = count_names(ROOT / "src")
    assert whole.vague_variables < 1
    assert whole.participle_functions < 2
    assert whole.one_word_functions < 45
    assert whole.docstring_median <= 11


def test_the_package_for_teams_names_things_plainly() -> None:
    names = count_names(ROOT / "src" / "memory_mcp_team")
    assert names.vague_variables < 0.5
    assert names.participle_functions < 1.5
    assert names.one_word_functions < 45
    assert names.docstring_median <= 10
    assert names.docstring_p90 <= 12


def test_names_are_counted(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        'def told(given: int) -> int:\n    """One two three."""\n    found_rows = given\n    return found_rows\n'
    )
    names = count_names(tmp_path)
    assert (names.vague_variables, names.participle_functions, names.one_word_functions) == (50, 100, 100)
    assert (names.docstring_median, names.docstring_p90) == (3, 3)
