"""What every answer promises, with indexes and without: nothing is withheld, a time is a preference, pages hold, bounds hold."""

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.embed.models import BUNDLED
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.storage.settings import StorageSettings
from tests.factories import a_small_history, draft
from tests.fakes import FakeClock
from tests.filled import filled as told
from tests.interaction.conftest import Door
from tests.interaction.indexed import opened
from tests.requirements import requirement

#: A line of code among much that shares its words, and a long one.
CODE = "strings.Builder"
LONG = "The cormorant protocol answers with four octets, of which the second names the pier and the last is always zero; " * 2
LITERAL = (f"find {CODE}", f"where is {CODE}", f"show me {CODE}", f'find "{LONG[:200]}"', f"find {LONG[:150]}")
SEARCHES = ("intelligent_search", "teleport_search", "vector_teleport", "hybrid_search")
ASKED = "Why did the harbour crane refuse the second container?"


def said() -> list[EventDraft]:
    """A week of work, and what these tests ask for."""
    places = ["harbour", "quay", "dock", "mole", "basin"]
    berths = [
        draft(
            f"Berth {number} at the {places[number % 5]}: mooring line {number * 7} was replaced by hawser {number * 11}.",
            at=f"2026-02-{number % 20 + 1:02} {8 + number // 20:02}:{number % 60:02}",
            session=f"berth-{number % 20}",
            role=(Role.USER, Role.ASSISTANT, Role.TOOL)[number % 3],
            speaker=("Melanie", "Caroline")[number % 2],
            metadata={"is_error": "true"},
        )
        for number in range(60)
    ]
    return [
        *a_small_history(1, "2026-02-02"),
        *berths,
        draft(f"var sb {CODE}\nsb.WriteString(line)", at="2026-02-19 15:00", session="go", role=Role.TOOL),
        draft("A builder of strings is fast; strings are joined by it.", at="2026-02-19 15:05", session="go"),
        draft(LONG, at="2026-02-20 15:00", session="pier", role=Role.ASSISTANT),
        draft(ASKED, at="2026-02-20 16:00", session="crane"),
        draft("The crane refused it since its seal was broken.", at="2026-02-20 16:01", session="crane", role=Role.ASSISTANT),
    ]


def filled(place: Any, model: str | None) -> App:
    """An App with indexes in `place`, or without any."""
    told(place / "data", said())
    app = opened(place / "data", model or "", TeleportSettings(enabled=model is not None), filled=False)
    if model is not None:
        app.accelerators.catch_up()
    return app


