"""What keywords add to the candidates of a question."""

import numpy as np
import pytest

from memory_mcp.indexes.candidates import NO_CANDIDATES, Candidates, PendingRow, pending_candidates
from memory_mcp.search.layers.score import BOTH, keyword_boost, rank_candidates


def messages(*features: tuple[float, float], start: int = 1) -> Candidates:
    """Messages of sessions of their own, by share of the words and similarity."""
    return pending_candidates([PendingRow(start + i, start + i, 0, "user", *shares) for i, shares in enumerate(features)])


def first(question: Candidates, keywords: Candidates) -> int:
    boost = keyword_boost(question, keywords, BOTH)
    ranking = rank_candidates(question, BOTH, literal=False, limit=9, boost=boost)
    return int(question.message[ranking.places[0]])


QUESTION = messages((0.12, 0.5), (0.10, 0.5), (0.0, 0.2))


def test_keywords_decide_between_messages_that_the_question_finds_alike() -> None:
    assert first(QUESTION, messages((0.0, 0.3), (0.3, 0.5), (0.0, 0.2))) == 2


def test_they_count_nothing_where_one_message_holds_nearly_all_that_was_asked() -> None:
    question = messages((0.6, 0.7), (0.4, 0.7))
    assert not keyword_boost(question, messages((0.0, 0.1), (0.5, 0.9)), BOTH).any()


def test_where_no_message_fits_both_they_count_little_and_the_answer_stays() -> None:
    apart = messages((0.0, 0.05), (0.0, 0.05), (0.4, 0.9))
    question = messages((0.2, 0.6), (0.11, 0.6), (0.0, 0.05))
    assert 0 < keyword_boost(question, apart, BOTH).max() < 3
    assert first(question, apart) == 1


def test_where_the_question_finds_next_to_nothing_they_find_the_answer() -> None:
    assert first(messages((0.03, 0.0), (0.0, 0.0)), messages((0.0, 0.0), (0.3, 0.0))) == 2


def test_a_message_found_by_keywords_alone_is_among_the_candidates() -> None:
    question = messages((0.1, 0.0), (0.0, 0.0))
    boost = np.array([0.0, 2.0])
    assert sorted(rank_candidates(question, BOTH, literal=False, limit=9, boost=boost).places.tolist()) == [0, 1]
    assert rank_candidates(question, BOTH, literal=False, limit=9).places.tolist() == [0]


def test_the_order_of_the_keywords_messages_does_not_matter_and_what_is_missing_gets_nothing() -> None:
    keywords = messages((0.0, 0.3), (0.3, 0.5), (0.0, 0.2))
    turned = keywords.select_rows(np.array([2, 0, 1]))
    assert keyword_boost(QUESTION, turned, BOTH) == pytest.approx(keyword_boost(QUESTION, keywords, BOTH))
    some = keyword_boost(QUESTION, keywords.select_rows(np.array([1])), BOTH)
    assert (some > 0).tolist() == [False, True, False]


def test_without_candidates_or_keywords_nothing_is_added() -> None:
    assert keyword_boost(NO_CANDIDATES, QUESTION, BOTH).tolist() == []
    assert keyword_boost(QUESTION, NO_CANDIDATES, BOTH).tolist() == [0.0, 0.0, 0.0]
