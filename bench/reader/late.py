"""Late interaction: the best match of each token of a question among the tokens of a passage (MaxSim), in numpy.

A token's vector may have those of its neighbours mixed in. A long message is read in windows of `2 * BLOCK` tokens, each
beginning half a window after the last. What is kept of a question is small, so that trials of weights take seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.reader.files import Store
from bench.reader.tokens import Rows, Vocabulary, rarity

Places = NDArray[np.int64]

#: Tokens of half a window.
BLOCK = 32


@dataclass(frozen=True, slots=True)
class Matches:
    """Best matches of one question's tokens with its candidates."""

    #: Weight of each token of the question by its rarity in the store, `(tokens,)`.
    rarity: Rows
    #: Best match in each window, `(tokens, windows)`, and where each candidate's windows begin, `(candidates,)`.
    windows: Rows
    begins: Places
    #: Best match in the message before and after each candidate, `(tokens, candidates)`.
    before: Rows
    after: Rows


class Reader:
    """The messages of one store as tokens with vectors."""

    def __init__(self, store: Store, vocabulary: Vocabulary, rows: Rows, mixed: float) -> None:
        """`rows` are of length 1, one a token; `mixed` is the share of each neighbour of a token."""
        self._vocabulary, self._rows, self._mixed = vocabulary, rows, mixed
        texts = vocabulary.ids(f"{text.speaker} {text.text}" for text in store.texts)
        self._rarity = rarity(texts, vocabulary.size)
        self._ids = np.concatenate([*texts, np.zeros(1, dtype=np.int32)])
        self._lay_out(store, [len(ids) for ids in texts])
        self._lengths = self._mixed_lengths()

    def _lay_out(self, store: Store, sizes: Sequence[int]) -> None:
        """Where each message's tokens are, and which messages stand beside it."""
        self._sizes = np.array(sizes)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        self._place = {text.name: at for at, text in enumerate(store.texts)}
        sessions = [text.session for text in store.texts]
        self._before = np.array([at - 1 if at and sessions[at] == sessions[at - 1] else -1 for at in range(len(sessions))])
        self._after = np.array([*(self._before[1:] >= 0), False])

    def _mixed_lengths(self) -> Rows:
        """Length of each token's vector with its neighbours mixed in."""
        if not self._mixed:
            return np.ones(len(self._ids), dtype=np.float32)
        lengths = np.ones(len(self._ids), dtype=np.float32)
        for start, end in zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True):
            if end > start:
                lengths[start:end] = np.linalg.norm(mix(self._rows[self._ids[start:end]], self._mixed), axis=1)
        return np.maximum(lengths, 1e-6)

    def places_of(self, names: Sequence[int]) -> Places:
        """Where messages are among the store's."""
        return np.array([self._place[name] for name in names], dtype=np.int64)

    def match(self, question: str, places: Places) -> Matches:
        """Best matches of a question's tokens with the messages at some places."""
        asked, rare = self._read_question(question)
        before, after = self._before[places], np.where(self._after[places], places + 1, -1)
        read = np.unique(np.concatenate([places, before[before >= 0], after[after >= 0]]))
        best, begins, ends = self._blocks(asked, read)
        whole = np.maximum.reduceat(best, begins, axis=1) if len(begins) else best
        position = {place: at for at, place in enumerate(read.tolist())}
        rows = np.array([position[place] for place in places.tolist()], dtype=np.int64)
        windows: list[Rows] = []
        starts: list[int] = []
        for row in rows.tolist():
            blocks = best[:, begins[row] : ends[row]]
            starts.append(starts[-1] + windows[-1].shape[1] if starts else 0)
            windows.append(np.maximum(blocks[:, :-1], blocks[:, 1:]) if blocks.shape[1] > 1 else blocks)
        return Matches(
            rare, np.concatenate(windows, axis=1), np.array(starts),
            _of_neighbours(whole, position, before), _of_neighbours(whole, position, after),
        )  # fmt: skip

    def _read_question(self, question: str) -> tuple[Rows, Rows]:
        """Vectors and rarities of a question's tokens; one token at least."""
        (asked,) = self._vocabulary.ids([question])
        asked = asked if len(asked) else np.zeros(1, dtype=np.int32)
        return mix_unit(self._rows[asked], self._mixed), self._rarity[asked]

    def _blocks(self, asked: Rows, read: Places) -> tuple[Rows, Places, Places]:
        """Best match in each block of the messages read, and where each message's blocks begin and end."""
        sizes = np.maximum(self._sizes[read], 1)
        ends = np.cumsum(sizes)
        token = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes) + np.repeat(self._starts[read], sizes)
        ids, inverse = np.unique(self._ids[token], return_inverse=True)
        similarity = (asked @ self._rows[ids].astype(np.float32).T)[:, inverse]
        if self._mixed:
            inside = np.ones(len(token), dtype=np.float32)
            inside[ends - sizes] = 0.0
            left = np.concatenate([similarity[:, :1] * 0, similarity[:, :-1]], axis=1) * inside
            inside = np.ones(len(token), dtype=np.float32)
            inside[ends - 1] = 0.0
            right = np.concatenate([similarity[:, 1:], similarity[:, :1] * 0], axis=1) * inside
            similarity = (similarity + self._mixed * (left + right)) / self._lengths[token]
        similarity = similarity * np.repeat(self._sizes[read] > 0, sizes)
        counts = -(-sizes // BLOCK)
        last = np.cumsum(counts)
        offsets = (np.arange(last[-1]) - np.repeat(last - counts, counts)) * BLOCK + np.repeat(ends - sizes, counts)
        return np.maximum.reduceat(similarity, offsets, axis=1), last - counts, last


def _of_neighbours(whole: Rows, position: dict[int, int], neighbours: Places) -> Rows:
    found = np.zeros((len(whole), len(neighbours)), dtype=np.float32)
    there = np.flatnonzero(neighbours >= 0)
    if len(there):
        found[:, there] = whole[:, [position[place] for place in neighbours[there].tolist()]]
    return found


def mix(rows: Rows, share: float) -> Rows:
    """Vectors with a share of each neighbour's added."""
    mixed = rows.copy()
    mixed[1:] += share * rows[:-1]
    mixed[:-1] += share * rows[1:]
    return mixed


def mix_unit(rows: Rows, share: float) -> Rows:
    """The same, of length 1."""
    mixed = mix(rows, share)
    unit: Rows = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-6)
    return unit


@dataclass(frozen=True, slots=True)
class Shape:
    """How matches become one number."""

    #: Power of a token's rarity; matches up to `least` count nothing; how much a match in the message before or after counts.
    power: float = 1.0
    least: float = 0.3
    before: float = 0.5
    after: float = 0.25


def score(matches: Matches, shape: Shape) -> Rows:
    """The mean of the best matches by weight, 0..1, `(candidates,)`, of each candidate's best window."""

    def counted(found: Rows) -> Rows:
        above: Rows = np.maximum((found - shape.least) / (1 - shape.least), 0.0)
        return above

    weights = matches.rarity**shape.power
    weights = weights / max(float(weights.sum()), 1e-6)
    counts = np.diff([*matches.begins.tolist(), matches.windows.shape[1]])
    near = np.maximum(shape.before * counted(matches.before), shape.after * counted(matches.after))
    both = np.maximum(counted(matches.windows), np.repeat(near, counts, axis=1))
    scored: Rows = np.maximum.reduceat(weights @ both, matches.begins)
    return scored
