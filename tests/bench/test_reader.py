"""`bench.reader` from the dump of a small corpus to what each of its readers changes, and what they are trained on."""

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.quality import rows as rows_file
from bench.reader import __main__ as program
from bench.reader import answers, dump, reread
from bench.reader.cross import thinned
from bench.reader.files import Ranked, Store, Text, read_stores
from bench.reader.late import Matches, Reader, Shape, score
from bench.reader.orders import Joining, Way
from bench.reader.teacher import Encoder, TeachersReader
from bench.reader.texts import Passages, TextSample, is_readable, of_meetings, of_pairs, of_store
from bench.reader.tokens import Rows, Vocabulary
from bench.reader.train import Recipe, Sample, Trainer
from memory_mcp.indexes.candidates import OWN_SCORE, Candidates

TEXTS = (
    "The glaze with rutile ran off the shelf of the kiln.",
    "Yes, that was a pity.",
    "Our puppy chewed the blue slippers again.",
    "The rudder pintle was bent by the slipway.",
)
OWN_ONLY = Shape(power=1.0, least=0.3, before=0.0, after=0.0)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary()


def write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def matched(vocabulary: Vocabulary, question: str, texts: Iterable[str]) -> Matches:
    messages = [Text(at, f"D:{at}", "one", "user", "", text) for at, text in enumerate(texts)]
    reader = Reader(Store("toy", messages, (), ()), vocabulary, vocabulary.unit_rows, 0.25)
    return reader.match(question, np.arange(len(messages)))


def ranked_by_words(own: Sequence[float]) -> Ranked:
    """Candidates named 0, 1, 2 ... of sessions of their own, with these scores of their words."""
    columns: dict[str, NDArray[Any]] = {column.name: np.arange(len(own), dtype=np.uint64) for column in fields(Candidates)}
    words = np.zeros((len(own), 4))
    words[:, OWN_SCORE] = own
    nothing = np.zeros(len(own), dtype=np.uint8)
    columns |= {"words": words, "meaning": np.zeros((len(own), 2)), "turn": nothing, "role": nothing}
    return Ranked(Candidates(**columns), literal=False)


def test_a_dump_leads_to_a_table_and_to_trained_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = [
        {
            "corpus": "toy",
            "id": f"D{day}:{at}",
            "session": f"s{day}",
            "ts": f"2024-03-0{day}T09:00:0{at}",
            "role": who,
            "text": text,
        }
        for day in (1, 2)
        for at, (who, text) in enumerate(zip("Ada Bo Ada Bo".split(), TEXTS if day == 1 else reversed(TEXTS), strict=True))
    ]
    asked = [
        ("What ran off the shelf?", 0),
        ("What did the dog bite?", 2),
        ("What bent the pintle?", 3),
        ("Who chewed slippers?", 2),
    ]
    queries = [
        {
            "corpus": "toy",
            "id": f"q{number}",
            "query": text,
            "category": "4",
            "gold": [f"D1:{at}"],
            "gold_sessions": ["s1"],
            "ts": "2024-04-01",
        }
        for number, (text, at) in enumerate(asked * 3)
    ]
    write(tmp_path / "data" / "locomo" / "units.jsonl", units)
    write(tmp_path / "data" / "locomo" / "queries.jsonl", queries)
    out = tmp_path / "dump"
    given = ["--data", str(tmp_path / "data"), "--stores", str(tmp_path / "stores"), "--out", str(out), "--corpora", "locomo"]
    assert dump.main(given) == 0
    (store,) = read_stores(out)
    assert [text.text for text in store.texts[:4]] == list(TEXTS)
    assert {one.half for one in store.asked} == {"tune", "held"}
    names = {text.name for text in store.texts}
    assert all(names.issuperset(ranked.candidates.message.tolist()) for ranked in store.ranked)
    assert dump.main(given) == 0  # files that are there are left alone
    rows = tmp_path / "rows.npy"
    assert program.main(["train", str(out), "--rows", str(rows)]) == 0
    capsys.readouterr()
    assert program.main(["match", str(out), "--rows", str(rows)]) == 0
    shown = capsys.readouterr().out
    assert "| locomo |" in shown
    assert "chosen without locomo" in shown
    told_apart_by_transformers(store, out, capsys)
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    files = ["--before", str(before), "--after", str(after), "--half", "all", "--questions", "2"]
    assert answers.main([*given[:4], *files, "--corpora", "locomo"]) == 0
    asked_without, asked_with = rows_file.read(before), rows_file.read(after)
    assert [(row.system, row.question) for row in asked_without] == [(row.system, row.question) for row in asked_with]
    assert {row.system for row in asked_with} == {"intelligent_search tier 2", "default answer"}
    assert [row.probability for row in asked_without] != [row.probability for row in asked_with]


