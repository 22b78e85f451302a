"""Little work is done by the process that has the store: a child costs more to begin than it would save."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base import children
from memory_mcp.indexes import build
from memory_mcp.model.calendar import EVERY_DAY
from memory_mcp.tree.derive import workers
from memory_mcp.tree.derive.derivation import ExecutionMode
from tests.factories import a_day_of_drafts
from tests.fakes import FakeClock
from tests.indexes.helpers import opened

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def app(tmp_path: Path, clock: FakeClock) -> Iterator[App]:
    made = opened(tmp_path / "data", clock)
    made.write(a_day_of_drafts("2026-01-12"), "test")
    yield made
    made.close()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Modules of the children that were started."""
    modules: list[str] = []
    whole = children.Child.__init__

    def note(self: children.Child, module: str, hello: object) -> None:
        modules.append(module)
        whole(self, module, hello)

    monkeypatch.setattr(children.Child, "__init__", note)
    return modules


def test_few_segments_are_derived_and_indexed_without_a_child(app: App, begun: list[str]) -> None:
    app.derivation.run(mode=ExecutionMode.ASIDE)
    made = app.accelerators.get_keeper("bm25").rebuild()
    assert made.documents > app.storage.toc.tally_days(*EVERY_DAY, None).segments > 0
    assert begun == []


def test_more_of_them_are_worth_one_child_and_not_two(app: App, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MIN_BATCH_ASIDE", 1)
    monkeypatch.setattr(build, "_FEW", 0)
    app.derivation.run(mode=ExecutionMode.ASIDE)
    assert app.accelerators.get_keeper("bm25").rebuild().documents > 1
    assert begun == ["memory_mcp.tree.derive.workers", "memory_mcp.indexes.child"]
