"""Pages of one question: all cut from one list that is kept, whatever is written meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.search.layers.base import Query
from memory_mcp.search.policy.merge import hit_identity
from memory_mcp.search.policy.plan import How, Mode
from memory_mcp.search.policy.recent import Pages, ResultList
from memory_mcp.search.policy.relevance import Confidence
from tests.factories import draft
from tests.fakes import NOON, FakeClock
from tests.filled import filled
from tests.indexes.helpers import opened
from tests.policy.hits import listed

HOUR = 3_600_000
#: Sessions, and messages of each, that hold the words of the question.
SESSIONS, MESSAGES = 24, 4
QUESTION = "palladium ledger row"
ROOM = {"max_nodes_visited": 1000, "max_rpc_calls": 500}


def said(number: int, session: str) -> str:
    account = number * 37 % 101
    return f"Note {number} of {session}: the palladium ledger has a row for account {account} and another reason each time."


@pytest.fixture(params=[True, False], ids=["words", "tree"])
def app(request: pytest.FixtureRequest, data_dir: Path, clock: FakeClock) -> Iterator[App]:
    """Ninety-six messages that answer, found by the keyword index or by the tree alone."""
    drafts = [
        draft(said(n, f"s{s}"), at=NOON - (s + 1) * 24 * HOUR + n * 60_000, session=f"s{s}", source_id=f"{s}.{n}")
        for s in range(SESSIONS)
        for n in range(MESSAGES)
    ]
    filled(data_dir, drafts)
    found = opened(data_dir, clock)
    if request.param:
        found.accelerators.catch_up()
    yield found
    found.close()


def why(offset: int) -> How:
    return How(bounds=ROOM, offset=offset)


def test_twelve_pages_beside_a_writer_repeat_and_lose_nothing(app: App) -> None:
    whole = [hit_identity(h) for h in app.ask(Query(QUESTION, limit=60), why(0)).hits]
    shown: list[str] = []
    for page in range(12):
        answer = app.ask(Query(QUESTION, limit=5), why(5 * page))
        assert len(answer.hits) == 5, page
        shown += [hit_identity(h) for h in answer.hits]
        late = draft(
            f"Late {page}: palladium ledger row, palladium ledger row.", at=NOON + page, session="late", source_id=f"late{page}"
        )
        app.write([late], "test")
        if page % 3 == 2:
            app.derivation.run()
            app.accelerators.catch_up()
    assert len(set(shown)) == 60
    assert not any("late" in one.session_id for one in answer.hits)
    assert set(shown[:5]) <= set(whole)


def test_a_page_is_the_same_when_it_is_asked_for_again_and_behind_the_last_there_is_none(app: App) -> None:
    pages = [[hit_identity(h) for h in app.ask(Query(QUESTION, limit=5), why(offset)).hits] for offset in (0, 5, 10, 5, 10)]
    assert pages[1] == pages[3]
    assert pages[2] == pages[4]
    offset, shown = 0, set()
    while True:
        answer = app.ask(Query("reason time account", limit=20), why(offset))
        shown |= {hit_identity(h) for h in answer.hits}
        offset += len(answer.hits)
        if not answer.has_more or not answer.hits:
            break
    behind = app.ask(Query("reason time account", limit=20), why(offset + 20))
    assert (behind.hits, behind.has_more) == ((), False)
    assert "no further results" in behind.why.notices
    assert len(shown) == offset


# what is kept


def kept(*scores: float) -> ResultList:
    return ResultList(tuple(listed("m", *scores)), False, None, Confidence.STRONG, True)  # type: ignore[arg-type]


def test_a_first_page_is_always_asked_anew_and_replaces_what_was_kept() -> None:
    pages, query = Pages(), Query("anything")
    pages.keep_list(query, How(), kept(0.9))
    assert pages.find_list(query, How()) is None
    assert pages.find_list(query, How(offset=5)) == kept(0.9)
    pages.keep_list(query, How(), kept(0.8))
    assert pages.find_list(query, How(offset=5)) == kept(0.8)


@pytest.mark.parametrize(
    ("query", "how"),
    [
        (Query("something else"), How(offset=5)),
        (Query("anything", project="shop"), How(offset=5)),
        (Query("anything", role="user"), How(offset=5)),
        (Query("anything", speaker="Ada"), How(offset=5)),
        (Query("anything"), How(offset=5, mode=Mode.PARALLEL)),
        (Query("anything"), How(offset=5, min_confidence=0.5)),
        (Query("anything"), How(offset=5, as_of=NOON)),
        (Query("anything"), How(offset=5, bounds={"max_nodes_visited": 3})),
    ],
    ids=["text", "project", "role", "speaker", "mode", "confidence", "moment", "bounds"],
)
def test_pages_of_another_question_are_not_cut_from_it(query: Query, how: How) -> None:
    pages = Pages()
    pages.keep_list(Query("anything"), How(), kept(0.9))
    assert pages.find_list(query, how) is None


def test_a_page_may_be_of_another_size_and_take_another_time_and_the_oldest_questions_make_room() -> None:
    pages = Pages()
    pages.keep_list(Query("anything", limit=5), How(), kept(0.9))
    how = How(offset=5, bounds={"timeout_ms": 200, "max_token_budget": 100})
    assert pages.find_list(Query("anything", limit=20), how) == kept(0.9)
    for number in range(100):
        pages.keep_list(Query(f"question {number}"), How(), kept(0.9))
    found = [pages.find_list(Query(f"question {n}"), How(offset=5)) is not None for n in range(100)]
    assert found == [False] * 36 + [True] * 64
