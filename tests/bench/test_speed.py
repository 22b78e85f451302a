"""The speed bench: every row is measured on a real daemon, and the table says what a bar and a yardstick say."""

import json
import shutil
from pathlib import Path

import anyio
import pytest

import memory_mcp
from bench import histories, place
from bench.speed import __main__ as speed
from bench.speed import rest, scale
from bench.speed.run import Options, Run
from bench.speed.table import Row, lines
from bench.speed.writes import another

SAMPLES = Path(memory_mcp.__file__).parent / "samples" / "projects"
TINY = Options(
    questions=4, many=6, writes=3, idle=0.5, rest=0.5, times=1, repeats=1, starts=1, runs=1, beside=20, small=20, still=0.2
)
#: These share one daemon, and say what most people want to know.
SHORT = ("packages", "questions", "kinds", "status")

seen = pytest.mark.skipif(not place.VISIBLE, reason="processes are looked at through /proc")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `bench.histories` reads it: the sample's sessions, and some of commits with their questions."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(SAMPLES, folder / "transcripts")
    said = (("user", "Remove the start command."), ("assistant", "The start command is gone, and its tests with it."))
    units = [
        {"id": f"u{n}", "session": f"s{n // 8}", "ts": f"2026-01-05T10:{n:02d}:00Z", "role": role, "text": text}
        for n, (role, text) in enumerate(said * 8)
    ]
    queries = [{"query": f"remove the {word} command"} for word in ("start", "stop", "status", "list", "reset")]
    for name, rows in (("units", units), ("queries", queries)):
        path = folder / "commits" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def history(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    histories.write(folder, data, 60)
    return folder


@seen
@pytest.mark.usefixtures("processes")
def test_questions_are_measured_beside_other_engines(history: Path, tmp_path: Path) -> None:
    pytest.importorskip("tantivy")
    found = speed.measure(tmp_path, history, TINY, groups=SHORT)
    assert list(found) == ["import", *SHORT]
    rows = {row.name: row for rows in found.values() for row in rows}
    for tool in ("intelligent_search", "teleport_search"):
        for name in (tool, f"{tool}, CPU of daemon and pump"):
            assert list(rows[name].values) == ["p50", "p95", "p99"]
            assert set(rows[name].beside) == {"FTS5 server", "empty server", "tantivy, in process"}
            assert min(*rows[name].values.values(), *rows[name].beside.values()) > 0
    assert set(rows["database after the import"].values) == {"running", "stopped"}
    assert all(row.values for rows in found.values() for row in rows)


@seen
@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_every_row_is_measured(history: Path, tmp_path: Path) -> None:
    found = speed.measure(tmp_path, history, TINY)
    assert set(found) == set(speed.GROUPS)
    assert all(row.values for rows in found.values() for row in rows)
    printed = lines([row for rows in found.values() for row in rows])
    assert len(printed) == 2 + sum(map(len, found.values()))


@seen
@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_stores_of_several_sizes_are_kept_and_compared(data: Path, tmp_path: Path) -> None:
    home, first = scale.built(data, tmp_path, 40, TINY.still)
    database = (home / "data" / "memory.duckdb").stat().st_mtime_ns
    again, told = scale.built(data, tmp_path, 40, TINY.still)
    assert (again, told) == (home, first)
    tables = [scale.measured(home, TINY, ("start", "disk")), scale.measured(home, TINY, ("disk",))]
    assert (home / "data" / "memory.duckdb").stat().st_mtime_ns == database
    assert [tables[0][0].name, tables[0][2].name, tables[1][0].name] == [
        "first answer after a daemon's start",
        "database at rest",
        "database at rest",
    ]


def test_an_installation_is_the_program_and_all_that_it_needs(history: Path, tmp_path: Path) -> None:
    with place.Place(tmp_path) as served:
        [row] = anyio.run(rest.packages, Run(served, history, TINY))
    assert row.values[""] > 50
    assert "duckdb" in row.note


def test_growth_is_that_of_the_last_over_the_first() -> None:
    tables = [
        [Row("a", "ms", {"p50": 2.0}), Row("b", "MB", {"": 4.0}), Row("c", "MB", {"": 1.0}), Row("d", "MB", {"": 1.0})],
        [Row("a", "ms", {"p50": 3.0}), Row("c", "MB", {"": 2.0}), Row("d", "MB", {"": 3.0})],
    ]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in scale.curve((1000, 2000), tables)]
    assert cells[0] == ["what", "1,000", "2,000", "last over first"]
    assert cells[2:] == [
        ["a p50, ms", "2.00", "3.00", "1.50x"],
        ["b, MB", "4.00", "", ""],
        ["c, MB", "1.00", "2.00", "2.00x"],
        ["d, MB", "1.00", "3.00", "3.00x, faster than the size"],
    ]


@pytest.mark.parametrize(
    ("words", "installed", "is_reported"),
    [
        ((), False, True),
        ((), True, False),
        (("--rows", "start,kinds"), False, True),
        (("--rows", "start"), False, False),
        (("scale", "--folder", "x"), False, False),
    ],
)
def test_an_engine_that_is_not_installed_is_reported_where_it_would_be_measured(
    words: tuple[str, ...], installed: bool, is_reported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "find_spec", lambda name: name if installed else None)
    arguments, _ = speed.parsed([*words, "--data", "."])
    assert ("tantivy" in speed.missing_engines(arguments)) == is_reported


def test_a_row_says_whether_its_bar_is_kept() -> None:
    assert Row("a", "ms", {"p50": 5.0}, {"p50": 5.0}).kept
    assert not Row("a", "ms", {"p50": 5.1, "p99": 9.0}, {"p50": 5.0}).kept
    assert Row("a", "per second", {"": 250.0}, {"": 250.0}, least=True).kept
    assert not Row("a", "per second", {"": 249.0}, {"": 250.0}, least=True).kept


def test_the_table_shows_values_bars_and_ratios() -> None:
    row = Row("a search", "ms", {"p50": 20.0, "p99": 70.0}, {"p50": 15.0}, beside={"another": 5.0}, note="few")
    shown = [cell.strip() for cell in lines([row])[2].strip("|").split("|")]
    assert shown == ["a search", "p50 20.0, p99 70.0 ms", "<= p50 15.0 NOT KEPT", "another 5.00 (4.0x); few"]


def test_a_history_told_under_other_ids_shares_none(history: Path, tmp_path: Path) -> None:
    other = another(history, tmp_path)
    mine, theirs = ({json.loads(line).get("uuid") for p in d.rglob("*.jsonl") for line in p.open()} for d in (history, other))
    assert len(mine) == len(theirs)
    assert mine & theirs <= {None}
