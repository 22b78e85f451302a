"""Grips by message: what lends to what, who said it, and the messages that either index names with what speaks for each."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.text import query_terms
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.indexes.base import DocType, Filters
from memory_mcp.indexes.bm25 import message_scores
from memory_mcp.indexes.bm25 import search as search_module
from memory_mcp.indexes.bm25.kind import Bm25Kind
from memory_mcp.indexes.bm25.search import BEST, SEGMENT, find_candidates, search_documents
from memory_mcp.indexes.bm25.weights import weigh_terms
from memory_mcp.indexes.calibrate import SCORE_OFFSET
from memory_mcp.indexes.candidates import OWN_SCORE, SIMILARITY, Candidates
from memory_mcp.indexes.columns import ROLES
from memory_mcp.indexes.document import Unit
from memory_mcp.indexes.keys import grip_of
from memory_mcp.indexes.messages import QUESTION_LOSS, Messages, best_by_message
from memory_mcp.indexes.shard import LiveShard, build_shard
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from memory_mcp.indexes.vector.rows import CodedQuery
from memory_mcp.indexes.vector.search import find_candidates as near_candidates
from memory_mcp.indexes.vector.search import rate_messages
from tests.examples import examples
from tests.indexes.helpers import FILTERS, made_up, of_messages, unit
from tests.indexes.models import snapshot as vectors_of
from tests.indexes.models import static_model
from tests.indexes.test_bm25 import in_parts

NO_NAMES = np.zeros(0, dtype=np.uint64)
GRIPS = Filters(doc_type=DocType.GRIP)


def names(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint64)


def smoothed(units: Sequence[Unit], scores: Sequence[float]) -> message_scores.SmoothedScores:
    """What lifts make of the scores of a lone part's grips; 0: holds no term."""
    [live] = in_parts(units, ())
    dense = np.array(scores, dtype=np.float64)
    return message_scores.smooth_scores(live, np.flatnonzero(dense), dense, None)


def found_by(held: Snapshot[Any], query: str, filters: Filters = GRIPS, limit: int = 10, also: Any = NO_NAMES) -> Candidates:
    return find_candidates(held, query_terms(query), filters, limit, also)


# grouping


def test_grips_that_follow_each_other_are_one_message_within_a_unit_and_unnamed_ones_are_each_their_own() -> None:
    units = [of_messages(unit(0, "", *"abcd"), [5, 5, 6, 7]), of_messages(unit(1, "", *"ef"), [7, 7]), unit(2, "", *"gh")]
    [live] = in_parts(units, ())
    messages = live.messages
    assert messages.message_of_row.tolist() == [0, 0, 1, 2, 3, 3, 4, 5]
    assert (messages.first.tolist(), messages.unit.tolist()) == ([0, 2, 3, 4, 6, 7], [0, 0, 0, 1, 2, 2])
    assert live.messages_named(names(6, 7, 99)).tolist()[0] == 1
    assert live.messages_named(NO_NAMES).tolist() == []


def test_messages_of_no_grip_at_all() -> None:
    [live] = in_parts([unit(0, "words")], ())
    assert len(live.messages) == 0
    assert live.messages_named(names(1)).tolist() == []
    place, value, rows = best_by_message(Messages.from_grips(live.shard.grips), np.zeros(0, dtype=np.int64), np.zeros(0))
    assert (place.tolist(), value.tolist(), rows.tolist()) == ([], [], [])


def test_a_message_has_its_best_grip_the_first_of_equals() -> None:
    [live] = in_parts([of_messages(unit(0, "", *"abcde"), [5, 5, 5, 6, 6])], ())
    place, value, rows = best_by_message(live.messages, np.array([0, 1, 2, 4]), np.array([1.0, 3.0, 3.0, 2.0]))
    assert (place.tolist(), value.tolist(), rows.tolist()) == ([0, 1], [3.0, 2.0], [1, 4])


# where they lie


def test_grips_are_found_by_their_keys_also_where_halves_of_them_are_equal() -> None:
    [live] = in_parts(made_up(30, 5), ())
    grips = live.shard.grips
    crowded = LiveShard(replace(live.shard, grips=replace(grips, lo=np.full_like(grips.lo, 7), hi=grips.lo)))
    nobody = np.array([1], dtype=np.uint64)
    for held in (live, crowded):
        hi, lo = held.shard.grips.hi, held.shard.grips.lo
        assert held.rows_of_grips(hi, lo).tolist() == list(range(len(grips)))
        assert held.rows_of_grips(nobody, lo[:1]).tolist() == [-1]
        gone = held.without_units(np.array([0]))
        assert (gone.rows_of_grips(hi, lo) >= 0).tolist() == (grips.unit != 0).tolist()
    assert LiveShard(build_shard(Bm25Kind(), [], [])).rows_of_grips(nobody, nobody).tolist() == [-1]


