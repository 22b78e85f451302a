"""What keeps a thing out of an answer: the change that is named shows it, and no part of the change can be left out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.model.event import Event, Role
from memory_mcp.model.ids import GripId, parse_span_grip
from memory_mcp.search.layers.base import Query
from memory_mcp.server.build import build_server
from memory_mcp.server.guard import MemoryServer
from tests.factories import BILLING, SHOP, draft
from tests.fakes import FakeClock
from tests.interaction.conftest import Door, history, open_app

DECIDED = "decided cause"
GRACE = "refresh token grace window"
WAITING = "The lighthouse keeper rotates the marmalade lamp every ninth evening."


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    """About forty segments of two projects and two agents, the same words all over, and one event that is not filed yet."""
    clock = FakeClock()
    made = open_app(profile="full", days=None, clock=clock)
    made.write(history(("2026-01-20",)), "jsonl")
    made.write([draft(f"Ledger rounding note {n}: we decided the cause is the cent table.", at=f"2026-01-{n:02} 08:00",
                      session=f"ledger-{n}", project=BILLING, agent="codex") for n in range(2, 31)], "jsonl")  # fmt: skip
    made.derivation.run()
    made.write([draft(WAITING, at="2026-02-25 09:00", session="late", role=Role.USER)], "jsonl")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(app: App) -> MemoryServer:
    return build_server(app, SHOP)


@pytest.fixture
def client(app: App, server: MemoryServer) -> Door:
    """A client that works on the shop."""
    return Door(app, "auto", SHOP, server=server)


def changed(given: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The call with the change made; bounds that are not named stay."""
    bounds = {**given.get("bounds", {}), **change.get("bounds", {})}
    return {**given, **change, **({"bounds": bounds} if bounds else {})}


def parts(change: dict[str, Any]) -> list[dict[str, Any]]:
    """The change without each of its arguments in turn, those in bounds one by one."""
    found = [{k: v for k, v in change.items() if k != name} for name in change if name != "bounds"]
    inner = change.get("bounds", {})
    for name in inner:
        rest = {k: v for k, v in inner.items() if k != name}
        others = {k: v for k, v in change.items() if k != "bounds"}
        found.append({**others, **({"bounds": rest} if rest else {})})
    return found


def shows(client: Door, missing: str, arguments: dict[str, Any]) -> bool:
    """Whether the answer names it: a node, a grip, or an event by a grip of it or by its id; a segment by any of its messages.

    A refused call shows nothing.
    """
    answer = client.call("intelligent_search", **{**arguments, "detail": arguments.get("detail", "full")})
    if answer.is_error or answer.structured_content is None:
        return False
    own = {missing, *grips_of(client.app, missing)}
    for result in answer.structured_content["results"]:
        if missing.startswith("toc:segment:") and result.get("level") not in (None, "segment"):
            continue  # a period names statements of segments that it does not show
        named = {result["id"], result.get("event_id", ""), *result["grip_ids"]} | {q["grip_id"] for q in result.get("also", [])}
        spans = {span[0] for g in named if (span := parse_span_grip(g))}
        if own & (named | spans):
            return True
    return False


def grips_of(app: App, missing: str) -> set[str]:
    if missing.startswith("toc:segment:"):
        every = [e.event.event_id for batch in app.storage.events.iter_all() for e in batch]
        found = app.storage.grips.grips_by_event(every)
        held = app.storage.toc.get_segments({g.segment for own in found.values() for g in own})
        return {g.grip_id for own in found.values() for g in own if held[g.segment].node_id == missing}
    found = app.storage.grips.grips_by_event([missing]) if not missing.startswith(("toc:", "grip:")) else {}  # type: ignore[list-item]
    return {g.grip_id for own in found.values() for g in own}


def saying(app: App, words: str) -> Event:
    """The event that says something."""
    return next(e.event for batch in app.storage.events.iter_all() for e in batch if words in e.event.text)


def segment_of(app: App, words: str) -> str:
    grip = grip_of(app, words)
    key = app.storage.grips.get_grips([grip])[grip].segment
    return app.storage.toc.get_segments([key])[key].node_id


def grip_of(app: App, words: str) -> GripId:
    event_id = saying(app, words).event_id
    return app.storage.grips.grips_by_event([event_id])[event_id][0].grip_id


@dataclass(frozen=True)
class Case:
    """A call, what is missing from its answer, and the arguments that the change must name."""

    missing: str
    names: set[str]
    call: dict[str, Any] = field(default_factory=dict)


