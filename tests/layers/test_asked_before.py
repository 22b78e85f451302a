"""Questions of earlier sessions are no evidence, with every layer, before and after they are filed and indexed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, VectorSettings
from memory_mcp.layers.base import Query
from memory_mcp.model.event import HOOK, EventDraft, EventType, Role
from memory_mcp.policy.relevance import Confidence
from memory_mcp.storage.settings import StorageSettings
from tests.factories import draft
from tests.fakes import NOON, FakeClock

HOUR = 3_600_000
QUESTION = "which lock did we choose for bookings"
ASKED = ("What did we decide about the lock for bookings?", "tell me which lock we chose for bookings")
UNKNOWN = "I do not know."
SEARCH = "mcp__memory-mcp__intelligent_search"


def decision() -> list[EventDraft]:
    told = [
        (Role.USER, "advisory locks or a redis lock for the berth bookings?"),
        (Role.ASSISTANT, "I would keep the lock in Postgres: the thing we protect is a row there."),
        (Role.USER, "agreed, advisory locks for the bookings, no redis"),
        (Role.ASSISTANT, "Done: bookings take an advisory lock."),
    ]
    return [draft(text, NOON - 48 * HOUR + at * 60_000, "old", role) for at, (role, text) in enumerate(told)]


def questions() -> list[EventDraft]:
    """Every question: alone, with a reply, and with a call of ours."""
    drafts = []
    for at, text in enumerate(ASKED):
        first = NOON - HOUR + at * 60_000
        drafts.append(draft(text, first, f"alone{at}"))
        drafts += [draft(text + "?", first, f"reply{at}"), draft(UNKNOWN, first + 5, f"reply{at}", Role.ASSISTANT)]
        call = {"tool": SEARCH, "tool_use_id": f"t{at}"}
        drafts += [
            draft(text, first, f"memory{at}"),
            draft(f"{SEARCH}: lock bookings", first + 1, f"memory{at}", Role.ASSISTANT, EventType.TOOL_CALL, metadata=call),
            draft(UNKNOWN, first + 5, f"memory{at}", Role.ASSISTANT),
        ]
    return drafts


TIERS = {
    "hybrid": TeleportSettings(),
    "words": TeleportSettings(vector=VectorSettings(enabled=False)),
    "meaning": TeleportSettings(bm25=IndexSettings(enabled=False)),
    "tree": TeleportSettings(enabled=False),
}


@pytest.fixture(params=list(TIERS))
def app(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[App]:
    found = App(Settings(storage=StorageSettings(str(data_dir), "UTC"), teleport=TIERS[request.param]), FakeClock())
    yield found
    found.close()


def file(app: App) -> None:
    app.derivation.run()
    app.accelerators.settle()


@pytest.mark.parametrize("is_filed", [True, False])
def test_what_was_said_in_return_comes_before_every_question(app: App, is_filed: bool) -> None:
    app.write(decision(), "jsonl")
    file(app)
    app.write(questions(), f"{HOOK}claude-code")
    if is_filed:
        file(app)
    hits = app.ask(Query(QUESTION, limit=10)).hits
    assert hits[0].session_id == "old"
    assert not hits[0].asks
    asking = [at for at, hit in enumerate(hits) if hit.role == Role.USER and hit.session_id != "old"]
    telling = [at for at, hit in enumerate(hits) if hit.session_id == "old" and not hit.asks]
    assert not asking or min(asking) > max(telling)
    assert not [hit for hit in hits if hit.session_id.startswith("memory") and hit.role != Role.ASSISTANT]


def test_questions_alone_are_no_answer(app: App) -> None:
    app.write(questions()[:1], f"{HOOK}claude-code")
    file(app)
    answer = app.ask(Query("what lock was decided for the bookings", limit=10))
    assert answer.confidence is Confidence.NONE
    assert all(hit.asks for hit in answer.hits)


def test_questions_and_replies_that_know_nothing_are_no_sure_answer(app: App) -> None:
    app.write(questions(), f"{HOOK}claude-code")
    file(app)
    answer = app.ask(Query("what lock was decided for the bookings", limit=10))
    assert answer.confidence is not Confidence.STRONG