# which are looked at


@examples(12)
@given(
    st.integers(0, 2**32),
    st.sampled_from(("retry queue", "invoice slow", "tokenStore login bank")),
    st.sampled_from(FILTERS),
    st.sampled_from(((), (30,), (5, 20, 10))),
)
def test_what_cannot_be_among_the_best_is_left_out_and_nothing_else(
    seed: int, query: str, one: Filters, sizes: Sequence[int]
) -> None:
    """Candidates are those of looking at everything, to the last bit."""
    held = in_parts(made_up(60, seed), sizes)
    also = np.random.default_rng(seed).choice([n for live in held for n in live.shard.grips.message.tolist()], 3)
    narrow = replace(one, doc_type=DocType.GRIP)

    def all_touched(part: Any, *_: Any) -> Any:
        return np.flatnonzero(part.grips.dense)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_module, "_FEW", 0)
        found = found_by(held, query, narrow, limit=4, also=also)
        patched.setattr(search_module, "_rows_worth_scoring", all_touched)
        wanted = found_by(held, query, narrow, limit=4, also=also)
    for column in fields(Candidates):
        assert np.array_equal(getattr(found, column.name), getattr(wanted, column.name)), column.name


@examples(12)
@given(st.integers(0, 2**32), st.sampled_from(("retry queue", "invoice slow bank")), st.sampled_from(FILTERS), st.integers(1, 6))
def test_a_search_finds_the_same_documents_where_it_looks_at_few(seed: int, query: str, one: Filters, limit: int) -> None:
    held = in_parts(made_up(60, seed), (40,))
    told = []
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(search_module, "_FEW", few)
            told.append(search_documents(held, query_terms(query), one, limit))
    assert told[0] == told[1]


def test_of_many_messages_that_hold_a_word_most_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"retry {'queue ' * (place % 40 == 0)}{'filler ' * 12}" for place in range(2000)]
    held = in_parts([unit(place, "", text, text) for place, text in enumerate(texts)], ())
    looked: list[int] = []
    smooth = message_scores.smooth_scores

    def counted(live: Any, rows: Any, *more: Any) -> message_scores.SmoothedScores:
        looked.append(len(rows))
        return smooth(live, rows, *more)

    monkeypatch.setattr(message_scores, "smooth_scores", counted)
    assert len(found_by(held, "retry queue", limit=10)) == 10
    assert max(looked) < 200
    looked.clear()
    assert len(search_documents(held, query_terms("retry queue"), Filters(), 1).best) == 1
    assert max(looked) < 200


def test_a_search_that_fails_leaves_no_scores_for_the_next() -> None:
    held = in_parts(made_up(60, 1), (20,))
    wanted = search_documents(held, query_terms("retry queue"), Filters(), 10)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search_module, "_choose_best", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            search_documents(held, query_terms("retry invoice"), Filters(), 10)
    assert search_documents(held, query_terms("retry queue"), Filters(), 10) == wanted


# lifts


def test_pieces_of_one_long_message_do_not_lift_each_other() -> None:
    alone = smoothed([of_messages(unit(0, "", *"abc"), [1, 2, 3])], [4.0, 0.0, 0.0])
    pieces = smoothed([of_messages(unit(0, "", *"abc"), [1, 1, 1])], [4.0, 3.0, 2.0])
    assert (
        (pieces.own_score.tolist(), pieces.neighbour_score.tolist())
        == (alone.own_score.tolist(), alone.neighbour_score.tolist())
        == ([4.0], [0.0])
    )


def test_neighbours_are_counted_by_message_however_many_pieces_lie_between() -> None:
    """The third grip's neighbour is the first message, though a long one's pieces stand beside it."""
    one, two = message_scores.NEIGHBOURS
    found = smoothed([of_messages(unit(0, "", *"abcde"), [1, 2, 2, 2, 3])], [5.0, 0.0, 1.0, 0.0, 2.0])
    assert found.own_score.tolist() == [5.0, 1.0, 2.0]
    assert found.neighbour_score.tolist() == pytest.approx([one * 1.0 + two * 2.0, one * 5.0 + one * 2.0, one * 1.0 + two * 5.0])


