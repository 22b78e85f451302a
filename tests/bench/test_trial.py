"""The trial of embedding models: titles are no echo of what they are to find, and ranks are counted fairly."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bench.embedder import trial
from bench.embedder.trial import FEW, FOUND_IN, difference, pair, ranks, verdict
from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.embed.models import BUNDLED
from memory_mcp.model.event import Role
from tests.factories import draft
from tests.indexes.models import static_model

#: What was asked for, and what was then talked about in other words; one conversation each.
TITLES = tuple(
    f"Please {do}."
    for do in (
        "fix the login timeout", "repair the leaking roof", "bake bread for Sunday", "plan the holiday in Norway",
        "speed up the database query", "write tests for the parser", "teach the puppy to sit", "buy a present for mother",
        "tune the old piano", "sort the stamp collection", "clean the fish tank", "mend the bicycle chain",
        "order new office chairs", "explain the tax form", "prune the apple tree", "knit a warm scarf",
        "train for the marathon", "restore the deleted files", "translate the contract", "paint the garden fence",
        "record the podcast", "rent a moving truck", "renew the passport", "install the dishwasher",
    )
)  # fmt: skip
SUBJECTS = (
    "The session of a user who signs in", "Water that drips from the ceiling", "The dough in the oven", "A trip to the fjords",
    "An index on the table", "Coverage of the grammar", "The young dog", "Her birthday gift", "The strings of the instrument",
    "Every postage label in the album", "The aquarium", "The pedals and the gears", "Furniture for the desks",
    "Income and what is owed to the state", "The branches in the orchard", "Wool and needles", "Running forty kilometres",
    "The backup of the disk", "The German version of the agreement", "The wooden boards around the lawn",
    "The microphone for the episode", "The van for our boxes", "The travel document at the border", "The kitchen appliance",
)  # fmt: skip
ENDS = ("cost more than we thought", "was looked at by somebody else first", "kept us busy until the evening")


def test_sentences_that_share_most_of_the_title_are_left_out_of_its_stretch() -> None:
    said = [
        "We moved the lock to Postgres advisory locks. A lock in Redis has a clock of its own.",
        "Postgres advisory locks it is, then.\nThe process that stalls longer than its lease still holds the row.",
    ]
    found = pair("Postgres advisory locks", said)
    assert found is not None
    assert "advisory" not in found.stretch
    assert "A lock in Redis has a clock of its own." in found.stretch


@pytest.mark.parametrize(("title", "said"), [("Locks", ["A long text about other things in the harbour."]), ("Two words", [])])
def test_what_leaves_nothing_to_ask_about_is_no_question(title: str, said: list[str]) -> None:
    assert pair(title, said) is None


def test_places_are_counted_from_one_and_equals_and_zeros_count_against() -> None:
    stretches = np.eye(3, dtype=np.float32)
    titles = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0]], dtype=np.float32)
    assert ranks(titles, stretches).tolist() == [1, 2, 3]


def test_a_difference_is_told_when_it_is_more_than_chance() -> None:
    first, last = np.full(200, 1), np.full(200, FOUND_IN + 1)
    assert difference(first, last).told
    assert difference(first, last).mean == 1
    mixed = np.where(np.arange(200) % 2 == 0, 1, FOUND_IN + 1)
    same = difference(mixed, mixed[::-1])
    assert (same.mean, same.told) == (0, False)


def test_the_model_that_finds_most_is_named_with_how_far_the_others_are_behind() -> None:
    data = verdict({"one": np.full(200, 1), "other": np.full(200, FOUND_IN + 1)})
    assert data["finds_more"] == "one"
    assert data["models"] == [
        {"name": "one", "found_first": 1.0, "found_in_10": 1.0},
        {"name": "other", "found_first": 0.0, "found_in_10": 0.0, "difference": -1.0, "interval": [-1.0, -1.0], "certain": True},
    ]


def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *argv: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["trial", *argv])
    trial.main()
    return capsys.readouterr().out.splitlines()


def test_models_are_compared_by_titles_of_the_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(load({}, {"storage.data_dir": str(tmp_path / "data")}))
    for n, (title, subject) in enumerate(zip(TITLES, SUBJECTS, strict=True)):
        text = " ".join(f"{subject} {end}." for end in ENDS)
        said = [
            draft(title, f"2026-01-{1 + n:02d} 10:00", f"s{n}"),
            draft(text, f"2026-01-{1 + n:02d} 10:01", f"s{n}", Role.ASSISTANT),
        ]
        app.write(said, "test")
    app.derivation.run()
    app.close()
    noise = static_model(tmp_path / "noise", words=("harbour", "count", "number"))
    lines = told(capsys, monkeypatch, "--data-dir", str(tmp_path / "data"), BUNDLED, str(noise))
    assert int(lines[0].split()[0]) >= FEW
    assert [line.split()[0] for line in lines[2:4]] == [BUNDLED, str(noise)]
    assert lines[4] == "bundled finds more."


def test_a_memory_with_few_segments_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="decides nothing"):
        told(capsys, monkeypatch, "--data-dir", str(tmp_path / "data"))
