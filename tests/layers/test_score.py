"""One list of messages from what speaks for each: weights, sessions, tools, the order that scores keep, both sides' union."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.indexes.candidates import NO_CANDIDATES, OWN_SCORE, SIMILARITY, Candidates
from memory_mcp.indexes.columns import ROLES
from memory_mcp.model.exchange import TurnKind
from memory_mcp.search.layers.score import BOTH, KEYWORDS, MEANING, Ranking, Weights, ground_replies, join_sides, rank_candidates
from tests.examples import examples

WEIGHTS = (KEYWORDS, MEANING, BOTH)
#: Shares are 0..1 over what a query could give; few different ones, so that equals are common.
SHARES = st.sampled_from((0.0, 0.05, 0.2, 0.2000001, 0.5, 0.9))


def candidates(
    words: Sequence[Sequence[float]] = (),
    meaning: Sequence[Sequence[float]] = (),
    sessions: Sequence[int] = (),
    roles: Sequence[str] = (),
    messages: Sequence[int] = (),
    grips: Sequence[int] = (),
    turns: Sequence[TurnKind] = (),
    exchanges: Sequence[int] = (),
) -> Candidates:
    """Messages numbered from 1, each of its own session, said by the user, with the grip of its number."""
    n = max(len(words), len(meaning))
    numbers = np.array(messages or range(1, n + 1), dtype=np.uint64)
    own = np.array([(*w, *(0.0,) * (4 - len(w))) for w in words] or np.zeros((n, 4)), dtype=np.float64)
    near = np.array([(*m, *(0.0,) * (2 - len(m))) for m in meaning] or np.zeros((n, 2)), dtype=np.float64)
    return Candidates(
        message=numbers,
        session=np.array(sessions or range(1, n + 1), dtype=np.uint64),
        hi=np.zeros(n, dtype=np.uint64),
        lo=np.array(grips, dtype=np.uint64) if grips else numbers,
        node_hi=np.zeros(n, dtype=np.uint64),
        node_lo=numbers,
        unit=numbers,
        start=numbers.astype(np.int64),
        role=np.array([ROLES.index(r) for r in roles or ["user"] * n], dtype=np.uint8),
        turn=np.array(turns or [TurnKind.PLAIN] * n, dtype=np.uint8),
        exchange=np.array(exchanges or [0] * n, dtype=np.uint64),
        raw=own[:, OWN_SCORE],
        words=own.reshape(n, 4),
        meaning=near.reshape(n, 2),
    )


def order(found: Ranking) -> list[int]:
    return [int(place) for place in found.places]


@st.composite
def any_candidates(draw: st.DrawFn) -> Candidates:
    n = draw(st.integers(1, 14))
    rows = st.lists(st.tuples(*[SHARES] * 6), min_size=n, max_size=n)
    numbers = draw(rows)
    sessions = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    roles = draw(st.lists(st.sampled_from(["user", "assistant", "tool"]), min_size=n, max_size=n))
    return candidates([r[:4] for r in numbers], [r[4:] for r in numbers], sessions, roles)


@examples(50)
@given(any_candidates(), st.sampled_from(WEIGHTS), st.booleans(), st.integers(1, 20))
def test_every_message_that_says_anything_is_listed_once_and_scores_fall_between_one_and_nothing(
    found: Candidates, weights: Weights, literal: bool, limit: int
) -> None:
    ranking = rank_candidates(found, weights, literal, limit)
    speaking = (found.words[:, OWN_SCORE] > 0) | (found.meaning[:, SIMILARITY] > 0)
    assert len(set(order(ranking))) == len(ranking.places) == min(limit, int(speaking.sum()))
    assert speaking[ranking.places].all()
    scores = ranking.score
    assert ((scores > 0) & (scores <= 1)).all()
    # The order survives in the scores, unless all are as sure as can be.
    assert (np.diff(scores) <= 0).all()
    assert (np.diff(scores)[scores[1:] < 1] < 0).all()


@examples(50)
@given(any_candidates(), st.sampled_from(WEIGHTS), st.booleans())
def test_a_limit_takes_the_first_and_the_order_of_the_candidates_decides_nothing(
    found: Candidates, weights: Weights, literal: bool
) -> None:
    whole = rank_candidates(found, weights, literal, 50)
    for limit in (1, 3, 5, 7):
        assert order(rank_candidates(found, weights, literal, limit)) == order(whole)[:limit]
    turned = np.arange(len(found))[::-1]
    again = rank_candidates(found.select_rows(turned), weights, literal, 50)
    assert found.message[turned][again.places].tolist() == found.message[whole.places].tolist()


def test_no_candidate_gives_an_empty_list() -> None:
    for found in (NO_CANDIDATES, candidates(words=[(0.0, 0.5, 0.5, 0.5)], meaning=[(0.0, 0.9)])):
        assert order(rank_candidates(found, BOTH, False, 5)) == []


@pytest.mark.parametrize("column", range(4))
def test_every_sort_of_word_speaks_for_a_message_where_words_are_asked(column: int) -> None:
    better = [0.3] * 4
    better[column] += 0.1
    found = candidates(words=[(0.3,) * 4, better])
    assert order(rank_candidates(found, KEYWORDS, False, 2)) == [1, 0]
    assert order(rank_candidates(found, BOTH, False, 2)) == [1, 0]


@pytest.mark.parametrize("column", range(2))
def test_a_message_and_its_segment_speak_by_their_meaning_where_that_is_asked(column: int) -> None:
    better = [0.3, 0.3]
    better[column] += 0.1
    found = candidates(words=[(0.1,)] * 2, meaning=[(0.3, 0.3), better])
    assert order(rank_candidates(found, MEANING, False, 2)) == [1, 0]
    assert order(rank_candidates(found, BOTH, False, 2)) == [1, 0]
    assert order(rank_candidates(found, KEYWORDS, False, 2)) == [0, 1]


def test_output_of_tools_stands_behind_words_that_fit_as_well_unless_the_question_is_literal() -> None:
    found = candidates(words=[(0.32,), (0.3,)], roles=["tool", "user"])
    assert order(rank_candidates(found, KEYWORDS, False, 2)) == [1, 0]
    assert order(rank_candidates(found, KEYWORDS, True, 2)) == [0, 1]
    much_better = candidates(words=[(0.6,), (0.3,)], roles=["tool", "user"])
    assert order(rank_candidates(much_better, KEYWORDS, False, 2)) == [0, 1]


def test_what_only_says_what_comes_next_is_after_what_fits_as_well_unless_the_question_is_literal() -> None:
    announced = [TurnKind.REPLY | TurnKind.ANNOUNCES, TurnKind.REPLY]
    found = candidates(words=[(0.32,), (0.3,)], roles=["assistant"] * 2, turns=announced)
    assert order(rank_candidates(found, KEYWORDS, False, 2)) == [1, 0]
    assert order(rank_candidates(found, KEYWORDS, True, 2)) == [0, 1]
    much_better = candidates(words=[(0.6,), (0.3,)], roles=["assistant"] * 2, turns=announced)
    assert order(rank_candidates(much_better, KEYWORDS, False, 2)) == [0, 1]


def test_sessions_in_which_more_was_said_come_first_and_the_first_places_are_spread_over_several() -> None:
    found = candidates(words=[(0.3,), (0.3,), (0.28,), (0.28,)], sessions=[1, 2, 2, 2])
    assert order(rank_candidates(found, KEYWORDS, False, 4))[0] == 1
    near = [0.4, 0.399, 0.398, 0.397, 0.396, 0.395]
    words = [(x,) for x in near] + [(0.35,), (0.34,)]
    found = candidates(words=words, sessions=[1] * 6 + [2, 3])
    first = order(rank_candidates(found, KEYWORDS, False, 8))
    assert {6, 7} <= set(first[:5])
    assert [at for at in first if at < 6] == [0, 1, 2, 3, 4, 5]
    far = candidates(words=[(x + 0.5,) for x in near] + [(0.05,), (0.04,)], sessions=[1] * 6 + [2, 3])
    assert order(rank_candidates(far, KEYWORDS, False, 8)) == list(range(8))


# both sides as one


def test_both_sides_are_joined_by_message_with_the_better_of_what_either_says_and_one_alone_keeps_its_numbers() -> None:
    keyword = candidates(words=[(0.4, 0.1), (0.2,)], messages=[1, 2])
    similar = candidates(meaning=[(0.5, 0.3), (0.6,)], messages=[2, 3])
    both = join_sides(keyword, similar)
    assert both.message.tolist() == [1, 2, 3]
    assert both.words[:, OWN_SCORE].tolist() == [0.4, 0.2, 0.0]
    assert both.meaning[:, SIMILARITY].tolist() == [0.0, 0.5, 0.6]
    assert both.words[0].tolist() == [0.4, 0.1, 0.0, 0.0]
    assert both.meaning[1].tolist() == [0.5, 0.3]
    assert both.raw.tolist() == pytest.approx([
        0.4 * BOTH.words[0] + 0.1 * BOTH.words[1],
        0.2 * BOTH.words[0] + 0.25 * BOTH.meaning[0] + 0.3 * BOTH.meaning[1],
        0.36 * BOTH.meaning[0],
    ])  # fmt: skip
    side = candidates(words=[(0.4,), (0.2,)])
    raw = replace(side, raw=np.array([31.0, 7.0]))
    assert join_sides(raw, NO_CANDIDATES).raw.tolist() == [31.0, 7.0]
    assert len(join_sides(NO_CANDIDATES, NO_CANDIDATES)) == 0
    # Each side rates what the other found, so that the meaning of a message is told again.
    keyword = candidates(words=[(0.4,)], messages=[1])
    similar = candidates(meaning=[(0.5,), (0.7,)], messages=[1, 1])
    assert join_sides(keyword, similar).meaning[:, SIMILARITY].tolist() == [0.7]


@pytest.mark.parametrize(("own", "similarity", "grip"), [(0.9, 0.3, 10), (0.05, 0.8, 20)], ids=["words", "meaning"])
def test_of_a_message_that_both_sides_found_the_grip_of_the_side_that_says_more_is_quoted(
    own: float, similarity: float, grip: int
) -> None:
    keyword = candidates(words=[(own,)], messages=[7], grips=[10])
    similar = candidates(meaning=[(similarity,)], messages=[7], grips=[20])
    assert join_sides(keyword, similar).lo.tolist() == [grip]


def test_a_request_comes_last_and_its_best_reply_takes_over_half_of_what_it_is_worth_more() -> None:
    words = [(0.9,), (0.3,), (0.2,), (0.4,)]
    turns = [TurnKind.ASKS, TurnKind.REPLY, TurnKind.REPLY, TurnKind.PLAIN]
    asked = candidates(words, turns=turns, exchanges=[1, 1, 1, 4])
    told = rank_candidates(asked, KEYWORDS, False, 10)
    assert order(told) == [1, 3, 2, 0]
    # Without the request the statement is ahead of the reply.
    assert order(rank_candidates(candidates(words[1:], turns=turns[1:], exchanges=[1, 1, 4]), KEYWORDS, False, 10)) == [2, 0, 1]
    assert told.score[-1] <= 0.01 * told.score[-2]


def test_a_request_of_another_exchange_moves_no_reply() -> None:
    turns = [TurnKind.ASKS, TurnKind.REPLY, TurnKind.PLAIN, TurnKind.UNANSWERED]
    told = rank_candidates(candidates([(0.9,), (0.3,), (0.4,), (0.8,)], turns=turns, exchanges=[1, 7, 8, 9]), KEYWORDS, False, 10)
    assert order(told) == [2, 1, 0, 3]


def test_requests_alone_are_listed_and_score_next_to_nothing() -> None:
    told = rank_candidates(candidates([(0.9,), (0.3,)], turns=[TurnKind.UNANSWERED] * 2), KEYWORDS, False, 10)
    assert order(told) == [0, 1]
    assert told.score[0] <= 0.01


def test_a_prompt_that_came_to_nothing_is_behind_the_best_that_says_much_the_same() -> None:
    words = [(0.9, 0.9, 0.9, 0.9), (0.3, 0.3, 0.3, 0.3), (0.1,)]
    doubted = candidates(words, turns=[TurnKind.DOUBTFUL, TurnKind.PLAIN, TurnKind.PLAIN])
    assert order(rank_candidates(doubted, KEYWORDS, literal=False, limit=9)) == [1, 0, 2]
    # Where nothing says nearly as much it stays first: it may be a note.
    lone = candidates([words[0], words[2]], turns=[TurnKind.DOUBTFUL, TurnKind.PLAIN])
    assert order(rank_candidates(lone, KEYWORDS, literal=False, limit=9)) == [0, 1]
    replied = candidates([words[0], words[2]], turns=[TurnKind.DOUBTFUL, TurnKind.REPLY])
    assert order(rank_candidates(replied, KEYWORDS, literal=False, limit=9)) == [1, 0]
    # A reply that came to nothing gains nothing from what it replies to.
    replies = candidates([(0.1, 0.9, 0.9, 0.9)], turns=[TurnKind.REPLY | TurnKind.DOUBTFUL])
    assert ground_replies(replies).words.tolist() == [[0.1] * 4]
