"""A store's messages, its questions, and the candidates of each, in a file of arrays and one of texts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from bench.quality.corpora import Question
from memory_mcp.indexes.candidates import Candidates


@dataclass(frozen=True, slots=True)
class Text:
    """A message: its name among candidates, its id and session in the corpus."""

    name: int
    id: str
    session: str
    role: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and how the whole answer of `intelligent_search` did."""

    corpus: str
    id: str
    text: str
    half: str
    sessions: tuple[str, ...]
    messages: tuple[str, ...]
    #: How often candidates were ranked: more than once where the question names a time.
    rankings: int
    #: Place of the first result of a right session, 0 for none; recall among ten, None without gold messages.
    session_rank: int
    recall: float | None

    @classmethod
    def of(cls, question: Question, rankings: int, session_rank: int, recall: float | None) -> "Asked":
        """A question with what came of it."""
        gold = tuple(sorted(question.sessions)), tuple(sorted(question.messages))
        return cls(question.corpus, question.id, question.text, str(question.half), *gold, rankings, session_rank, recall)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of a question, in no order, and whether it is taken literally."""

    candidates: Candidates
    literal: bool


@dataclass(frozen=True, slots=True)
class Store:
    """What is known of one store."""

    name: str
    texts: Sequence[Text]
    asked: Sequence[Asked]
    ranked: Sequence[Ranked]


def write_store(folder: Path, name: str, texts: Sequence[Text], asked: Sequence[Asked], ranked: Sequence[Ranked]) -> None:
    """Write both files of a store; the one of texts comes last."""
    everything = Candidates.concatenate([r.candidates for r in ranked])
    columns = {f.name: getattr(everything, f.name) for f in fields(Candidates)}
    sizes = np.array([len(r.candidates) for r in ranked])
    np.savez_compressed(folder / f"{name}.npz", sizes=sizes, literal=np.array([r.literal for r in ranked]), **columns)
    written = {"texts": [asdict(t) for t in texts], "asked": [asdict(a) for a in asked]}
    (folder / f"{name}.json").write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")


def read_stores(folder: Path) -> Iterator[Store]:
    """Every store of a folder, by name."""
    for path in sorted(folder.glob("*.json")):
        read = json.loads(path.read_text(encoding="utf-8"))
        asked = [
            Asked(**{**row, "sessions": tuple(row["sessions"]), "messages": tuple(row["messages"])}) for row in read["asked"]
        ]
        yield Store(path.stem, [Text(**row) for row in read["texts"]], asked, list(_read_ranked(path.with_suffix(".npz"))))


def _read_ranked(path: Path) -> Iterator[Ranked]:
    with np.load(path) as arrays:
        columns = {f.name: arrays[f.name] for f in fields(Candidates)}
        ends = np.cumsum(arrays["sizes"])
        for end, size, literal in zip(ends.tolist(), arrays["sizes"].tolist(), arrays["literal"].tolist(), strict=True):
            yield Ranked(Candidates(**{name: column[end - size : end] for name, column in columns.items()}), literal)
