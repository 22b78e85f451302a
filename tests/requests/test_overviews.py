"""An overview by project: whose work it tells of, in which proportion, and within which size."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.capture.tombstones import ForgetRequest
from memory_mcp.config import Settings
from memory_mcp.forgetting.act import Forgetting
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.event import Event, EventDraft, EventType, ExcludedSession, Role
from memory_mcp.model.segment import Segment
from memory_mcp.requests.answers import SearchResponse
from memory_mcp.requests.overviews import Asked, overview_of
from memory_mcp.requests.plain import tokens_of
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, draft
from tests.fakes import FakeClock
from tests.interaction.conftest import open_app

MATTERS = "ledger retry cursor invoice parser cache schema router worker socket banner ticket".split()


@pytest.fixture
def app() -> Iterator[App]:
    made = open_app(days=None)
    yield made
    made.close()


def session(matter: str, day: int, project: str, exchanges: int = 1) -> list[EventDraft]:
    made = [
        draft(f"Rewrite the {matter} of the program, please.", at=f"2026-02-{day:02d} 09:00", session=matter, project=project)
    ]
    for number in range(exchanges):
        text = f"Replaced part {number} of the {matter} by a smaller one and measured it twice."
        at = f"2026-02-{day:02d} 09:{number + 1:02d}"
        made.append(draft(text, at=at, session=matter, project=project, role=Role.ASSISTANT))
    return made


def answer(app: App, query: str = "What have I been working on?", **more: object) -> SearchResponse:
    return search(app, SearchRequest(query=query, **more), Caller())  # type: ignore[arg-type]


def fill(app: App, *several: list[EventDraft]) -> None:
    app.write([event for events in several for event in events], "jsonl")
    app.derivation.run()


def test_the_project_in_which_more_happened_gets_more_lines_and_the_newest_comes_first(app: App) -> None:
    fill(app, *(session(matter, 1 + n, BILLING, 20) for n, matter in enumerate(MATTERS)), session("quokka", 20, SHOP))
    found = answer(app)
    shop, billing = found.projects
    assert (shop.project, billing.project) == ("shop", "billing")
    lines = [sum(map(len, (one.asked, one.done, one.decided, one.open))) for one in found.projects]
    assert 2 <= lines[0] < lines[1]
    assert tokens_of(found, 1.0) <= 700
    assert billing.asked[0].text == "Rewrite the ticket of the program, please."
    assert billing.sessions == len(MATTERS)


def test_a_smaller_budget_tells_fewer_projects_and_lines(app: App) -> None:
    fill(app, *(session(matter, 1 + n, f"/work/{matter}") for n, matter in enumerate(MATTERS)))
    small = answer(app, token_budget=250)
    assert 1 <= len(small.projects) < len(answer(app).projects)
    assert tokens_of(small, 1.0) <= 250


def test_what_is_asked_twice_is_answered_alike(app: App) -> None:
    fill(app, *(session(matter, 1 + n, BILLING) for n, matter in enumerate(MATTERS)))
    assert answer(app).projects == answer(app).projects != ()


def test_what_was_read_before_is_told_again_until_something_is_written_or_forgotten(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin"), teleport=TeleportSettings(False))
    app = App(settings, FakeClock())
    fill(app, *(session(matter, 1 + n, BILLING) for n, matter in enumerate(MATTERS)))
    first, read, whole = answer(app).projects, list[int](), app.storage.events.events_by_segment

    def count_segments(segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        read.append(len(segments))
        return whole(segments, last_seq)

    monkeypatch.setattr(app.storage.events, "events_by_segment", count_segments)
    assert answer(app).projects == first
    assert not read
    asked = draft("Rewrite the quokka of the program, please.", at="2026-02-27 09:00", session="later", project=BILLING)
    app.write([asked], "jsonl")
    app.derivation.run()
    later = answer(app).projects
    assert sum(read) == 1
    assert "quokka" in repr(later)
    Forgetting(app).carry_out(ForgetRequest(values=["quokka"]), "person", "test")
    assert "quokka" not in repr(answer(app).projects)
    app.close()


def test_records_without_an_agent_and_questions_for_who_said_something_are_listed_as_ever(app: App) -> None:
    notes = [
        draft(f"Ran {n} km along the quay in the morning.", at=f"2026-02-0{n} 07:00", session=str(n), project="") for n in (1, 2)
    ]
    fill(app, notes)
    found = answer(app)
    assert found.projects == ()
    assert found.results
    fill(app, session("ledger", 3, SHOP))
    assert answer(app).projects
    assert answer(app, role="user").projects == ()
    assert answer(app, query="What are the recurring themes?").projects == ()


def test_what_a_later_session_took_up_is_open_no_more(app: App) -> None:
    asked = draft("Add pagination to the orders list of the shop.", at="2026-02-01 09:00", session="one")
    begun = draft("First the query.", at="2026-02-01 08:59", session="one", role=Role.ASSISTANT)
    fill(app, [begun, asked], session("quokka", 2, SHOP))
    assert [line.text for line in answer(app).projects[0].open] == ["Add pagination to the orders list of the shop."]
    done = [
        draft("Go on with the pagination of the orders list.", at="2026-02-03 09:00", session="three"),
        draft(
            "Added the pagination to the orders list of the shop.", at="2026-02-03 09:01", session="three", role=Role.ASSISTANT
        ),
    ]
    fill(app, done)
    assert answer(app).projects[0].open == ()


def test_the_session_that_asks_and_questions_to_the_memory_are_no_work(app: App) -> None:
    fill(app, session("ledger", 3, SHOP))
    query = "What have I been working on?"
    call = {"tool": "mcp__memory__intelligent_search", "tool_use_id": "u1"}
    questions = [
        draft(query, at="2026-02-04 09:00", session="asks", agent="codex"),
        draft(
            "intelligent_search",
            at="2026-02-04 09:01",
            session="asks",
            role=Role.ASSISTANT,
            kind=EventType.TOOL_CALL,
            metadata=call,
        ),
        draft("You rewrote the ledger.", at="2026-02-04 09:02", session="asks", role=Role.ASSISTANT),
        draft("Rewrite the quokka of the program, please.", at="2026-02-04 09:03", session="asks"),
    ]
    fill(app, questions)
    [project] = answer(app).projects
    assert [line.text for line in project.asked] == [
        "Rewrite the quokka of the program, please.",
        "Rewrite the ledger of the program, please.",
    ]
    own = Asked(None, excluded=frozenset({ExcludedSession("asks")}))
    [project] = overview_of(app, own, app.calendar, lambda projects: True)
    assert [line.text for line in project.asked] == ["Rewrite the ledger of the program, please."]


def test_what_was_open_in_a_time_is_left_out_once_the_project_went_on(app: App) -> None:
    asked = draft("Rewrite the ledger of the program, please.", at="2026-02-04 09:00", session="ledger", project=BILLING)
    said = draft(
        "Rewrote the parser and measured it.", at="2026-02-04 08:59", session="parser", project=BILLING, role=Role.ASSISTANT
    )
    fill(app, [asked, said])

    def open_texts() -> list[str]:
        [project] = answer(app, "what did we do on 2026-02-04").projects
        return [line.text for line in project.open]

    assert open_texts() == ["Rewrite the ledger of the program, please."]
    # The next question reads again when each project was worked on last.
    fill(app, session("quokka", 20, BILLING))
    assert open_texts() == []
