"""What of a model's answer is check_summary: each statement by the words that it rests on."""

import json
from typing import Any

import pytest

from memory_mcp.base.text import term_set
from memory_mcp.model.ids import GripId, NodeId
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.llm.answer import CheckedSummary, Rarity, Unusable, check_summary
from memory_mcp.tree.llm.material import Material, Quotation
from tests.factories import BILLING, SHOP

WORDS = {
    "g1": ("We retry on 503 at most 3 times, and fail fast on 400: decided for the PaymentGateway.", SHOP),
    "g2": ("The PaymentGateway timed out because the connection pool was exhausted.", SHOP),
    "g3": ("Norway's VAT rate is 25 percent.", BILLING),
}
QUOTATIONS = {label: Quotation(GripId(f"grip:{label}"), words, project, "codex") for label, (words, project) in WORDS.items()}
MATERIAL = Material(NodeId("toc:day:2026-03-02"), "digest", tuple(words for words, _ in WORDS.values()), QUOTATIONS, 2)
#: Of 100 segments how many hold a term: all know the words of the quotations, and these.
COMMON = {"the": 0, "user": 60, "project": 50, "code": 60, "implement": 40, "test": 50}
KNOWN = {project: {t for w, p in WORDS.values() if p == project for t in term_set(w)} for project in (SHOP, BILLING)}
SAID = "Retry on 503 at most 3 times, fail fast on 400 (PaymentGateway)."
GOOD = {"text": SAID, "grip_ids": ["g1"], "kind": "decision"}


def frequency(term: str, project: str | None) -> int:
    if term in COMMON:
        return COMMON[term]
    return sum(term in terms for p, terms in KNOWN.items() if project in (None, p))


RARITY = Rarity(frequency, 100)


def told(*bullets: dict[str, Any], title: str = "Retries of the PaymentGateway", **more: Any) -> CheckedSummary:
    answer = json.dumps({"title": title, "summary": "They are bounded.", "bullets": list(bullets), **more})
    return check_summary(answer, MATERIAL, RARITY, lambda text: text)


def test_a_statement_that_its_quotation_bears_out_is_kept_with_kind_project_and_agent() -> None:
    written = told(GOOD)
    [bullet] = written.bullets
    assert (bullet.text, bullet.grip_ids, bullet.kind) == (GOOD["text"], ("grip:g1",), MemoryKind.DECISION)
    assert (bullet.project, bullet.agent) == (SHOP, "codex")
    assert (written.title, written.summary, written.dropped) == ("Retries of the PaymentGateway", "They are bounded.", 0)


DOUBTFUL = {
    "an invented grip": {**GOOD, "grip_ids": ["g9"]},
    "one invented grip among good ones": {**GOOD, "grip_ids": ["g1", "g9"]},
    "no grip": {**GOOD, "grip_ids": []},
    "grips that are no list": {**GOOD, "grip_ids": "g1"},
    "another quotation than the one that says it": {**GOOD, "grip_ids": ["g2"]},
    "a number that was not said": {**GOOD, "text": "The PaymentGateway retries on 503 at most 5 times."},
    "words that nobody said": {**GOOD, "text": "Kubernetes autoscaling was rolled out to production clusters."},
    "common words alone": {**GOOD, "text": "The user wanted code and a test in the project."},
    "two projects": {"text": "PaymentGateway retries and Norway's VAT rate.", "grip_ids": ["g1", "g3"]},
    "a word that only another project knows": {
        "text": "We retry on 503 and fail fast for the PaymentGateway of Norway.",
        "grip_ids": ["g1"],
    },
    "no text": {"grip_ids": ["g1"]},
}


@pytest.mark.parametrize("bullet", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_statement_that_does_not_hold_is_dropped_and_where_none_holds_nothing_is_used(bullet: dict[str, Any]) -> None:
    written = told(bullet, GOOD)
    assert ([b.text for b in written.bullets], written.dropped) == ([GOOD["text"]], 1)
    with pytest.raises(Unusable, match="no bullet is borne out"):
        told(bullet)


def test_labels_may_stand_in_brackets_or_be_the_ids_themselves_and_kinds_may_be_unknown() -> None:
    [one] = told({**GOOD, "grip_ids": ["[g1]"], "kind": "insight"}).bullets
    assert (one.grip_ids, one.kind) == (("grip:g1",), MemoryKind.OBSERVATION)
    assert told({**GOOD, "grip_ids": ["grip:g1"]}).bullets[0].grip_ids == ("grip:g1",)


def test_there_are_never_more_bullets_than_the_node_may_have_and_none_twice() -> None:
    more = [{**GOOD, "text": f"{GOOD['text']}{'!' * n}"} for n in range(5)]
    assert [b.text for b in told(GOOD, GOOD, *more).bullets] == [GOOD["text"], f"{GOOD['text']}!"]


@pytest.mark.parametrize("around", ["```json\n{}\n```", "Here you are:\n{}\nAnything else?", "<think>{{not this}}</think>{}"])
def test_what_stands_around_the_object_does_not_matter(around: str) -> None:
    answer = json.dumps({"title": "T", "bullets": [GOOD]})
    assert check_summary(around.format(answer), MATERIAL, RARITY, lambda text: text).title == "T"


RUBBISH = {
    "I cannot do that.": "no JSON",
    '{"title": "T", "bullets": [': "broken JSON",
    "{" * 100_000: "broken JSON",
    "[]": "no JSON",
    json.dumps({"bullets": [GOOD]}): "no title",
    json.dumps({"title": {"a": 1}, "bullets": [GOOD]}): "no title",
    json.dumps({"title": "T", "bullets": "none"}): "no bullets",
    json.dumps({"title": "T", "bullets": [1, "x", None]}): "no bullets",
    json.dumps({"title": "All 77 tests pass", "bullets": [GOOD]}): "the title states a number that was not said",
}


@pytest.mark.parametrize(("answer", "reason"), RUBBISH.items(), ids=[a[:40] for a in RUBBISH])
def test_an_answer_that_cannot_be_used_says_why_and_repeats_nothing(answer: str, reason: str) -> None:
    with pytest.raises(Unusable) as error:
        check_summary(answer, MATERIAL, RARITY, lambda text: text)
    assert str(error.value) == reason


def test_long_texts_are_cut_and_the_separator_of_titles_is_no_part_of_one() -> None:
    written = told({**GOOD, "text": SAID + " retry" * 100}, title="Retries · " + "PaymentGateway " * 40)
    assert len(written.title) <= 122
    assert " · " not in written.title
    assert len(written.bullets[0].text) <= 202


def test_what_may_not_be_stored_is_not_believed() -> None:
    answer = json.dumps({"title": "Key sk-123 of the PaymentGateway", "summary": "", "bullets": [GOOD]})
    assert check_summary(answer, MATERIAL, RARITY, lambda text: text.replace("sk-123", "[secret]")).title.startswith(
        "Key [secret]"
    )
    with pytest.raises(Unusable, match="no title"):
        check_summary(answer, MATERIAL, RARITY, lambda _: "")
