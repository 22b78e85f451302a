"""`search`: one node, the children of a node, a whole level."""

import datetime as dt
import json

import pytest

from tests.cli.conftest import Cli, Told, said
from tests.requirements import requirement


@requirement("plan:cli-search-level", "plan:success-cli-search")
@pytest.mark.parametrize(
    ("level", "node_id"), [("year", "toc:year:2026"), ("month", "toc:month:2026-01"), ("day", "toc:day:2026-01-30")]
)
def test_a_level_is_searched_whole(memory: Cli, level: str, node_id: str) -> None:
    done = memory("search", "--level", level, "--query", "JWT expiration")
    assert done.status == 0
    assert done.text.splitlines()[0] == f"{node_id}  (relevance: 1.00)"
    found = memory("search", "--level", level, "--query", "JWT expiration", "--json").data
    assert [r["node_id"] for r in found["results"]] == [node_id]
    assert {r["level"] for r in found["results"]} == {level}


@requirement("plan:cli-search-node")
def test_one_node_is_searched_in_its_own_text(memory: Cli) -> None:
    found = memory("search", "--node", "toc:month:2026-01", "--query", "JWT", "--json").data
    assert (found["node_id"], found["level"], found["matched"]) == ("toc:month:2026-01", "month", True)
    assert any(m["field"] == "bullets" and m["grip_ids"] for m in found["matches"])
    text = memory("search", "--node", "toc:month:2026-01", "--query", "JWT").text
    assert text.startswith("toc:month:2026-01\n")
    assert "[grip:" in text


def test_a_node_without_the_words_says_so(memory: Cli) -> None:
    done = memory("search", "--node", "toc:year:2024", "--query", "JWT")
    assert (done.status, "Nothing in this node's own text matches" in done.text) == (0, True)


@requirement("plan:cli-search-limit")
def test_the_limit_caps_results_at_ten_by_default(memory: Cli) -> None:
    ten = memory("search", "--query", "harbour", "--json").data
    assert (len(ten["results"]), ten["has_more"]) == (10, True)
    three = memory("search", "--query", "harbour", "--limit", "3", "--json").data
    assert [r["node_id"] for r in three["results"]] == [r["node_id"] for r in ten["results"][:3]]
    assert f"More with --cursor {three['next_cursor']}" in memory("search", "--query", "harbour", "--limit", "3").text


def test_the_query_may_stand_alone_segments_are_searched_by_default_and_fields_narrow_it(memory: Cli) -> None:
    found = memory("search", "refresh", "token", "rotation", "--json").data
    assert {r["level"] for r in found["results"]} == {"segment"}
    narrow = memory("search", "--level", "day", "--query", "HS256", "--fields", "bullets", "--json").data
    assert {m["field"] for r in narrow["results"] for m in r["matches"]} == {"bullets"}


def test_nothing_found_is_an_answer(memory: Cli) -> None:
    done = memory("search", "xylophone")
    assert (done.status, 'Nothing matches "xylophone"' in done.text) == (0, True)


def test_the_question_as_it_was_just_recorded_neither_answers_nor_outshines_what_does(told: Told) -> None:
    """A client's hook records a prompt before the agent asks with the same words."""
    at, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    asked = "Which port does the staging server of the lantern project listen on?"
    answer = "Remember that the staging server of the lantern project listens on port 7411."
    lines = [said(f"f{n}", at - (n + 3) * day, "user", f"Count the anchors of dock {n}.") for n in range(40)]
    lines += [said("old", at - day / 12, "user", answer), said("new", at - day / 86_400, "user", asked)]
    first = told(lines)("ask", asked, "--all", "--json").data["results"][0]
    assert "7411" in json.dumps(first)
