"""Questions of one corpus asked of another, and written ones that nothing answers: what their labels hold."""

import hashlib
from collections import Counter

import pytest

from bench.locomo import load
from bench.next_steps import verdict_of
from bench.quality.corpora import LABELS as FOLDER
from bench.quality.corpora import Half, half_of
from memory_mcp.tree.toc.open_ends import Cause

LABELS = FOLDER / "unanswerable.jsonl"


def test_a_third_of_the_labels_is_held_out_by_the_hash_of_id_or_text_alone() -> None:
    labels = load(LABELS)
    for label in labels:
        name = label.get("query_id") or label["query"]
        assert label["held_out"] is (int(hashlib.sha1(name.encode()).hexdigest(), 16) % 3 == 0)
    assert sum(label["held_out"] for label in labels) / len(labels) == pytest.approx(1 / 3, abs=0.05)


def test_three_hundred_labels_refer_to_queries_of_another_corpus_and_a_hundred_are_written() -> None:
    labels = load(LABELS)
    referred = [label for label in labels if "query_id" in label]
    assert len(referred) == 300
    assert all(label["corpus_of_query"] != label["asked_of"] and "query" not in label for label in referred)
    assert len({(label["query_id"], label["asked_of"]) for label in referred}) == 300
    assert set(Counter((label["corpus_of_query"], label["asked_of"]) for label in referred).values()) == {7, 8}
    written = [label for label in labels if "query" in label]
    assert Counter(label["hard"] for label in written) == {True: 50, False: 50}
    assert len({label["query"] for label in written}) == 100


def test_a_hundred_and_twenty_questions_have_keywords_half_of_them_held_out() -> None:
    labels = load(FOLDER / "keywords.jsonl")
    assert Counter(half_of(label["id"]) for label in labels) == {Half.TUNE: 60, Half.HELD: 60}
    assert all(1 <= len(set(label["keywords"])) == len(label["keywords"]) <= 8 for label in labels)
    questions = {row["id"] for row in load(FOLDER / "answers.jsonl")}
    assert questions == {label["id"] for label in labels if label["corpus"] == "answers"}


def test_sixty_questions_are_written_in_two_other_ways_half_of_them_held_out() -> None:
    labels = load(FOLDER / "paraphrases.jsonl")
    assert Counter(half_of(label["id"]) for label in labels) == {Half.TUNE: 30, Half.HELD: 30}
    texts = {row["id"]: row["query"] for name in ("answers", "messages") for row in load(FOLDER / f"{name}.jsonl")}
    for label in labels:
        assert len({*label["paraphrases"], texts.get(label["id"])}) == 3


def test_eighty_sessions_are_judged_for_what_they_leave_open_half_of_them_held_out() -> None:
    labels = load(FOLDER / "next_steps.jsonl")
    assert Counter(label["half"] for label in labels) == {"tune": 40, "held": 40}
    assert len({(label["corpus"], label["session"]) for label in labels}) == 80
    assert {label["open"] for label in labels} <= {"", *Cause}


def test_a_next_step_is_right_by_its_cause_or_rightly_absent() -> None:
    assert [verdict_of(*pair) for pair in (("question", "question"), ("", ""), ("question", ""), ("", "to do"))] == [
        "right",
        "rightly absent",
        "wrongly absent",
        "wrong",
    ]