def told_apart_by_transformers(store: Store, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What scores that know the answer change, of two kinds, one of which knows nothing; what was not read stays."""
    knowing, ignorant = {}, {}
    texts = {text.name: text.id for text in store.texts}
    for at, (one, ranked) in enumerate(zip(store.asked, store.ranked, strict=True)):
        right = np.array([texts[name] in one.messages for name in ranked.candidates.message.tolist()])
        read = np.arange(len(right)) < 6
        knowing[store.name, at] = np.where(read, right * 4.0, np.nan)
        ignorant[store.name, at] = np.where(read, -4.0 * right, np.nan)
    path = out.parent / "scores"
    path.write_bytes(pickle.dumps({"knowing": knowing, "ignorant": ignorant}))
    assert reread.main(["judge", str(out), "--scores", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("## knowing")
    assert "| all |" in shown
    before = reread.found_with([store], knowing, None)
    after = reread.found_with([store], knowing, Joining(Way.ADDED, 4.0))
    assert np.nanmean([one.values[1] for one in after]) >= np.nanmean([one.values[1] for one in before])
    samples = list(of_store(store))
    assert samples
    assert all(sum(sample.gold) == pytest.approx(1.0) and len(sample.passages) == len(sample.odds) for sample in samples)


def test_words_that_mean_the_same_match_and_unknown_ones_match_themselves(vocabulary: Vocabulary) -> None:
    dog = score(matched(vocabulary, "Which dog?", TEXTS), OWN_ONLY)
    assert int(np.argmax(dog)) == 2
    chinese = score(matched(vocabulary, "餐厅在哪里？", ("今天下雨。", "那家餐厅很好。", "nothing")), OWN_ONLY)
    assert int(np.argmax(chinese)) == 1
    assert chinese[2] == 0.0
    assert len(vocabulary.ids(["... !? 😀"])[0]) == 0


def test_a_long_message_counts_by_its_best_window_and_by_its_neighbours(vocabulary: Vocabulary) -> None:
    filler = "We spoke of nothing for a long while that day. " * 30
    texts = (f"The kiln. {filler} The glaze.", f"{filler} The kiln and the glaze.", "Well.")
    own = score(matched(vocabulary, "kiln glaze", texts), OWN_ONLY)
    assert own[1] > own[0] > own[2]
    near = score(matched(vocabulary, "kiln glaze", texts), Shape(power=1.0, least=0.3, before=0.6, after=0.3))
    assert near[2] > own[2]


def test_training_brings_together_what_answers_and_leaves_the_rest_alone(vocabulary: Vocabulary) -> None:
    (question,), passages = vocabulary.ids(["vacation"]), vocabulary.ids(["pottery", "database", "keyboard"])
    sizes = [len(ids) for ids in passages]
    sample = Sample(
        group="toy",
        question=question,
        weights=np.full(len(question), 1 / len(question), dtype=np.float32),
        tokens=np.concatenate(passages),
        counts=np.ones(sum(sizes), dtype=np.float32),
        begins=np.cumsum([0, *sizes[:-1]]).astype(np.int32),
        odds=np.zeros(3, dtype=np.float32),
        gold=np.array([1.0, 0.0, 0.0], dtype=np.float32),
    )
    start = vocabulary.unit_rows
    trainers = [Trainer(start.copy(), Recipe(rounds=20, rate=1e-2, least=-1.0)) for _ in range(2)]
    losses = [trainer.train([sample], [1.0]) for trainer in trainers]
    assert losses[0][-1] < losses[0][0]
    assert losses[0] == losses[1]
    rows = trainers[0].rows
    assert float(rows[question[0]] @ rows[passages[0][0]]) > float(start[question[0]] @ start[passages[0][0]])
    touched = np.unique(np.concatenate([question, *passages]))
    untouched = np.setdiff1d(np.arange(len(rows)), touched)
    assert np.array_equal(rows[untouched], start[untouched])
    assert np.allclose(np.linalg.norm(rows[touched], axis=1), 1.0, atol=1e-4)


@pytest.mark.parametrize("way", Way)
def test_every_way_of_joining_raises_what_scores_high(way: Way) -> None:
    ranked = ranked_by_words([0.9, 0.5, 0.4, 0.1])
    boost = Joining(way, 1.0).boost(ranked, np.array([0.0, 0.0, 0.1, 1.0]))
    assert int(np.argmax(boost)) == 3
    assert boost[3] > 0


def test_questions_are_made_of_documents_and_meetings_by_rules(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    pairs = [
        ("Open the valve of the boiler", "Turns the lever by hand. The boiler needs ten minutes."),
        ("Paint a fence", "Uses oil."),
    ]
    sample, _ = of_pairs("docstrings", pairs, chance)
    assert sample.passages[int(np.argmax(sample.gold))].startswith("Turns the lever")
    long = (
        "The buttons are made of rubber. " + "Wood was too heavy for the prototype that we built last week in the workshop. " * 3
    )
    turns = [("Ann", "What do you think the case should be made of?"), ("Bob", long), ("Ann", "Good, we will take that then.")]
    units = [{"corpus": "m", "id": str(at), "session": "t", "role": who, "text": text} for at, (who, text) in enumerate(turns)]
    queries = [{"corpus": "m", "id": f"q{n}", "query": "What is the case made of?", "gold": ["1"]} for n in range(8)]
    write(tmp_path / "units.jsonl", units)
    write(tmp_path / "queries.jsonl", queries)
    made = list(of_meetings(tmp_path, chance))
    assert {sample.group for sample in made} == {"meetings"}
    replies = [sample for sample in made if sample.question.endswith("made of?") and "think" in sample.question]
    assert [sample.passages[int(np.argmax(sample.gold))].startswith("Bob:") for sample in replies] == [True]
    assert not any("What do you think" in passage for sample in replies for passage in sample.passages)
    assert 0 < sum(sample.question == "What is the case made of?" for sample in made) < len(queries)


def test_a_passage_is_the_stretch_that_answers_with_what_a_short_one_replies_to() -> None:
    filler = "We spoke of nothing for a long while that day and the next. " * 20
    said = ["Where is the rudder?", "By the slipway.", f"{filler} The pintle bent. {filler}"]
    passages = Passages(Store("toy", [Text(at, f"D:{at}", "one", "user", "Ada", text) for at, text in enumerate(said)], (), ()))
    short, long = passages.of("Who bent the pintle?", [1, 2])
    assert short == "Where is the rudder? / Ada: By the slipway."
    assert "pintle bent" in long
    assert len(long.split()) < 70
    assert is_readable("Where?")
    assert not is_readable("餐厅在哪里？")


def test_one_answer_stays_with_some_that_are_none() -> None:
    sample = TextSample("toy", "?", [str(at) for at in range(30)], np.arange(30.0), np.repeat([0.5, 0.0], [2, 28]))
    kept = thinned(sample, np.random.default_rng(0))
    assert kept.gold.tolist() == [1.0] + [0.0] * (len(kept.passages) - 1)
    assert kept.passages[0] in ("0", "1")
    assert not {"0", "1"}.intersection(kept.passages[1:])


class LettersEncoder:
    """An encoder whose tokens are words, and whose vectors are letters."""

    size = 26
    is_said = np.ones(26, dtype=bool)

    def encode(self, texts: Sequence[str]) -> tuple[list[NDArray[Any]], list[NDArray[Any]], list[Rows]]:
        ids = [
            np.array([ord(word[0].lower()) - 97 for word in text.split() if word[0].isalpha()], dtype=np.int64) for text in texts
        ]
        vectors = [np.eye(26, dtype=np.float16)[own] for own in ids]
        means = [(own.sum(axis=0, keepdims=True) / max(len(own), 1)).astype(np.float32) for own in vectors]
        return ids, vectors, means


def test_the_teacher_matches_whole_texts_and_tokens_of_candidates() -> None:
    texts = [
        Text(at, f"D:{at}", "one", "user", "", text) for at, text in enumerate(("kiln glaze shelf", "puppy slippers", "old"))
    ]
    reader = TeachersReader(Store("toy", texts, (), [ranked_by_words([0.5, 0.4])]), cast("Encoder", LettersEncoder()))
    places = reader.places_of([0, 1])
    assert int(np.argmax(score(reader.match("puppy", places), OWN_ONLY))) == 1
    assert int(np.argmax(reader.similarities("glaze kiln", places))) == 0
