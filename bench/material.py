"""Documents of `bench.sentences` as every engine gets them: one file of units, written once and read by each.

A unit is a segment: 25 grips of one project, and a node with a title, bullets and keywords over them.
"""

import datetime as dt
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.sentences import Documents, Language, Question, questions
from memory_mcp.base.text import iter_terms, query_terms
from memory_mcp.indexes.base import DocType, Visibility
from memory_mcp.indexes.document import IndexDocument, Source, Unit, unit_of
from memory_mcp.indexes.keys import grip_doc, node_doc
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import Event, EventType, Role, Trust
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, grip_id_from, make_key, node_key, segment_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode

#: Grips of a unit.
RUN = 25
#: Numbers of a document's vector.
DIMENSIONS = 256
#: Rows of the table that stands for a model's vocabulary.
_TABLE = 1 << 16
_START = int(dt.datetime(2025, 1, 6, 8, tzinfo=dt.UTC).timestamp() * 1000)
_MINUTE, _HOUR = 60_000, 3_600_000
#: Documents of which questions are made.
_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """A unit before it is anybody's: its number, its project, the texts of its grips."""

    number: int
    project: str
    texts: tuple[str, ...]

    @property
    def start(self) -> int:
        """When it began."""
        return _START + self.number * _HOUR

    @property
    def first(self) -> int:
        """Number of its first grip."""
        return self.number * RUN