SINGLE_USE, FREEZE = "single-use refresh tokens", "release train leaves"
#: More words than a scan would look for.
MANY = "ledger rounding note: we decided the cause is the cent table somewhere"
LEDGER = "Ledger rounding note 17"
CASES = {
    "a segment of another project": Case(f"segment:{LEDGER}", {"scope"}, {"query": "ledger rounding note 17"}),
    "a grip of another project": Case(f"grip:{LEDGER}", {"scope"}, {"query": "ledger rounding note 17"}),
    "an event of another project": Case(f"event:{LEDGER}", {"scope"}, {"query": "ledger rounding note 17"}),
    "a project that is named": Case(f"segment:{SINGLE_USE}", {"project"}, {"query": GRACE, "project": BILLING}),
    "another agent": Case(f"segment:{SINGLE_USE}", {"agent"}, {"query": GRACE, "agent": "codex"}),
    "who said it": Case(f"grip:{SINGLE_USE}", {"role"}, {"query": GRACE, "role": "tool"}),
    "since": Case(f"segment:{SINGLE_USE}", {"since"}, {"query": GRACE, "since": "2026-01-22"}),
    "until": Case(f"segment:{SINGLE_USE}", {"until"}, {"query": GRACE, "until": "2026-01-20"}),
    "since, where until lets it in": Case(
        f"grip:{SINGLE_USE}", {"since"}, {"query": GRACE, "since": "2026-02-01", "until": "2026-02-28"}
    ),
    "time words alone": Case(f"segment:{SINGLE_USE}", {"until"}, {"query": "what happened on 2026-02-24"}),
    "the number of results": Case(f"segment:{LEDGER}", {"limit"}, {"query": DECIDED, "scope": "all", "limit": 1}),
    "the number of results, an event": Case(
        "event:Ledger rounding note 2:", {"limit"}, {"query": "ledger rounding note", "scope": "all", "limit": 2}
    ),
    "min_confidence": Case(
        f"segment:{SINGLE_USE}", {"bounds.min_confidence"}, {"query": GRACE, "bounds": {"min_confidence": 1.0}}
    ),
    "the token budget": Case(
        f"segment:{LEDGER}", {"token_budget"}, {"query": "ledger rounding note", "scope": "all", "limit": 50, "token_budget": 400}
    ),
    "the token budget among the bounds": Case(
        f"segment:{LEDGER}",
        {"bounds.max_token_budget"},
        {"query": "ledger rounding note", "scope": "all", "limit": 50, "bounds": {"max_token_budget": 400}},
    ),
    "nodes visited": Case(
        "segment:Ledger rounding note 2:",
        {"bounds.max_nodes_visited"},
        {"query": MANY, "scope": "all", "limit": 40, "bounds": {"max_nodes_visited": 3}},
    ),
    "project, number and nodes visited": Case(
        "segment:Ledger rounding note 2:",
        {"scope", "limit", "bounds.max_nodes_visited"},
        {"query": MANY, "limit": 1, "bounds": {"max_nodes_visited": 3, "timeout_ms": 60_000}},
    ),
    "an overview, which lists days": Case(
        f"segment:{SINGLE_USE}", {"intent"}, {"query": "what happened in January 2026", "intent": "explore", "limit": 40}
    ),
    "an event that is not filed yet, by time": Case(
        f"event:{WAITING[:30]}", {"until"}, {"query": "marmalade lamp", "until": "2026-02-01"}
    ),
    "project and time": Case(
        f"segment:{LEDGER}", {"scope", "since"}, {"query": "ledger rounding note 17", "since": "2026-02-01"}
    ),
    "project, agent and time": Case(
        f"event:{SINGLE_USE}",
        {"project", "agent", "until"},
        {"query": GRACE, "project": BILLING, "agent": "codex", "until": "2026-01-05"},
    ),
    "project and number": Case(f"segment:{LEDGER}", {"scope", "limit"}, {"query": DECIDED, "limit": 1}),
    "time and min_confidence": Case(
        f"segment:{SINGLE_USE}",
        {"since", "bounds.min_confidence"},
        {"query": GRACE, "since": "2026-02-01", "bounds": {"min_confidence": 1.0}},
    ),
    "number and tokens": Case(
        f"segment:{LEDGER}",
        {"limit", "token_budget"},
        {"query": "ledger rounding note", "scope": "all", "limit": 1, "token_budget": 300},
    ),
    "a month": Case("toc:month:2026-01", {"query"}, {"query": GRACE}),
    "a day": Case("toc:day:2026-01-21", {"query"}, {"query": GRACE}),
}


def id_of(app: App, missing: str) -> str:
    kind, _, words = missing.partition(":")
    if kind == "toc":
        return missing
    if kind == "event":
        return saying(app, words).event_id
    return segment_of(app, words) if kind == "segment" else grip_of(app, words)


def told(client: Door, missing: str, call: dict[str, Any]) -> dict[str, Any]:
    answer = client.call("intelligent_search", **{"detail": "full", **call}, why_not=missing)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    found = answer.structured_content["explanation"]["why_not"]
    assert found["id"] == missing
    assert found["reason"]
    return dict(found)


