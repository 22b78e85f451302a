"""Vectors on disk: rows, usearch index files whose rows are mapped, and whatever is neither."""

import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from usearch.compiled import MetricKind
from usearch.index import Index

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.base import DocType
from memory_mcp.indexes.files import FolderContents, seal_folder, write_arrays
from memory_mcp.indexes.vector import stored
from memory_mcp.indexes.vector.rows import CodedQuery, VectorRows
from memory_mcp.indexes.vector.stored import files_of

DIMENSIONS = 64
INDEX, ROWS, TEXTS = files_of(DocType.GRIP)


def rows(count: int, same: int = 1, seed: int = 0) -> VectorRows:
    """Return rows of random vectors, each had by `same` documents in turn."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    return VectorRows.from_vectors(np.tile(vectors, (same, 1)), np.arange(count * same, dtype=np.uint64))


def written(made: VectorRows, folder: Path, graph_from: int | None = None) -> FolderContents:
    """Return a table's files, read back."""
    folder.mkdir(exist_ok=True)
    stored.write_rows(made, folder, DocType.GRIP, graph_from)
    return FolderContents(folder, seal_folder(folder), folder)


def read(made: VectorRows, folder: Path, graph_from: int | None = None) -> VectorRows:
    return stored.read_rows(written(made, folder, graph_from), DocType.GRIP, DIMENSIONS)


def test_a_file_with_a_graph_is_a_usearch_index_that_begins_with_its_rows_in_the_documents_order(tmp_path: Path) -> None:
    made = rows(500)
    written(made, tmp_path / "part", graph_from=1)
    data = (tmp_path / "part" / INDEX).read_bytes()
    assert struct.unpack("<II", data[:8]) == (500, DIMENSIONS)
    assert data[8 : 8 + made.codes.size] == made.codes.tobytes()
    index = Index.restore(tmp_path / "part" / INDEX, view=True)
    assert index is not None
    assert (len(index), str(index.dtype), index.metric_kind) == (500, "ScalarKind.I8", MetricKind.Cos)
    assert np.array_equal(np.asarray(index.get(77)), made.codes[77])
    assert not (tmp_path / "part" / ROWS).exists()


def test_without_a_graph_the_rows_alone_are_written(tmp_path: Path) -> None:
    made = rows(500)
    written(made, tmp_path / "part", graph_from=501)
    assert np.array_equal(np.load(tmp_path / "part" / ROWS), made.codes)
    assert not (tmp_path / "part" / INDEX).exists()


@pytest.mark.parametrize("count", [0, 1, 700])
def test_a_usearch_index_without_a_graph_of_an_earlier_version_is_read(tmp_path: Path, count: int) -> None:
    made = rows(count, same=2)
    written(made, tmp_path / "part")
    (tmp_path / "part" / ROWS).unlink()
    old = Index(ndim=DIMENSIONS, metric="cos", dtype="i8", connectivity=2, expansion_add=1)
    old.add(np.arange(count, dtype=np.uint64), rows(count).codes, threads=1)
    old.save(tmp_path / "part" / INDEX)
    contents = FolderContents(tmp_path / "part", seal_folder(tmp_path / "part"), tmp_path)
    found = stored.read_rows(contents, DocType.GRIP, DIMENSIONS)
    query = CodedQuery.from_vector(np.random.default_rng(1).standard_normal(DIMENSIONS))
    assert np.array_equal(found.compute_similarities(query), made.compute_similarities(query))
    assert found.graph is None


@pytest.mark.parametrize("graph_from", [None, 1], ids=["rows", "graph"])
@pytest.mark.parametrize("count", [0, 1, 3, 700])
def test_documents_are_as_similar_as_before_they_were_written(tmp_path: Path, count: int, graph_from: int | None) -> None:
    made = rows(count, same=3)
    found = read(made, tmp_path / "part", graph_from)
    query = CodedQuery.from_vector(np.random.default_rng(1).standard_normal(DIMENSIONS))
    some = np.arange(0, len(made), 2)
    assert np.array_equal(found.compute_similarities(query), made.compute_similarities(query))
    assert np.array_equal(found.compute_similarities(query, some), made.compute_similarities(query)[some])
    assert np.array_equal(found.digests, made.digests)


def test_one_vector_is_stored_once_however_many_documents_have_it(tmp_path: Path) -> None:
    silent = VectorRows.from_vectors(np.zeros((5, DIMENSIONS), dtype=np.float32), np.arange(5, dtype=np.uint64))
    found = read(VectorRows.concatenate([rows(100, same=4), silent, rows(100)]), tmp_path / "part")
    assert (len(found), found.codes.shape) == (505, (101, DIMENSIONS))
    assert found.unknown.nonzero()[0].tolist() == list(range(400, 405))
    assert len(VectorRows.concatenate([found.select_rows(np.array([0, 100, 400])), rows(2)]).codes) == 4