def test_nothing_is_lent_across_the_edge_of_a_segment() -> None:
    units = [of_messages(unit(0, "", "a"), [1]), of_messages(unit(1, "", "b"), [2])]
    assert smoothed(units, [5.0, 3.0]).neighbour_score.tolist() == [0.0, 0.0]


def test_a_message_that_only_asks_loses_a_share_and_lends_less() -> None:
    units = [of_messages(unit(0, "", "a", "b"), [1, 2], asks=[255, 0])]
    found = smoothed(units, [4.0, 1.0])
    assert found.own_score.tolist() == pytest.approx([4.0 * (1 - QUESTION_LOSS), 1.0])
    assert found.neighbour_score.tolist() == pytest.approx(
        [message_scores.NEIGHBOURS[0], message_scores.NEIGHBOURS[0] * 4.0 * (1 - QUESTION_LOSS)]
    )


def test_the_arrays_that_threads_keep_are_zero_again_after_each_use() -> None:
    units = [of_messages(unit(0, "", *"abc"), [1, 2, 3])]
    first = smoothed(units, [4.0, 2.0, 1.0])
    assert smoothed(units, [0.0, 0.0, 3.0]).neighbour_score.tolist() == [0.0]
    assert smoothed(units, [4.0, 2.0, 1.0]).neighbour_score.tolist() == first.neighbour_score.tolist()


def test_a_search_names_one_grip_of_a_message_the_one_that_fits_best() -> None:
    long = of_messages(unit(0, "report", "queue first", "osmium queue retry", "osmium at last"), [9, 9, 9])
    short = of_messages(unit(1, "osmium", "osmium"), [3])
    held = in_parts([long, short], ())
    best = search_documents(held, query_terms("osmium queue"), GRIPS, 10).best
    assert {m.grip_id for m in best} == {grip_of(*d.key) for d in (long.grips[1], short.grips[0])}
    assert len(best) == 2


# roles


def test_a_role_is_filtered_before_the_best_are_chosen() -> None:
    """Fifty messages of tools fit better than the one that the user said."""
    loud = [of_messages(unit(n, "", "osmium osmium"), [n + 1], ["tool"]) for n in range(50)]
    said = of_messages(unit(60, "", "about osmium and so many other things that were said on that day"), [900], ["user"])
    held = in_parts([*loud, said], (20,))
    assert [m.node_key for m in search_documents(held, query_terms("osmium"), Filters(role="user"), 1).best] == [said.key]
    assert found_by(held, "osmium", Filters(DocType.GRIP, role="user"), limit=1).message.tolist() == [900]
    assert len(search_documents(held, query_terms("osmium"), Filters(role="tool"), 100).best) == 50
    assert search_documents(held, query_terms("osmium"), Filters(role="assistant"), 5).best == ()


def test_a_role_leaves_nodes_out_as_nobody_said_them() -> None:
    held = in_parts([of_messages(unit(0, "osmium", "osmium"), [1], ["assistant"])], ())
    assert {m.doc_type for m in search_documents(held, query_terms("osmium"), Filters(), 5).best} == set(DocType)
    assert {m.doc_type for m in search_documents(held, query_terms("osmium"), Filters(role="assistant"), 5).best} == {
        DocType.GRIP
    }


# candidates of words


def test_candidates_of_words_say_what_speaks_for_each_over_what_the_query_could_give() -> None:
    one = of_messages(
        unit(0, "osmium report", "osmium here", "nothing of it", "osmium osmium"), [1, 2, 3], ["user", "tool", "user"]
    )
    held = in_parts([one, of_messages(unit(1, "queue", "queue"), [4])], ())
    found = found_by(held, "osmium")
    assert sorted(found.message.tolist()) == [1, 3]
    scale = weigh_terms(held, query_terms("osmium")).total + SCORE_OFFSET
    own, near, segment, best = (found.words * scale).T
    assert found.raw == pytest.approx(own + near + SEGMENT * segment + BEST * best)
    assert found.raw.tolist() == sorted(found.raw.tolist(), reverse=True)
    assert best == pytest.approx([max(own + near)] * 2)
    assert ((found.words >= 0) & (found.words <= 1)).all()
    assert found.session.tolist() == [one.key] * 2
    assert [ROLES[r] for r in found.role] == ["user", "user"]


