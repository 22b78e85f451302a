"""`show`: whatever an id names is opened, by the same requests as the commands that know what it is."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_a_quotation_is_shown_as_expand_grip_shows_it(memory: Cli) -> None:
    grip = memory("query", "node", "2026-01-30", "--json").data["node"]["bullets"][0]["grip_ids"][0]
    shown, expanded = memory("show", grip), memory("query", "expand-grip", grip)
    assert shown.text.startswith("Quotation\n")
    assert expanded.text in shown.text
    assert "memory-mcp show jwt" in shown.text
    assert memory("show", grip.rpartition(":")[2]).text == shown.text
    assert memory("show", f"[{grip}]", "--json").data["kind"] == "quotation"


def test_a_message_is_shown_whole_with_its_neighbours(memory: Cli) -> None:
    event = memory("query", "events", "--session", "jwt", "--json").data["events"][1]
    shown = memory("show", event["event_id"], "--json").data
    assert (shown["kind"], shown["grip"]["quote"], shown["verified"]) == ("message", event["text"], True)
    assert len(shown["events_before"]) == 1


@pytest.mark.parametrize(("name", "kind"), [("2026-01-30", "day"), ("2026-W05", "week"), ("2026-01", "month"), ("2026", "year")])
def test_a_period_is_shown_as_query_node_shows_it(memory: Cli, name: str, kind: str) -> None:
    shown = memory("show", name)
    assert memory("query", "node", name).text in shown.text
    assert memory("show", name, "--json").data["kind"] == kind


def test_each_way_on_is_one_that_can_be_gone(memory: Cli) -> None:
    """From a day to its segment, and to the session's messages."""
    day = memory("show", "2026-01-30", "--json").data
    for command in day["next_commands"]:
        assert memory(*command.split()[1:]).status == 0
    segment = memory("show", day["children"][0]["node_id"], "--json").data
    assert segment["kind"] == "segment"
    assert "memory-mcp show jwt" in segment["next_commands"]
    session = memory("show", "jwt", "--json").data
    assert (session["kind"], len(session["events"])) == ("session", 4)


@pytest.mark.usefixtures("processes")
def test_what_nothing_is_called_says_where_ids_are_found_and_a_time_that_holds_nothing_a_command(cli: Cli, copy: Path) -> None:
    # Topics are looked for by the first question about one.
    for name in ("nonsense", "grip:1:0123456789abcdef", "topic:0123456789ab", "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        done = cli("show", name, "--data-dir", str(copy))
        assert (done.status, done.out) in ((2, ""), (3, ""))
        # The line before it may tell that every project is searched.
        assert done.err.splitlines()[-1].startswith(("nothing ", "no ", "Topic graph"))
    refused = cli("show", "1999-W05", "--data-dir", str(copy))
    assert refused.status == 2
    assert "memory-mcp timeline" in refused.err
    assert "browse_toc" not in refused.err
