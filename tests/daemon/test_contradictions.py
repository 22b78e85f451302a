"""A newer statement contradicts an older one: through the installed command and a client on a pipe, among hundreds of events."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.corpus import events
from bench.place import Place
from tests.daemon.inside import BARE, WORDS, Beside, Inside
from tests.daemon.places import DAEMON, call, copied, needs_proc

pytestmark = needs_proc

SHOP, OTHER = "github.com/acme/shop", "github.com/acme/other"
#: Projects of tests that say something of what is stored in them.
TAKEN, GONE, PERSON = "github.com/acme/taken", "github.com/acme/gone", "github.com/acme/person"
FULL = ("serve", "--profile", "full")
OLD, NEW = "We decided to use Postgres for the orders ledger.", "We decided to use MySQL for the orders ledger."
OLD_ZH, NEW_ZH = "我们决定使用红隼作为包裹队列。", "我们决定改用苍鹭作为包裹队列。"
ALPHA, BETA = "Service alpha listens on port 8081.", "Service beta listens on port 8082."
#: Newer than both, and about the same among much else, so that by its words alone it stands behind them.
LATER = "We decided that after a talk on attics, drawers and the night job the orders ledger is archived each quarter."
LATER_ZH = "我们决定，在阁楼、抽屉和夜间任务讨论很久之后，包裹队列每个季度归档一次。"
OTHERWISE = "a later statement says otherwise"


def line(text: str, day: int, project: str = SHOP, role: str = "user", hour: int = 9) -> str:
    stamp = f"2026-01-{day:02d}T{hour:02d}:00:00Z"
    told = {"session_id": f"{project}-{day}", "timestamp": stamp, "role": role, "text": text, "project": project}
    return json.dumps(told) + "\n"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Events of other things, 1,200 in the long form; pairs that contradict each other, and pairs that both hold."""
    made = Inside(tmp_path_factory.mktemp("origin"), more=BARE)
    count = 1200 if request.config.getoption("--slow") else 150
    made.ok("ingest", "-", stdin="".join(json.dumps(e) + "\n" for e in events(count, mean_bytes=120)))
    older = (line(OLD, 5), line(OLD_ZH, 6), line(ALPHA, 7), line(OLD, 8, OTHER))
    newer = (line(NEW, 12), line(NEW_ZH, 13), line(BETA, 14), line(LATER, 15), line(LATER_ZH, 16))
    own = [line(text, day, project) for project in (TAKEN, GONE) for text, day in ((OLD, 4), (NEW, 12))]
    own += [line(OLD, 4, PERSON), line(NEW, 12, PERSON, "assistant"), line(NEW, 13, PERSON, "tool")]
    made.ok("ingest", "-", stdin="".join([*older, *newer, *own]))
    return made.directory


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, origin: Path, pytestconfig: pytest.Config) -> Iterator[Place]:
    """For tests that change nothing but a project of their own."""
    more = DAEMON if pytestconfig.getoption("--slow") else WORDS
    with copied(origin, tmp_path_factory.mktemp("filled"), more, kind=Beside) as made:
        yield made


def found(place: Place, query: str, project: str = SHOP) -> dict[str, dict[str, Any]]:
    """What is found in a project by quotation, in order."""
    results = json.loads(place.ok("ask", query, "--project", project, "--detail", "full", "--json"))["results"]
    return {r["quote"]: r for r in results}


def test_what_a_newer_statement_contradicts_is_marked_and_stands_behind_it(filled: Place) -> None:
    for again in (False, True):
        if again:
            # Nobody said so: it follows from what is stored, and a rebuild comes to the same.
            filled.ok("admin", "rebuild-toc")
        for query, old, new in (("which database does the orders ledger use", OLD, NEW), ("包裹队列使用什么", OLD_ZH, NEW_ZH)):
            results = found(filled, query)
            order = list(results)
            assert order.index(new) < order.index(old)
            older, newer = results[old], results[new]
            assert older["superseded_by"] == newer["grip_ids"][0]
            assert older["why_superseded"] == OTHERWISE
            assert "superseded_by" not in newer
    assert SHOP not in {act["project"] for act in json.loads(filled.ok("admin", "audit", "--json"))["acts"]}


def test_what_was_decided_last_comes_first_and_what_holds_no_more_behind_it(filled: Place) -> None:
    for query, expected in (
        ("what was decided last about the orders ledger", [LATER, NEW, OLD]),
        ("包裹队列最后决定用什么", [LATER_ZH, NEW_ZH, OLD_ZH]),
        ("what was decided last", [LATER_ZH, LATER, NEW_ZH, NEW]),
    ):
        assert list(found(filled, query))[: len(expected)] == expected
    # A question that does not ask for the last goes by the words.
    assert next(iter(found(filled, "use MySQL for the orders ledger"))) == NEW


def test_what_holds_beside_another_and_what_another_project_said_is_untouched(filled: Place) -> None:
    ports = found(filled, "which port does service alpha and beta listen on")
    assert not any("superseded_by" in ports[text] for text in (ALPHA, BETA))
    assert "superseded_by" not in found(filled, "orders ledger postgres", OTHER)[OLD]


def test_pages_and_opened_quotations_tell_it(filled: Place) -> None:
    old = found(filled, "orders ledger postgres")[OLD]
    day = json.loads(filled.ok("query", "node", "2026-01-05", "--all", "--json"))["node"]
    marked = {b["text"]: (b.get("superseded_by"), b.get("why_superseded")) for b in day["bullets"]}
    assert marked[OLD] == (old["superseded_by"], OTHERWISE)
    [opened] = call(filled, FULL, {}, ("expand_grip", {"grip_id": old["grip_ids"][0]}))
    assert (opened["superseded_by"], opened["why_superseded"]) == (old["superseded_by"], OTHERWISE)


def test_what_a_person_or_an_agent_says_of_a_statement_counts_alone(filled: Place) -> None:
    old = found(filled, "orders ledger postgres", TAKEN)[OLD]["grip_ids"][0]
    new = found(filled, "orders ledger postgres", TAKEN)[NEW]["grip_ids"][0]
    # The newer is taken back: what it contradicted holds again.
    filled.ok("retract", new, "--reason", "never agreed")
    assert "superseded_by" not in found(filled, "orders ledger postgres", TAKEN)[OLD]
    done = json.loads(filled.ok("correct", old, "The orders ledger is a wheelbarrow.", "--reason", "said so", "--json"))
    again = found(filled, "orders ledger postgres", TAKEN)[OLD]
    assert (again["superseded_by"], again["why_superseded"]) == (done["grip_id"], "said so")


def test_a_statement_of_a_person_is_not_marked_by_an_agents_and_one_of_a_tool_marks_nothing(filled: Place) -> None:
    assert "superseded_by" not in found(filled, "orders ledger postgres", PERSON)[OLD]
    # What the person says later marks both.
    filled.ok("ingest", "-", stdin=line("We decided to use Sqlite for the orders ledger.", 14, PERSON))
    results = found(filled, "orders ledger postgres mysql sqlite", PERSON)
    assert results[OLD]["superseded_by"] == results[NEW]["superseded_by"]


def test_a_mark_goes_with_what_made_it(filled: Place) -> None:
    assert "superseded_by" in found(filled, "orders ledger postgres", GONE)[OLD]
    filled.ok("forget", "--session", f"{GONE}-12", "--yes")
    assert "superseded_by" not in found(filled, "orders ledger postgres", GONE)[OLD]