def test_what_is_named_is_rated_whatever_its_rank_and_whether_it_holds_a_term() -> None:
    units = [of_messages(unit(n, "", "osmium " * (n + 1)), [n + 1]) for n in range(6)]
    silent = of_messages(unit(9, "about osmium", "queue"), [50])
    held = in_parts([*units, silent], (3,))
    found = found_by(held, "osmium", limit=2, also=names(1, 50, 777))
    assert {1, 50} <= set(found.message.tolist())
    assert len(found) == 4
    [place] = np.flatnonzero(found.message == 50)
    assert found.words[place, OWN_SCORE] == 0
    assert found.words[place].sum() > 0


def test_what_is_named_and_does_not_pass_the_filters_stays_out() -> None:
    held = in_parts([of_messages(unit(0, "", "osmium", "osmium"), [1, 2], ["user", "tool"])], ())
    found = found_by(held, "osmium", Filters(DocType.GRIP, role="user"), also=names(1, 2))
    assert found.message.tolist() == [1]


def test_candidates_do_not_depend_on_which_part_holds_a_message() -> None:
    units = [of_messages(unit(n, "osmium", "osmium " * (n % 3 + 1), "queue"), [2 * n + 1, 2 * n + 2]) for n in range(12)]
    whole, parted = (found_by(in_parts(units, sizes), "osmium queue", also=names(3)) for sizes in ((), (2, 5, 1)))
    assert whole.message.tolist() == parted.message.tolist()
    assert whole.words == pytest.approx(parted.words)
    assert whole.raw == pytest.approx(parted.raw)


# candidates of meaning


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> VectorKind:
    return VectorKind(Model2Vec(static_model(tmp_path_factory.mktemp("model"))))


def near(kind: VectorKind, held: Snapshot[VectorBody], text: str, limit: int = 10, filters: Filters = GRIPS) -> Candidates:
    return near_candidates(held, CodedQuery.from_vector(kind.embedder.embed([text])[0]), filters, limit)


def test_candidates_of_meaning_name_a_message_once_by_its_nearest_grip_with_its_segments_similarity(kind: VectorKind) -> None:
    long = of_messages(unit(0, "invoice payment", "garden sunrise", "kitten garden", "kitten"), [1, 1, 1])
    held = vectors_of(kind, [long, of_messages(unit(1, "music", "piano concert"), [2])])
    found = near(kind, held, "kitten")
    [place] = np.flatnonzero(found.message == 1)
    assert (int(found.hi[place]), int(found.lo[place])) == long.grips[2].key
    assert found.meaning[place, SIMILARITY] == pytest.approx(1.0, abs=0.01)
    assert found.message.tolist().count(1) == 1
    assert (found.meaning >= 0).all()


def test_a_message_that_only_asks_is_less_near(kind: VectorKind) -> None:
    units = [of_messages(unit(n, "music", "kitten garden"), [n + 1], asks=[share]) for n, share in enumerate((255, 0))]
    found = near(kind, vectors_of(kind, units), "kitten garden")
    by_name = dict(zip(found.message.tolist(), found.meaning[:, SIMILARITY].tolist(), strict=True))
    assert by_name[1] == pytest.approx(by_name[2] * np.sqrt(1 - QUESTION_LOSS))


def test_meaning_too_filters_roles_before_the_best_are_chosen(kind: VectorKind) -> None:
    loud = [of_messages(unit(n, "music", "kitten"), [n + 1], ["tool"]) for n in range(40)]
    said = of_messages(unit(60, "music", "kitten garden harvest"), [900], ["user"])
    held = vectors_of(kind, [*loud, said])
    assert near(kind, held, "kitten", 1, Filters(DocType.GRIP, role="user")).message.tolist() == [900]
    assert 900 not in near(kind, held, "kitten", 1).message.tolist()


def test_what_is_named_is_rated_in_meaning_as_it_would_be_found(kind: VectorKind) -> None:
    units = [of_messages(unit(n, "music", "kitten", "piano concert"), [2 * n + 1, 2 * n + 2]) for n in range(5)]
    held = vectors_of(kind, units)
    found = near(kind, held, "kitten piano", 50)
    told = rate_messages(held, CodedQuery.from_vector(kind.embedder.embed(["kitten piano"])[0]), names(4, 3, 99))
    assert sorted(told.message.tolist()) == [3, 4]
    for name, meaning in zip(told.message.tolist(), told.meaning.tolist(), strict=True):
        [place] = np.flatnonzero(found.message == name)
        assert meaning == pytest.approx(found.meaning[place].tolist(), abs=1e-6)