def write(language: Language, documents: int, asked: int, folder: Path) -> list[Question]:
    """The units of so many grips into `folder`, and questions about them, also into it."""
    sample: list[tuple[str, str]] = []
    every = max(1, documents // _SAMPLE)
    made = Documents(language, run=RUN).take(documents)
    with (folder / "units.jsonl").open("w", encoding="utf-8") as out:
        texts: list[str] = []
        for number, (text, project) in enumerate(made):
            texts.append(text)
            if number % every == 0:
                sample.append((text, project))
            if len(texts) == RUN or number == documents - 1:
                out.write(json.dumps([project, texts]) + "\n")
                texts = []
    found = [q for q in questions(sample, asked) if query_terms(q.text)]
    (folder / "questions.json").write_text(json.dumps([asdict(q) for q in found]), encoding="utf-8")
    return found


def read_questions(folder: Path) -> list[Question]:
    """The questions that `write` wrote."""
    return [Question(**q) for q in json.loads((folder / "questions.json").read_text(encoding="utf-8"))]


def read(folder: Path) -> Iterator[Stretch]:
    """The units that `write` wrote."""
    with (folder / "units.jsonl").open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            project, texts = json.loads(line)
            yield Stretch(number, project, tuple(texts))


def source(stretch: Stretch) -> Source:
    """As the store would give it to an index."""
    start, end = stretch.start, stretch.start + RUN * _MINUTE
    ids = [EventId(f"01{stretch.first + i:024d}") for i in range(len(stretch.texts))]
    events = tuple(_event(stretch, i, event_id) for i, event_id in enumerate(ids))
    segment = Segment(
        stretch.number, 0, f"s{stretch.number}", stretch.project, "", "bench", _day(start),
        (start, ids[0]), (end, ids[-1]), len(ids), 1000, open=False, cutter=1,
    )  # fmt: skip
    grips = tuple(
        Grip(grip_name(stretch, i), e.event_id, e.event_id, 0, len(e.text), 0, e.timestamp, segment.key)
        for i, e in enumerate(events)
    )
    title, bullets, keywords = _told(stretch)
    shown = tuple(TocBullet(text, (grips[0].grip_id,), project=stretch.project) for text in bullets)
    node = TocNode(segment.node_id, TocLevel.SEGMENT, start, end, f"{_day(start)} · {title}", "", shown, keywords)
    return Source(node, segment, events, grips)


def _event(stretch: Stretch, place: int, event_id: EventId) -> Event:
    return Event(
        event_id, f"s{stretch.number}", stretch.start + place * _MINUTE, EventType.USER_MESSAGE, Role.USER, Trust.USER,
        stretch.texts[place], "bench", agent="bench", project=stretch.project,
    )  # fmt: skip


def grip_name(stretch: Stretch, place: int) -> GripId:
    """The id of a grip: its number is in it."""
    return grip_id_from(make_key(stretch.start + place * _MINUTE, stretch.first + place))


def number_of(grip_id: GripId) -> int:
    """The number of a grip, out of its id."""
    return grip_doc(grip_id)[1]


def _day(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).date().isoformat()


def _told(stretch: Stretch) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """A title, three bullets and eight keywords, as short as a summarizer makes them."""
    longest = sorted(stretch.texts, key=len)[-3:]
    counts = Counter(w for t in longest for w in t.split() if len(w) > 4)
    return stretch.texts[0][:60], tuple(t[:160] for t in longest), tuple(w for w, _ in counts.most_common(8))


@dataclass(frozen=True, slots=True)
class Flat:
    """A document as an engine of words gets it."""

    number: int
    grip: bool
    project: str
    text: str

    @property
    def terms(self) -> str:
        """Terms of our tokenizer, as one line."""
        return " ".join(iter_terms(self.text))


def flat(stretch: Stretch) -> list[Flat]:
    """The node, then the grips: words alike to what our index gets."""
    unit = unit_of(source(stretch))
    grips = [Flat(stretch.first + i, True, stretch.project, "\n".join(d.words)) for i, d in enumerate(unit.grips)]
    return [*(Flat(stretch.number, False, stretch.project, "\n".join(d.words)) for d in unit.nodes), *grips]


def bare(stretch: Stretch, grips: int) -> Unit:
    """As an index of vectors gets it; what a document is about is the number of its row in `vectors`: nodes after `grips`."""
    day, end = _day(stretch.start), stretch.start + RUN * _MINUTE
    node_id = segment_id(day, stretch.number + 1)
    node = _bare(DocType.NODE, node_doc(node_id), stretch.start, end, stretch.project, grips + stretch.number)
    own = tuple(
        _bare(DocType.GRIP, grip_doc(grip_name(stretch, i)), at, at, stretch.project, stretch.first + i)
        for i in range(len(stretch.texts))
        for at in (stretch.start + i * _MINUTE,)
    )
    return Unit(node_key(node_id), TocLevel.SEGMENT, end, (node,), own)


def _bare(doc_type: DocType, key: tuple[int, int], start: int, end: int, project: str, row: int) -> IndexDocument:
    return IndexDocument(
        key, doc_type, TocLevel.SEGMENT, start, end, project, Visibility.ALWAYS, ("bench",), (), "", (), str(row)
    )


class Meaning:
    """What a static model does: each term has a direction, rare ones weigh more, a text is their sum. Seeded, of no sense."""

    def __init__(self, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self._table = rng.standard_normal((_TABLE, DIMENSIONS)).astype(np.float32)
        # Terms that fall into the first rows count little, as common words do in a real model.
        self._table *= np.minimum(1.0, 0.2 + np.arange(_TABLE) / (_TABLE / 2)).astype(np.float32)[:, np.newaxis]
        self._rows: dict[str, int] = {}

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors."""
        found = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        for i, text in enumerate(texts):
            found[i] = self._table[[self._row(t) for t in iter_terms(text)] or [0]].sum(axis=0)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    def _row(self, term: str) -> int:
        row = self._rows.get(term)
        if row is None:
            row = self._rows[term] = zlib.crc32(term.encode("utf-8", "surrogatepass")) % _TABLE
        return row


def write_vectors(folder: Path, grips: int) -> int:
    """The vectors of all documents as `bare` numbers them, into `folder`; how many."""
    units = -(-grips // RUN)
    found = np.lib.format.open_memmap(folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(grips + units, DIMENSIONS))
    meaning = Meaning()
    for stretch in read(folder):
        found[stretch.first : stretch.first + len(stretch.texts)] = meaning.of(stretch.texts)
        title, bullets, keywords = _told(stretch)
        found[grips + stretch.number] = meaning.of([" ".join([title, *bullets, *keywords])])[0]
    found.flush()
    np.save(folder / "asked.npy", meaning.of([q.text for q in read_questions(folder)]))
    return grips + units


def read_asked(folder: Path) -> dict[str, NDArray[np.float32]]:
    """The vectors of the questions, by their texts."""
    return dict(zip((q.text for q in read_questions(folder)), np.load(folder / "asked.npy"), strict=True))