#: What other cases prove too: each argument is named by one of the short form, alone or beside others.
LONG = {
    *("a grip of another project", "an event of another project", "since, where until lets it in"),
    *("the number of results", "the number of results, an event", "the token budget", "nodes visited", "project and time"),
    *("time and min_confidence", "a month", "another agent", "until", "project and number"),
}


@pytest.mark.parametrize("case", [pytest.param(CASES[n], id=n, marks=[pytest.mark.slow] * (n in LONG)) for n in CASES])
def test_the_change_that_is_named_shows_it_and_nothing_less_does(client: Door, app: App, case: Case) -> None:
    missing = id_of(app, case.missing)
    assert not shows(client, missing, case.call)
    change = told(client, missing, case.call)["change"]
    named = {k for k in change if k != "bounds"} | {f"bounds.{k}" for k in change.get("bounds", {})}
    assert case.names <= named, change
    assert shows(client, missing, changed(case.call, change)), change
    for less in parts(change):
        assert not shows(client, missing, changed(case.call, less)), (change, less)


def paged(client: Door, page: int, **more: Any) -> dict[str, Any]:
    """A call for a later page of three, its cursor included."""
    call: dict[str, Any] = {"query": "ledger rounding note", "scope": "all", "limit": 3, **more}
    for _ in range(page):
        call["cursor"] = client.full("intelligent_search", **call)["next_cursor"]
    return call


@pytest.mark.parametrize(
    ("words", "names"),
    [("Ledger rounding note 30", {"cursor"}), ("Ledger rounding note 22", {"limit"})],
    ids=["before", "behind"],
)
def test_a_result_of_another_page_is_shown_by_the_page_or_by_more_results(
    client: Door, app: App, words: str, names: set[str]
) -> None:
    missing, call = segment_of(app, words), paged(client, 1)
    assert not shows(client, missing, call)
    change = told(client, missing, call)["change"]
    assert set(change) == names
    assert shows(client, missing, changed(call, change))


def test_a_change_of_the_question_leaves_the_page_behind(client: Door, app: App) -> None:
    """A cursor belongs to its question."""
    missing, call = segment_of(app, FREEZE), paged(client, 1, agent="codex")
    change = told(client, missing, call)["change"]
    assert {"agent", "cursor"} <= set(change)
    assert shows(client, missing, changed(call, change))
    for name in ("agent", "cursor"):
        assert not shows(client, missing, changed(call, {k: v for k, v in change.items() if k != name}))


def test_what_is_a_result_already_is_told_with_its_place_on_every_page(client: Door, app: App) -> None:
    first = told(client, segment_of(app, "Ledger rounding note 30"), paged(client, 0))
    assert (first["reason"], first.get("change", {})) == ("it is result 1", {})
    later = told(client, segment_of(app, "Ledger rounding note 27"), paged(client, 1))
    assert (later["reason"], later.get("change", {})) == ("it is result 4", {})


@pytest.mark.parametrize(
    "missing", ["toc:segment:2026-01-17:000000000000", "toc:month:1999-01", "grip:1:0000000000000", "nonsense"]
)
def test_an_id_of_nothing_is_a_clean_error(client: Door, missing: str) -> None:
    told = client.error("intelligent_search", query=GRACE, why_not=missing)
    assert told.startswith(("NOT_FOUND", "INVALID_ARGUMENT")), told


def test_a_way_is_found_in_a_few_tries(client: Door, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight searches were counted for this one: each costs what a question costs."""
    case, tries = CASES["a segment of another project"], list[object]()
    whole = app.ask

    def counted(query: Query, *more: Any, **named: Any) -> Any:
        tries.append(query)
        return whole(query, *more, **named)

    monkeypatch.setattr(app, "ask", counted)
    told(client, id_of(app, case.missing), case.call)
    assert 2 <= len(tries) <= 12


def test_it_has_a_time_of_its_own_whatever_the_call_allows(client: Door, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, call = segment_of(app, LEDGER), {"query": DECIDED, "scope": "all", "limit": 1, "timeout_ms": 2000}
    assert told(client, missing, call)["change"]["limit"] > 1
    monkeypatch.setattr("memory_mcp.requests.search.TRYING_MS", -1)
    found = told(client, missing, call)
    assert "time for trying was over" in found["reason"]
    assert "change" not in found


@pytest.mark.parametrize("query", ["xylophone", "refresh token"])
def test_words_of_the_thing_itself_are_never_proposed(client: Door, app: App, query: str) -> None:
    for missing in (segment_of(app, FREEZE), saying(app, WAITING[:30]).event_id):
        found = told(client, missing, {"query": query})
        assert "too few of its words" in found["reason"]
        assert "change" not in found


def test_words_of_another_project_are_not_handed_out(client: Door, app: App) -> None:
    found = told(client, id_of(app, f"segment:{LEDGER}"), {"query": "xylophone"})
    assert found["change"] == {"scope": "all"}
    assert "another project" in found["reason"]
    assert not set(LEDGER.lower().split()) & set(found["reason"].lower().split())
