"""Postings of one table: rows by term with part of the BM25 score; stored with bm25s.

Invariants
1. What is stored of a document depends only on its own words: the average length is a constant per table, and the inverse
document frequency is computed by the query. So a document's score is the same in every shard.
2. It is stored in steps of 1/255, as other engines store lengths in a byte: half of a posting is its row number anyway.
3. Terms are 64-bit hashes, sorted: the file has no words, and loading it parses nothing.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.base.text import TokenCache, split_tokens, token_terms
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import Array, FolderContents, write_arrays

# Importing tqdm takes 20 ms.
os.environ.setdefault("DISABLE_TQDM", "1")
import bm25s


@dataclass(frozen=True, slots=True)
class TableParameters:
    """BM25 parameters of one table; `average` is the fixed length in terms."""

    k1: float
    b: float
    average: float


#: Grips are messages: long ones are penalized little. For segments the usual values are better (commits, hit@10: 3 to 5
#: points). Average lengths are between the medians of dialogue and of coding sessions.
FORMS = {DocType.NODE: TableParameters(1.5, 0.75, 500.0), DocType.GRIP: TableParameters(0.9, 0.4, 16.0)}
#: One step of a stored term-frequency part.
STEP = 1 / 255
#: A document: hashes of its terms, `(n,)` uint64, and their counts, `(n,)` float64.
TermCounts = tuple[Array, Array]
_CACHE = 200_000
#: Rows of a table up to which the file has row numbers of two bytes.
_SHORT_ROWS = 1 << 16
_TERMS = "terms.npys"


class _Hashes(dict[str, int]):
    """A cache of 64-bit hashes by term."""

    def __missing__(self, term: str) -> int:
        if len(self) > _CACHE:
            self.clear()
        raw = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        hash_value = self[term] = int.from_bytes(raw, "little")
        return hash_value


_hashes = _Hashes()
#: The hashes of a token's terms, eight bytes each.
_packed_keys = TokenCache(lambda token: b"".join(term_key(term).to_bytes(8, "little") for term in token_terms(token)), _CACHE)
_NO_KEYS = np.zeros(0, dtype="<u8")


def term_key(term: str) -> int:
    """Return the 64-bit hash of a term, the same in every process."""
    return _hashes[term]


def term_part(tf: Array, length: Array | float, table: DocType) -> Array:
    """Return scores before IDF, 0..1, of terms that occur `tf` times.

    `length` is the number of all terms of each document, `(n,)`, or one number for all.
    """
    form = FORMS[table]
    return tf / (tf + form.k1 * (1 - form.b + form.b * length / form.average))


class _TermFrequencies(bm25s.BM25):  # type: ignore[misc]
    """The matrix and files of bm25s, with a fixed average length and without IDF."""

    def __init__(self, table: DocType) -> None:
        super().__init__(k1=FORMS[table].k1, b=FORMS[table].b, method="lucene", backend="numpy", csc_backend="numpy")
        self._table = table
        self.vocab_dict: dict[str, int] = {}
        self.nonoccurrence_array = None

    def build_index_from_ids(  # type: ignore[no-untyped-def]
        self, unique_token_ids, corpus_token_ids, show_progress=False, leave_progress=False
    ) -> dict[str, Any]:
        del show_progress, leave_progress
        cols, documents = corpus_token_ids
        sizes = [len(counts) for _, counts in documents]
        rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        tf = np.concatenate([counts for _, counts in documents])
        lengths = np.repeat(np.array([counts.sum() for _, counts in documents], dtype=np.float64), sizes)
        data = term_part(tf, lengths, self._table)
        shape = (len(sizes), len(unique_token_ids))
        data, indices, indptr = self._np_csc(data=data, rows=rows, cols=cols, shape=shape)
        # Never 0, so that a document that holds a term always scores.
        coded = np.clip(np.rint(data / STEP), 1, 255).astype(np.uint8)
        return {"data": coded, "indices": indices, "indptr": indptr, "num_docs": len(sizes)}


@dataclass(frozen=True, slots=True)
class Postings:
    """Rows by term.

    `indices[indptr[i]:indptr[i + 1]]` are the rows that hold `terms[i]`, `data` its score in each, in steps of
    `STEP`.
    """

    table: DocType
    #: Hashes of the terms, `(terms,)` uint64, sorted.
    terms: Array
    #: `(terms + 1,)` int64; int32 as read from a file.
    indptr: Array
    #: `(postings,)` int32, or uint16 as read from the file of a table of at most 65,536 rows (`rows_at`); and uint8.
    indices: Array
    data: Array
    #: Number of rows of the table.
    rows: int

    @classmethod
    def from_counts(cls, documents: Sequence[TermCounts], table: DocType) -> "Postings":
        """Return the postings of documents' term counts, one row each."""
        if not any(len(keys) for keys, _ in documents):
            none = np.zeros(0, dtype=np.int32)
            begin = np.zeros(1, dtype=np.int64)
            return cls(table, np.zeros(0, dtype=np.uint64), begin, none, np.zeros(0, dtype=np.uint8), len(documents))
        terms, places = np.unique(np.concatenate([keys for keys, _ in documents]), return_inverse=True)
        scores = _TermFrequencies(table).build_index_from_ids(terms, (places, documents))
        return cls(table, terms, scores["indptr"], scores["indices"], scores["data"], len(documents))

    @classmethod
    def merge(cls, postings: Sequence["Postings"], kept_rows: Sequence[Array]) -> "Postings":
        """Return the kept rows of several, numbered consecutively."""
        table = postings[0].table
        pieces, first = [], 0
        for shard_postings, rows in zip(postings, kept_rows, strict=True):
            pieces.append(shard_postings.select_rows(rows, first))
            first += len(rows)
        terms = np.unique(np.concatenate([p.terms for p in pieces]))
        counts = np.zeros(len(terms) + 1, dtype=np.int64)
        places = [np.searchsorted(terms, p.terms) for p in pieces]
        for piece, at in zip(pieces, places, strict=True):
            counts[at + 1] += np.diff(piece.indptr)
        indptr = np.cumsum(counts)
        indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.uint8)
        filled = indptr[:-1].copy()
        for piece, at in zip(pieces, places, strict=True):
            lengths = np.diff(piece.indptr)
            target = np.repeat(filled[at] - piece.indptr[:-1], lengths) + np.arange(len(piece.indices))
            indices[target], data[target] = piece.indices, piece.data
            filled[at] += lengths
        return cls(table, terms, indptr, indices, data, first)

    def select_rows(self, rows: Array, first: int) -> "Postings":
        """Return the postings of some ascending rows, numbered from `first`."""
        if len(rows) == self.rows:
            return Postings(self.table, self.terms, self.indptr, self.indices + np.int32(first), self.data, self.rows)
        moved = np.full(self.rows, -1, dtype=np.int32)
        moved[rows] = first + np.arange(len(rows), dtype=np.int32)
        fresh = moved[self.indices]
        stays = fresh >= 0
        offsets = np.concatenate([[0], np.cumsum(stays)])[self.indptr]
        used = np.diff(offsets) > 0
        indptr = np.concatenate([[0], np.cumsum(np.diff(offsets)[used])])
        return Postings(self.table, self.terms[used], indptr, fresh[stays], self.data[stays], len(rows))

    def write(self, directory: Path) -> None:
        """Write a folder named after the table, and its terms. Raises OSError."""
        model = _TermFrequencies(self.table)
        # Half of the file is row numbers: the narrowest integers that hold them.
        indices = self.indices.astype(np.uint16 if self.rows <= _SHORT_ROWS else np.int32, copy=False)
        indptr = self.indptr.astype(np.int32 if len(indices) <= np.iinfo(np.int32).max else np.int64, copy=False)
        model.scores = {"data": self.data, "indices": indices, "indptr": indptr, "num_docs": self.rows}
        model.save(directory / self.table.value, show_progress=False)
        write_arrays(directory / f"{self.table.value}.{_TERMS}", {"terms": self.terms})

    @classmethod
    def read(cls, contents: FolderContents, table: DocType) -> "Postings":
        """Return what `write` wrote; raises IndexUnreadable if inconsistent."""
        scores = {n: contents.read_array(f"{table.value}/{n}.csc.index.npy") for n in ("data", "indices", "indptr")}
        terms = contents.read_arrays(f"{table.value}.{_TERMS}", ["terms"])["terms"]
        rows = int(contents.json_of(f"{table.value}/params.index.json")["num_docs"])
        fits = len(scores["indptr"]) == len(terms) + 1 and len(scores["data"]) == len(scores["indices"])
        if not fits or (len(scores["indices"]) and int(scores["indices"].max()) >= rows):
            raise IndexUnreadable("the postings of the index contradict each other")
        return cls(table, terms, scores["indptr"], scores["indices"], scores["data"], rows)

    def rows_at(self, term_slice: slice) -> Array:
        """Return the rows of a term's postings, ascending int32."""
        # With shorter integers, sums and differences of rows would wrap around.
        rows: Array = self.indices[term_slice].astype(np.int32, copy=False)
        return rows

    def find_slices(self, keys: Array) -> list[slice | None]:
        """Return the slice of each term's postings, by hash; None for none."""
        if not len(self.terms):
            return [None] * len(keys)
        at = np.minimum(np.searchsorted(self.terms, keys), len(self.terms) - 1)
        is_known = self.terms[at] == keys
        bounds = zip(is_known.tolist(), self.indptr[at].tolist(), self.indptr[at + 1].tolist(), strict=True)
        return [slice(start, end) if exists else None for exists, start, end in bounds]


def list_keys(text: str) -> Array:
    """Return the hashes of a text's terms, repeated: `(n,)` uint64."""
    return np.frombuffer(b"".join(map(_packed_keys.__getitem__, split_tokens(text))), dtype="<u8")


def count_keys(parts: Iterable[Array]) -> TermCounts:
    """Return the distinct hashes of several parts, sorted, and their counts."""
    # Functions of numpy that are written in Python take longer than the work on a short text.
    keys = np.concatenate([_NO_KEYS, *parts])
    keys.sort()
    is_first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    starts = is_first.nonzero()[0]
    counts = np.empty(len(starts), dtype=np.float64)
    counts[:-1] = starts[1:] - starts[:-1]
    counts[-1:] = len(keys) - starts[-1:]
    return keys[starts], counts