@pytest.mark.parametrize("graph_from", [None, 1], ids=["rows", "graph"])
def test_nothing_of_a_large_part_is_copied_into_memory(tmp_path: Path, graph_from: int | None) -> None:
    found = read(rows(20_000), tmp_path / "part", None if graph_from is None else 20_001)
    held = [found.codes, found.inverse, found.row_of, found.digests]
    assert {type(_whose(array)) for array in held} == {mmap.mmap}


def _whose(array: Any) -> object:
    """Return what an array's bytes are part of."""
    while isinstance(array, np.ndarray):
        array = array.base
    while isinstance(array, memoryview):
        array = array.obj
    return array


def test_rows_cost_sixteen_bytes_more_than_themselves(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((5000, 256)).astype(np.float32)
    contents = written(VectorRows.from_vectors(vectors, np.arange(5000, dtype=np.uint64)), tmp_path / "part")
    assert len(contents.bytes_of(ROWS)) <= 5000 * 256 + 200
    assert len(contents.bytes_of(TEXTS)) <= 5000 * 16 + 1000


def _of_other_rows(metric: str, numbers: range) -> Callable[[bytes, Path], None]:
    """Return what puts another usearch index in the place of a file."""

    def put(_: bytes, path: Path) -> None:
        index = Index(ndim=DIMENSIONS, metric=metric, dtype="i8")
        index.add(np.array(numbers, dtype=np.uint64), rows(len(numbers)).codes, threads=1)
        index.save(path)

    return put


HARMS: dict[str, Callable[[bytes, Path], object]] = {
    "no index": lambda data, path: path.write_bytes(b"x" * len(data)),
    "cut": lambda data, path: path.write_bytes(data[:-40]),
    "empty": lambda _, path: path.write_bytes(b""),
    "rows elsewhere": lambda data, path: path.write_bytes(struct.pack("<II", 250, 2 * DIMENSIONS) + data[8:]),
    "another metric": _of_other_rows("ip", range(500)),
    "another order": _of_other_rows("cos", range(499, -1, -1)),
    "fewer": _of_other_rows("cos", range(400)),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_a_file_that_is_not_laid_out_so_is_refused_whatever_its_checksum(tmp_path: Path, harm: Any) -> None:
    """The layout is usearch's own and may change with it: what is mapped is compared with what usearch says."""
    written(rows(500), tmp_path / "part", graph_from=1)
    harm((tmp_path / "part" / INDEX).read_bytes(), tmp_path / "part" / INDEX)
    contents = FolderContents(tmp_path / "part", seal_folder(tmp_path / "part"), tmp_path)
    with pytest.raises(IndexUnreadable):
        stored.read_rows(contents, DocType.GRIP, DIMENSIONS)


ROW_HARMS: dict[str, Callable[[Any], Any]] = {
    "another type": lambda codes: codes.astype(np.uint8),
    "other dimensions": lambda codes: codes.reshape(-1, 2 * DIMENSIONS),
    "one dimension": lambda codes: codes.ravel(),
    "fewer": lambda codes: codes[:-1],
}


@pytest.mark.parametrize("harm", ROW_HARMS.values(), ids=ROW_HARMS.keys())
def test_rows_of_another_shape_are_refused_whatever_their_checksum(tmp_path: Path, harm: Any) -> None:
    made = rows(500)
    written(made, tmp_path / "part")
    write_arrays(tmp_path / "part" / ROWS, {"codes": harm(made.codes)})
    contents = FolderContents(tmp_path / "part", seal_folder(tmp_path / "part"), tmp_path)
    with pytest.raises(IndexUnreadable):
        stored.read_rows(contents, DocType.GRIP, DIMENSIONS)


@pytest.mark.parametrize(("graph_from", "name"), [(None, ROWS), (1, INDEX)], ids=["rows", "graph"])
def test_texts_of_other_rows_are_refused(tmp_path: Path, graph_from: int | None, name: str) -> None:
    written(rows(500), tmp_path / "part", graph_from)
    written(rows(400), tmp_path / "less", graph_from)
    (tmp_path / "less" / name).rename(tmp_path / "part" / name)
    with pytest.raises(IndexUnreadable, match="contradict"):
        stored.read_rows(FolderContents(tmp_path / "part", seal_folder(tmp_path / "part"), tmp_path), DocType.GRIP, DIMENSIONS)


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / INDEX).symlink_to("/dev/full")
    with pytest.raises(OSError, match="cannot be written"):
        stored.write_rows(rows(5000), tmp_path, DocType.GRIP, 1)