#: Keywords alone are asked for by test_teleport.py too.
@pytest.fixture(scope="module", params=["tree", pytest.param("keywords", marks=pytest.mark.slow), "both"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    model = {"tree": None, "keywords": "", "both": BUNDLED}[request.param]
    made = filled(tmp_path_factory.mktemp("promises"), model)
    yield made
    made.close()


@pytest.fixture
def door(app: App) -> Door:
    return Door(app, "auto")


def searches(door: Door) -> list[str]:
    """The search tools that can answer here."""
    tier = door.ok("get_retrieval_status")["tier"]
    return list({5: SEARCHES[:1], 4: SEARCHES[:2]}.get(tier, SEARCHES))


# nothing is withheld


def test_weak_evidence_is_shown_and_marked_and_a_floor_drops_results_only_where_the_caller_names_it(door: Door) -> None:
    found = door.ok("intelligent_search", query="hawser zeppelin quarantine ombudsman saxophone trombone")
    assert found["confidence"] == "weak"
    assert any("hawser" in one["quote"] for one in found["results"])
    assert door.ok("intelligent_search", query="which hawser replaced a mooring line")["confidence"] == "strong"
    usual = door.full("intelligent_search", query="hawser zeppelin", limit=20)["results"]
    floored = door.full("intelligent_search", query="hawser zeppelin", limit=20, bounds={"min_confidence": 0.9})["results"]
    assert len(floored) < len(usual)
    assert all(one["score"] >= 0.9 for one in floored)


def test_none_is_said_where_nothing_relevant_is_known_and_keeps_two_nearest_at_most_or_with_full_detail_all(door: Door) -> None:
    found = door.ok("intelligent_search", query="xylophonist")
    assert found["confidence"] == "none"
    assert found["missing"] == ["xylophonist"]
    near = [] if door.ok("get_retrieval_status")["tier"] != 2 else found["results"]
    assert (len(found["results"]), found["results"]) == (min(len(near), 2), near)
    assert "complete" not in found, "everything was searched"
    full = door.full("intelligent_search", query="xylophonist", limit=10)
    assert (full["confidence"], len(full["results"])) == ("none", 10 if near else 0)


@pytest.mark.parametrize("query", ["cause test decided", "hawser of berth 7", "zeppelin hawser"])
def test_what_ran_out_is_not_called_nothing(door: Door, query: str) -> None:
    found = door.ok("intelligent_search", query=query, bounds={"max_nodes_visited": 1})
    assert found["complete"] is False
    assert not [n for n in found["explanation"].get("notices", []) if "nothing" in n]


# who said it


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_role_is_applied_before_the_best_are_chosen(door: Door, role: str) -> None:
    for tool, limit in itertools.product(searches(door), (1, 10)):
        found = door.full(tool, query="mooring line replaced by a hawser", role=role, limit=limit)["results"]
        assert len(found) == limit, tool
        assert {one["role"] for one in found} == {role}, tool


def test_a_speaker_is_applied_likewise_and_an_unknown_one_names_those_known(door: Door) -> None:
    for tool in searches(door):
        found = door.full(tool, query="mooring line replaced by a hawser", speaker="melanie", limit=10)["results"]
        assert len(found) == 10, tool
        assert {one["speaker"] for one in found} == {"Melanie"}, tool
        text = door.error(tool, query="hawser", speaker="Melani")
        assert text.startswith("INVALID_ARGUMENT: unknown speaker: 'Melani'. Speakers are Caroline, Melanie."), tool


# times


@requirement("plan:loop-time-hints")
def test_a_time_in_a_question_comes_first_and_what_is_outside_is_marked_and_since_and_until_filter(door: Door) -> None:
    """Three of five from inside, two from outside."""
    found = door.ok("intelligent_search", query="which mooring line was replaced by a hawser on 12 February 2026")
    marks = [one.get("outside", False) for one in found["results"]]
    assert marks == [False, False, False, True, True]
    assert [one["when"][:10] == "2026-02-12" for one in found["results"]] == [not mark for mark in marks]
    assert found["explanation"]["window"]["words"]
    found = door.ok("intelligent_search", query="mooring line hawser", since="2026-02-12", until="2026-02-12")
    assert {one["when"][:10] for one in found["results"]} == {"2026-02-12"}
    assert not any("outside" in one for one in found["results"])


# literal texts, and the question itself


@pytest.mark.parametrize("query", LITERAL)
def test_a_text_that_is_stored_word_for_word_is_found(door: Door, query: str) -> None:
    quotes = [one["quote"] for one in door.full("intelligent_search", query=query)["results"]]
    assert any((CODE if CODE in query else LONG[:100]) in quote for quote in quotes)


def test_the_question_just_recorded_is_not_its_own_answer(door: Door) -> None:
    found = door.ok("intelligent_search", query=ASKED)["results"]
    assert ASKED not in [one["quote"] for one in found]
    assert "seal was broken" in found[0]["quote"]


# pages beside a writer


@pytest.mark.parametrize(("model", "writes"), [("", "ingest_events"), (None, "remember"), (BUNDLED, "ingest_events")])
@pytest.mark.few(1)
def test_twelve_pages_beside_a_writer_repeat_and_lose_nothing(tmp_path: Any, model: str | None, writes: str) -> None:
    """What is written meanwhile may come on a later page; what was there from the start comes once, whatever page it is on."""
    with closing(filled(tmp_path, model)) as app:
        reader, writer = Door(app, "auto"), Door(app, "legacy", client="Another")
        call: dict[str, Any] = {"query": "mooring line replaced by a hawser", "limit": 5, "cursor": ""}
        pages: list[list[str]] = []
        while "cursor" in call and len(pages) < 24:
            page = reader.full("intelligent_search", **call)
            pages.append([one["quote"] for one in page["results"]])
            call.pop("cursor")
            if "next_cursor" in page:
                call["cursor"] = page["next_cursor"]
            if len(pages) < 12:
                _write(writer, writes, len(pages))
    quotes = [quote for page in pages for quote in page]
    assert len(set(quotes)) == len(quotes)
    if model is None:
        return  # the walk's bounds end its list
    assert len(pages) >= 12
    assert {one.text for one in said() if one.text.startswith("Berth")} - set(quotes) == set()


def _write(writer: Door, tool: str, number: int) -> None:
    """Another client's message that answers the same question."""
    text = f"Mooring line {900 + number} was replaced by hawser {800 + number}."
    if tool == "remember":
        writer.ok("remember", text=text)
        return
    event = {"session_id": "late", "role": "user", "timestamp": f"2026-03-01T10:{number:02}:00Z", "text": text}
    writer.ok("ingest_events", events=[event])
    writer.app.derivation.run()
    writer.app.accelerators.maintain()


# bounds


def asked() -> Iterator[dict[str, Any]]:
    """Calls of every kind, in an order that mixes them."""
    queries = [
        "why was the hawser replaced",
        f"where is {CODE}",
        "what happened in February",
        "decided cause on 12 February 2026",
    ]
    queries += ["themes of the last weeks", "xylophonist", "harbour crane container", "retry queue", "test failed", "berth 7"]
    for number in itertools.count():
        call = {"query": queries[number % len(queries)], "intent": ("", "explore", "answer", "locate")[number % 4]}
        yield call | {"mode": ("", "sequential", "parallel", "hybrid")[number // 4 % 4], "limit": (1, 5, 20)[number % 3]}


@requirement("policy:FR-10", "policy:bound-max_nodes_visited")
@pytest.mark.parametrize("calls", [16, pytest.param(300, marks=pytest.mark.slow)])
def test_bounds_that_a_caller_names_are_never_overrun(door: Door, calls: int) -> None:
    every = list(itertools.product(("nodes_visited", "rpc_calls"), (1, 3)))
    for number, call in enumerate(itertools.islice(asked(), calls)):
        # In sixteen calls each intent and each mode meet each of the bounds once.
        turn = (number + number // 4) % len(every)
        for name, bound in every if calls > 16 else every[turn : turn + 1]:
            why = door.full("intelligent_search", **call, bounds={f"max_{name}": bound})["explanation"]
            assert why[name] <= bound, json.dumps(call)


# the best layer


@pytest.mark.parametrize("mode", ["parallel", "hybrid"])
def test_the_walk_beside_it_takes_nothing_from_the_best_layers_list(door: Door, mode: str) -> None:
    """Side by side the paths share one bound of nodes; what the walk visits is not what the best layer lacks."""
    if "teleport_search" not in searches(door):
        pytest.skip("only the tree is there")
    asked = {"query": "mooring line replaced by a hawser", "limit": 10, "bounds": {"max_nodes_visited": 20}}
    alone = [one["id"] for one in door.full("intelligent_search", mode="sequential", **asked)["results"]]
    for _ in range(5):
        assert [one["id"] for one in door.full("intelligent_search", mode=mode, **asked)["results"]] == alone


# the other engine


@pytest.fixture(scope="module", params=["tree", "both"])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[list[Door]]:
    """The same memory in DuckDB and in PostgreSQL, each with indexes of its own or with none."""
    model = {"tree": None, "both": BUNDLED}[request.param]
    doors = []
    for engine in ("duckdb", "postgres"):
        url = database_url if engine == "postgres" else ""
        directory = str(tmp_path_factory.mktemp(engine))
        storage = StorageSettings(directory, "Europe/Berlin", engine=engine, url=url, tenant=f"promises-{request.param}")
        teleport, embedder = TeleportSettings(enabled=model is not None), EmbedderSettings(model or "")
        app = App(Settings(storage=storage, server=ServerSettings("full"), teleport=teleport, embedder=embedder), FakeClock())
        app.write(said(), "jsonl")
        app.derivation.run()
        if model is not None:
            app.accelerators.catch_up()
        doors.append(Door(app, "auto"))
    yield doors
    for door in doors:
        door.app.close()


@pytest.mark.usefixtures("processes")
def test_both_engines_give_the_same_answers(engines: list[Door]) -> None:
    """Results, words of confidence, what is missing, the chain and its bounds, why something is not there."""
    calls: list[dict[str, Any]] = list(itertools.islice(asked(), 8))
    calls += [{"query": text} for text in ("hawser zeppelin", "xylophonist", f"find {CODE}", ASKED, "what did I do lately?")]
    calls += [
        {"query": "berth 7", "role": "tool"},
        {"query": "berth 7", "since": "2026-02-05", "bounds": {"max_nodes_visited": 3}},
    ]
    full = engines[0].full("intelligent_search", query="mooring line", limit=20)["results"]
    missing = [result["id"] for result in full if result["id"].startswith("grip:")][-1]
    calls += [{"query": "mooring line", "limit": 1, "why_not": missing}]
    # A lean answer is made of the full one, whatever the engine.
    for number, call in enumerate(calls):
        # Side by side a walk that is called off has got as far as it got.
        sequential = call | {"mode": "sequential"} | ({"detail": "full"} if number % 4 else {})
        answers = [_answer(door, sequential) for door in engines]
        assert answers[0] == answers[1], json.dumps(call)


def _answer(door: Door, call: dict[str, Any]) -> dict[str, Any]:
    """An answer without how long it took."""
    answer = door.ok("intelligent_search", **call)
    for attempt in answer["explanation"].get("tried", []):
        attempt.pop("ms")
    answer["explanation"].pop("elapsed_ms", None)
    return answer


@pytest.mark.parametrize("tool", ["intelligent_search", "navigate"])
def test_over_both_engines_fewer_are_the_first_of_more_and_no_deadline_empties_an_answer(
    engines: list[Door], tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry: dict[str, Any] = {"timeout_ms": 1} if tool == "intelligent_search" else {"bounds": {"timeout_ms": 1}}
    for door, query in itertools.product(engines, ("mooring line replaced by a hawser", "harbour crane container", "berth 7")):
        answers = [door.ok(tool, query=query, limit=n)["results"] for n in (1, 5)]
        grips = [[result.get("grip") or result["id"] for result in results] for results in answers]
        assert grips[0] == grips[1][:1], (tool, query)
        with monkeypatch.context() as patched:
            # The time is up after two looks at the clock; that for a first find after 2,000, however busy the machine is.
            patched.setattr(door.app.clock, "_tick", 0.0005)
            assert door.ok(tool, query=query, **hurry)["results"], (tool, query)
