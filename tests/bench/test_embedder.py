"""What the figures of `bench.embedder` rest on: ranking, fusion, intervals, the masks of its sets, the files it writes."""

from pathlib import Path

import numpy as np
import pytest

from bench.embedder import model, score, sets


def test_bm25_prefers_the_text_with_the_rare_word() -> None:
    index = score.Bm25(["the parser fails", "the parser works", "a cat"])
    assert list(score.best(index.scores("parser fails"), 2)) == [0, 1]
    assert index.scores("zebra").tolist() == [0, 0, 0]


def test_fusion_at_weight_0_is_the_words_order_and_at_1_the_meanings() -> None:
    both = score.candidates(np.array([3.0, 2.0, 1.0, 0.0]), np.array([0.1, 0.2, 0.3, 0.9]))
    assert list(score.fused(both, 0.0))[:3] == [0, 1, 2]
    assert list(score.fused(both, 1.0)) == [3, 2, 1, 0]


def test_a_text_without_any_word_of_the_query_is_no_lexical_candidate() -> None:
    both = score.candidates(np.zeros(3), np.array([0.3, 0.2, 0.1]))
    assert both.lexical.tolist() == [0, 0, 0]
    assert both.dense.tolist() == pytest.approx([1, 0.5, 0])


@pytest.mark.parametrize("way", list(score.FUSIONS))
def test_either_fusion_knows_both_ends_and_what_has_neither_word_nor_likeness_comes_last(way: str) -> None:
    both = score.FUSIONS[way](np.array([3.0, 2.0, 0.0, 0.0]), np.array([0.1, 0.2, 0.9, -0.3]))
    assert list(both.rows[score.best(both.lexical, 2)]) == [0, 1]
    assert next(iter(score.fused(both, 1.0))) == 2
    assert 3 not in list(score.fused(both, 0.5))[:3]


def test_recall_counts_groups_once() -> None:
    assert score.recall([0, 1, 2], ["a", "a", "b"], frozenset({"b", "c"}), top=2) == 0.5


def test_a_lonely_peak_is_luck() -> None:
    assert score.choose(np.array([[0.1, 0.6, 0.1, 0.1, 0.5, 0.55, 0.5, 0.1]])) == 5


def test_each_fold_gets_the_weight_of_the_others() -> None:
    recalls = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert score.crossed(recalls, ["a", "a", "b"]).tolist() == [0, 0, 0]


def test_the_interval_holds_the_mean_and_is_the_same_again() -> None:
    low, high = score.interval(np.array([0.0, 1.0] * 50), rounds=500)
    assert low < 0.5 < high
    assert score.interval(np.array([0.0, 1.0] * 50), rounds=500) == (low, high)


def test_names_are_masked_as_whole_words() -> None:
    assert sets.masked("ls lists; LS is not false", {"ls"}) == "it lists; it is not false"


def test_a_manual_page_gives_its_line_and_its_description(tmp_path: Path) -> None:
    (tmp_path / "man1").mkdir()
    page = ".TH FOO 1\n.SH NAME\nfoo, bar \\- copy \\fIsome\\fR files about\n.SH DESCRIPTION\n.B foo\n" + "copies files. " * 9
    (tmp_path / "man1" / "foo.1").write_text(page + "\n.SH BUGS\nnone\n")
    found = sets.manual(tmp_path)
    assert [q.text for q in found.queries] == ["copy some files about"]
    assert found.corpora[""].texts[0].startswith("it copies files. copies")


def test_other_scripts_and_empty_places_leave_the_vocabulary() -> None:
    words = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "the", "##ing", "é", "я", "中", "[", "→"]
    assert model.kept({w: i for i, w in enumerate(words)}) == ["[PAD]", "[UNK]", "the", "##ing", "é", "[", "→"]


def test_projection_keeps_the_angles_that_matter_and_int8_the_lengths() -> None:
    rng = np.random.default_rng(1)
    flat = (rng.normal(size=(50, 3)) @ rng.normal(size=(3, 8))).astype(np.float32)
    small = model.projected(flat, 3)
    assert np.allclose(small @ small.T, flat @ flat.T, atol=1e-3)
    assert np.abs(model.int8(small)).max() == 127
