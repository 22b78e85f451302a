"""The specification's bars on made-up documents of real length, 10,000 and 100,000 of them; ours are measured in `bench/`.

What they rest on is counted in `tests/indexes/test_costs.py`.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bench import engines, material, place
from bench.sentences import Language, Question
from memory_mcp.base.text import query_terms
from memory_mcp.indexes.base import Filters, Position
from memory_mcp.indexes.bm25.search import search_documents
from memory_mcp.indexes.document import unit_of
from tests.requirements import requirement
from tests.waiting import PATIENCE

SMALL, LARGE = 10_000, 100_000
pytestmark = pytest.mark.slow

#: Documents for each event (measured on coding sessions), and events of five years of a busy user.
PER_EVENT, FIVE_YEARS = 1.3, 540_000


@dataclass(frozen=True, slots=True)
class Size:
    folder: Path
    home: Path
    built: engines.Built
    questions: list[Question]


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Size]:
    found = {}
    for documents in (SMALL, LARGE):
        folder = tmp_path_factory.mktemp(f"documents{documents}")
        questions = material.write(Language.of(None), documents, 200, folder)
        found[documents] = Size(folder, folder / "index", engines.Bm25().build(folder, folder / "index"), questions)
    return found


@pytest.fixture
def opened(sizes: dict[int, Size], tmp_path: Path) -> Iterator[Any]:
    shutil.copytree(sizes[LARGE].home, tmp_path / "index")
    index = engines.live(tmp_path / "index")
    index.load(0)
    yield index
    index.close()


@requirement("bm25:FR-06.4", "goal:G3", "bm25:NFR-01.4")
def test_ten_thousand_documents_are_indexed_within_a_minute_and_a_thousand_a_second(sizes: dict[int, Size]) -> None:
    built = sizes[SMALL].built
    assert built.documents >= SMALL
    assert built.seconds < 60
    assert built.documents / built.seconds > 1000


@requirement("bm25:NFR-01.1", "bm25:NFR-01.2", "goal:G1", "metric:query-latency-p99", "bm25:NFR-03.1")
def test_a_hundred_thousand_documents_are_searched_in_milliseconds(sizes: dict[int, Size], opened: Any) -> None:
    assert sum(opened.snapshot.counts.values()) >= LARGE
    taken = []
    for question in sizes[LARGE].questions:
        began = time.perf_counter()
        found = search_documents(opened.snapshot, query_terms(question.text), Filters(project=question.project or None), 10)
        taken.append(time.perf_counter() - began)
        assert found.best
    taken.sort()
    assert taken[len(taken) // 2] < 0.020
    assert taken[int(len(taken) * 0.99)] < 0.100


@requirement("bm25:NFR-01.3")
def test_a_commit_takes_less_than_half_a_second_while_others_search(sizes: dict[int, Size], opened: Any) -> None:
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            for question in sizes[LARGE].questions:
                search_documents(opened.snapshot, query_terms(question.text), Filters(), 10)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    unit = unit_of(material.source(next(material.read(sizes[SMALL].folder))))
    taken = []
    for number in range(7):
        opened.apply([replace(unit, key=number + 1)], [], Position(number + 1, number + 1))
        began = time.perf_counter()
        assert opened.commit()
        taken.append(time.perf_counter() - began)
    done.set()
    asking.join(PATIENCE)
    assert median(taken) < 0.5


@requirement("bm25:NFR-03.2")
@pytest.mark.skipif(not place.VISIBLE, reason="memory is looked at through /proc")
def test_a_hundred_thousand_documents_take_less_than_a_hundred_megabytes(sizes: dict[int, Size]) -> None:
    size = sizes[LARGE]
    worker = engines.Worker(engines.Bm25)
    try:
        before = worker.call("memory")
        worker.call("open", size.folder, size.home)
        worker.call("ask", size.questions, False, False)
        after = worker.call("memory")
    finally:
        worker.end()
    assert after[0] - before[0] < 100_000_000


@requirement("bm25:NFR-03.3", "goal:G5", "metric:index-growth-rate")
def test_the_index_grows_more_slowly_than_what_it_holds(sizes: dict[int, Size]) -> None:
    each = {n: size.built.bytes / size.built.documents for n, size in sizes.items()}
    assert each[LARGE] < each[SMALL]
    assert each[LARGE] * PER_EVENT * FIVE_YEARS < 300_000_000
