"""Cells and bars, and where a terminal gets which of them."""

import datetime as dt
import io
from pathlib import Path

import pytest

from memory_mcp.cli import render
from tests.cli.conftest import Cli, Told, on_a_terminal, said


def test_cells_and_columns_grow_with_their_counts_and_nothing_is_not_something() -> None:
    assert render.heat([0, 1, 100, 400], blocks=False) == ".:+#"
    assert render.heat([0, 1, 100, 400], blocks=True) == "·░▒█"
    assert render.heat([0, 0], blocks=True) == "··"
    assert render.heat([], blocks=True) == ""
    assert render.spark([0, 1, 8, 16], blocks=True) == "·▁▄█"
    assert render.spark([0, 1, 100], blocks=True) == "·▁█"
    assert render.spark([0, 1, 100, 400], blocks=False) == ".:+#"
    assert render.spark([], blocks=True) == ""


def test_bars_are_as_wide_as_said_and_show_whatever_is_there_and_names_never_touch() -> None:
    assert render.bar(10, 10, 8, blocks=False) == "#" * 8
    assert render.bar(5, 10, 8, blocks=True) == "████    "
    assert render.bar(1, 1000, 8, blocks=True) == "▏       "
    assert render.bar(1, 1000, 4, blocks=False) == "#   "
    assert render.bar(0, 0, 4, blocks=True) == "    "
    assert all(len(render.bar(n, 97, 11, blocks)) == 11 for n in range(98) for blocks in (True, False))
    assert render.ruler([(0, "Jan"), (5, "Feb"), (9, "Mar"), (12, "Apr")], 14) == "Jan  Feb Mar"


def test_the_timeline_begins_with_its_year_and_has_a_bar_and_in_json_a_count_for_each_week(memory: Cli) -> None:
    lines = memory("timeline").text.splitlines()
    assert lines[0].split() == "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    cells = lines[1].removeprefix("2026  ").split()[0]
    assert (len(cells), cells[4], set(cells) <= set(render.ASCII)) == (53, "#", True)
    data = memory("timeline", "--json").data
    assert [week["week"] for week in data["weeks"]] == ["2025-W52", "2026-W05"]
    weeks = {line.split()[0]: line.split()[1] for line in lines if line.startswith(("2025-W", "2026-W"))}
    assert {week["week"]: week["events"] for week in data["weeks"]}["2026-W05"] == 4
    assert len(weeks["2025-W52"]) > len(weeks["2026-W05"]) > 0
    assert {"node_id", "day", "title", "events", "sessions", "segments"} <= set(data["days"][0])
    assert {"node_id", "start", "end", "title", "project", "events"} <= set(data["days"][0]["segments"][0])
    [year] = data["years"]
    assert (year["year"], len(year["weeks"])) == (2026, 53)
    assert [w["week"] for w in year["weeks"] if w["events"]] == ["2026-W05"]
    assert memory("timeline", "--project", "printer", "--json").data["years"][0]["year"] == 2024


def test_a_long_time_is_told_in_days_and_a_longer_one_in_weeks(memory: Cli) -> None:
    few = memory("timeline", "--since", "2025-12-20").text
    assert "09:00" in few or "10:00" in few
    many = memory("timeline", "--since", "2025-11-20").text
    assert sum(line.startswith("2025-1") and line[7] == "-" for line in many.splitlines()) > 14
    assert "10:00-" not in many
    assert "are shown with what lies in them" in many
    data = memory("timeline", "--since", "2025-11-20", "--json").data
    assert all(day["segments"] for day in data["days"])


@pytest.mark.parametrize(("encoding", "no_color", "blocks"), [("utf-8", "", True), ("latin-1", "", False), ("utf-8", "1", False)])
def test_blocks_are_drawn_only_where_a_terminal_has_them(
    copy: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, no_color: str, blocks: bool
) -> None:
    shown = on_a_terminal(monkeypatch, "timeline", "--data-dir", str(copy), no_color=no_color, encoding=encoding)
    assert ("█" in shown) is blocks
    assert ("#" in shown.split("most in a week")[0]) is not blocks
    assert ("\x1b[" in shown) is not bool(no_color) or "\x1b[1m" in shown


@pytest.mark.parametrize(("no_color", "blocks"), [("", True), ("1", False)])
def test_stats_are_drawn_where_timeline_draws(copy: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, blocks: bool) -> None:
    shown = on_a_terminal(monkeypatch, "admin", "stats", "--data-dir", str(copy), no_color=no_color)
    assert ("  2024-05 to 2026-01, most 60 in 2025-11" in shown) is blocks
    assert (f"{'level segment':<22} {59:>9}  " + "█" * 24 in shown) is blocks
    assert any(c in "▁▂▃▄▅▆▇█" for c in shown) is blocks


@pytest.mark.parametrize(("tty", "plain", "blocks"), [(True, False, True), (True, True, False), (False, False, False)])
def test_the_callers_terminal_decides_and_not_the_process_that_answers(
    tty: bool, plain: bool, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "" if plain else "1")
    there = type("There", (io.StringIO,), {"isatty": lambda self: tty, "encoding": "utf-8"})()
    token = render.TERMINAL.set(render.Terminal(there, there, 80, plain))
    try:
        assert render.draws_blocks() is blocks
    finally:
        render.TERMINAL.reset(token)


def test_short_exchanges_are_one_line_in_the_timeline_and_can_be_opened(told: Told) -> None:
    lines = []
    for number in range(14):
        at = dt.datetime(2026, 1, 30, 6, 0, tzinfo=dt.UTC) + dt.timedelta(minutes=40 * number)
        for turn in range(2 if number % 2 else 12):
            text = f"The buoy number {number} was painted for the {turn}th time."
            lines.append(said(f"s{number}", at + dt.timedelta(seconds=20 * turn), ("user", "assistant")[turn % 2], text))
    ask = told(lines)
    text = ask("timeline").text
    assert "  7 short exchanges; memory-mcp query browse 2026-01-30 " in text
    assert "buoy number 1 " not in text
    assert sum(s["quiet"] for s in ask("timeline", "--json").data["days"][0]["segments"]) == 7
    cursor = ask("query", "browse", "2026-01-30", "--json").data["folded_cursor"]
    assert f"- 7 short exchanges, 14 events: --cursor {cursor}" in ask("query", "browse", "2026-01-30").text
    opened = ask("query", "browse", "2026-01-30", "--cursor", cursor).text
    assert opened.count("toc:segment:") == 7
