"""Questions of earlier sessions are no evidence, with every layer, before and after they are filed and indexed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.indexes.document import DOCUMENT_VERSION
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings, VectorSettings
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import HOOK, EventDraft, EventType, Role
from memory_mcp.search.layers.base import Query
from memory_mcp.search.policy.relevance import Confidence
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
    app.accelerators.catch_up()


def test_what_was_said_in_return_comes_before_every_question(app: App) -> None:
    app.write(decision(), "jsonl")
    file(app)
    app.write(questions(), f"{HOOK}claude-code")
    assert_decision_first(app)
    file(app)
    assert_decision_first(app)


def assert_decision_first(app: App) -> None:
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


def test_a_prompt_without_a_mark_that_came_to_nothing_is_behind_what_answers(app: App) -> None:
    app.write(decision(), "jsonl")
    file(app)
    for at, reply in enumerate(3 * ["I don't know.", "I don't know about the lock.", "No idea, let me know."]):
        session = f"nothing{at}"
        told = [draft(ASKED[1], NOON - HOUR + at, session), draft(reply, NOON - HOUR + at + 5, session, Role.ASSISTANT)]
        app.write(told, f"{HOOK}claude-code")
    assert app.ask(Query(QUESTION, limit=10)).hits[0].session_id == "old"
    file(app)
    assert app.ask(Query(QUESTION, limit=10)).hits[0].session_id == "old"


@pytest.mark.parametrize("reply", ["", "OK, I'll remember that."])
def test_a_decision_typed_alone_is_shown_behind_what_answers(app: App, reply: str) -> None:
    told = [draft("Decision: we use advisory locks, never redis.", NOON - HOUR, "alone")]
    if reply:
        told.append(draft(reply, NOON - HOUR + 5, "alone", Role.ASSISTANT))
    app.write(told, f"{HOOK}claude-code")
    file(app)
    hits = app.ask(Query("do we use redis or advisory locks", limit=10)).hits
    assert hits[0].session_id == "alone"
    assert hits[0].quote.startswith("Decision")
    app.write(decision(), "jsonl")
    file(app)
    hits = app.ask(Query("do we use redis or advisory locks", limit=10)).hits
    assert {"old", "alone"} <= {hit.session_id for hit in hits}
    # What got a reply may be the note that it looks like.
    assert reply or hits[0].session_id == "old"


@pytest.mark.parametrize("is_between", [True, False])
def test_a_reply_in_the_next_segment_answers_its_prompt(app: App, is_between: bool) -> None:
    note, late = "we keep the advisory lock for the bookings of the berth", NOON - HOUR
    app.write([draft(note, NOON - 10 * HOUR, "late")], f"{HOOK}claude-code")
    if is_between:
        file(app)
    reply = "Understood, and I have written to the harbour office that every booking of a berth waits for the one before it."
    app.write([draft(reply, late, "late", Role.ASSISTANT)], f"{HOOK}claude-code")
    file(app)
    assert len(app.storage.toc.list_ids(TocLevel.SEGMENT)) == 2
    [hit] = [h for h in app.ask(Query("which lock for the bookings of the berth", limit=10)).hits if h.quote == note]
    assert not hit.asks


def test_a_question_to_the_memory_is_one_over_the_border_of_segments(app: App) -> None:
    app.write([draft(ASKED[0], NOON - 10 * HOUR, "late")], f"{HOOK}claude-code")
    file(app)
    call = {"tool": SEARCH, "tool_use_id": "t"}
    calls = [
        (f"{SEARCH}: lock", NOON - HOUR, Role.ASSISTANT, EventType.TOOL_CALL),
        (UNKNOWN, NOON - HOUR + 1, Role.ASSISTANT, None),
    ]
    drafts = [draft(t, at, "late", r, k, metadata=call if k else {}) for t, at, r, k in calls]
    app.write(drafts, f"{HOOK}claude-code")
    file(app)
    assert all(hit.role != Role.USER for hit in app.ask(Query(QUESTION, limit=10)).hits)


def test_a_prompt_that_tells_something_else_is_behind_its_reply(app: App) -> None:
    prompt = "How should the refresh token rotate? The JWT expires after 15 minutes."
    reply = "Rotate the refresh token at each use, and revoke the whole family of it when an old one comes back."
    told = [draft(prompt, NOON - HOUR, "token"), draft(reply, NOON - HOUR + 5, "token", Role.ASSISTANT)]
    app.write(told, "jsonl")
    file(app)
    hits = tuple(h for h in app.ask(Query("how does the refresh token rotate", limit=10)).hits if h.event_id)
    # Without indexes nothing is beside a hit, and both stay as they are.
    if app.settings.teleport.enabled:
        assert [hit.quote for hit in hits[:2]] == [reply, prompt]
    hits = app.ask(Query("when does the JWT expire", limit=10)).hits
    assert hits[0].quote == prompt


@pytest.mark.parametrize("version", [0, DOCUMENT_VERSION - 1])
def test_a_store_indexed_by_an_earlier_version_answers_rightly(data_dir: Path, version: int) -> None:
    def opened() -> App:
        return App(Settings(storage=StorageSettings(str(data_dir), "UTC")), FakeClock())

    with pytest.MonkeyPatch.context() as earlier:
        for module in ("bm25.kind", "vector.kind", "topics.keeper"):
            earlier.setattr(f"memory_mcp.indexes.{module}.DOCUMENT_VERSION", version)
        earlier.setattr("memory_mcp.indexes.document.classify_turns", lambda *_: {})
        earlier.setattr("memory_mcp.indexes.document.only_requests", lambda *_: False)
        with closing(opened()) as app:
            app.write(decision(), "jsonl")
            app.write(questions(), f"{HOOK}claude-code")
            file(app)
            assert app.ask(Query(QUESTION, limit=10)).hits[0].session_id != "old"
    with closing(opened()) as app:
        app.accelerators.catch_up()
        assert app.ask(Query(QUESTION, limit=10)).hits[0].session_id == "old"


def test_questions_and_replies_that_know_nothing_are_no_sure_answer(app: App) -> None:
    app.write(questions(), f"{HOOK}claude-code")
    file(app)
    answer = app.ask(Query("what lock was decided for the bookings", limit=10))
    assert answer.confidence is not Confidence.STRONG
