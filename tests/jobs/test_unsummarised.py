"""When the briefings are written anew for a request, which changes nothing in the tree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.config import Settings
from memory_mcp.importers.jsonl import draft_of
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.toc.refining import mark_requests
from memory_mcp.upkeep.jobs.render_briefings import BriefingSettings, RenderBriefings
from tests.factories import BILLING, SHOP, ms
from tests.fakes import FakeClock
from tests.sessions import DAYS, sessions, stretch


@pytest.fixture
def memory(data_dir: Path) -> Iterator[App]:
    app = App(Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin")), FakeClock(ms("2026-01-22 09:00")))
    app.write([draft_of(e) for e in [*sessions(), *stretch("ibex", f"{DAYS[0]} 18:00", "b", BILLING)]], "jsonl")
    app.derivation.run()
    yield app
    app.close()


def job(app: App, directory: Path, refine: bool = True) -> RenderBriefings:
    return RenderBriefings(app.storage, app.tree, BriefingSettings(directory, enabled=True, token_factor=1.0, refine=refine))


def written(made: RenderBriefings, stop: bool = False) -> int:
    return made.run(0, lambda: stop).counts["written"]


def told(directory: Path, project: str) -> str:
    return Path(paths.briefing_file(str(directory), project)).read_text("utf-8")


def test_a_request_alone_writes_its_projects_file_anew_and_no_other_and_switching_it_off_takes_the_line_away(
    memory: App, data_dir: Path
) -> None:
    made = job(memory, data_dir)
    assert written(made) == 2
    assert written(made) == 0
    mark_requests(memory.storage, {SHOP: ms("2026-01-21 20:00")})
    # A run that is stopped has not told it: the next one does.
    assert written(made, stop=True) == 0
    assert written(made) == 1
    assert "\n6 stretches are unsummarised: /memory:refine\n" in told(data_dir, SHOP)
    assert "unsummarised" not in told(data_dir, BILLING)
    assert written(made) == 0
    assert written(job(memory, data_dir, refine=False)) == 1
    assert "unsummarised" not in told(data_dir, SHOP)
