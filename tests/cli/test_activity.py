"""`activity`: a map of the year, and totals by project and agent."""

from tests.cli.conftest import EVENTS, SESSIONS, Cli


def test_a_year_is_a_map_with_a_cell_for_each_day(memory: Cli) -> None:
    done = memory("activity", "--since", "2025", "--until", "2026")
    lines = done.out.splitlines()
    assert lines[0].startswith("2025  Jan")
    assert [line[:3] for line in lines[1:8]] == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    # 1 January 2025 is a Wednesday: what lies before it belongs to no day of that year.
    assert (lines[1][6], lines[2][6], lines[3][6]) == (" ", " ", ".")
    assert sum(len(line[6:].strip()) for line in lines[1:8]) == 365
    marked = sum(line.count("+") + line.count("*") + line.count("#") for line in lines[1:8])
    data = memory("activity", "--since", "2025", "--until", "2026", "--json").data
    assert marked == sum(day["day"].startswith("2025") for day in data["days"])
    assert "  harbour  " in done.out


def test_totals_and_years_are_those_of_the_scope_and_named_where_it_holds_nothing(memory: Cli) -> None:
    data = memory("activity", "--days", "3660", "--json").data
    assert (data["events"], data["sessions"], data["years"]) == (EVENTS, SESSIONS, [2024, 2025, 2026])
    assert sum(day["events"] for day in data["days"]) == EVENTS == sum(one["events"] for one in data["projects"])
    [agent] = data["agents"]
    months = agent.pop("months")
    assert agent == {"name": "tests", "events": EVENTS, "sessions": SESSIONS}
    assert sum(month["events"] for month in months) == EVENTS
    assert [month["month"] for month in months] == sorted({day["day"][:7] for day in data["days"]})
    printer = memory("activity", "--since", "2024", "--project", "printer", "--json").data
    assert printer["days"] == [{"day": "2024-05-14", "events": 1, "sessions": 1}]
    assert printer["years"] == [2024]
    assert (printer["first_day"], "last_day" in printer) == ("2024-01-01", False)
    done = memory("activity", "--since", "2020", "--until", "2021")
    assert done.out == "Nothing was recorded in that time; years that hold anything: 2024, 2025, 2026.\n"
    assert memory("activity", "--agent", "nobody").out == "Nothing was recorded in that time.\n"
