"""Who waits for events to be filed is told of a failure that lasts, and of none that is over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_mcp.base.errors import DiskFull
from memory_mcp.config import Settings
from memory_mcp.server import service as service_module
from memory_mcp.server.service import Awaited, Service
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.upkeep.jobs import calls
from tests.factories import draft
from tests.waiting import until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    found = Service(Settings(storage=StorageSettings(str(tmp_path / "data"), "Europe/Berlin")))
    yield found
    found.close()


def failing(service: Service, monkeypatch: pytest.MonkeyPatch, lasts: Callable[[], bool]) -> Awaited:
    """Let filing fail while `lasts`, and return what waits for an event behind the first failure."""
    app = service.host.app()
    run = app.derivation.run

    def refused(*given: object, **named: object) -> object:
        if lasts():
            raise DiskFull("the disk is full", DiskFull.HINT)
        return run(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(app.derivation, "run", refused)
    app.append([draft("The otter harbour is closed.")], "test")
    until(lambda: service.host.deriver_error() != "")
    return Awaited(app.storage.events.last_seq())


def test_what_is_stored_is_written_densely_once_it_is_indexed_and_found_as_before(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_LEAST_GROWTH", 50)
    monkeypatch.setattr(service_module, "_UNASKED", 0.0)
    app = service.host.app()
    file = service.settings.storage.directory / "memory.duckdb"
    before = Path(file).stat().st_ino
    app.append([draft(f"The otter harbour is closed in week {i}.", at=1_760_000_000_000 + i) for i in range(60)], "test")
    until(lambda: Path(file).stat().st_ino != before)
    assert app.storage.events.last_seq() == 60
    assert app.derivation.last_derived() == 60
    assert app.scheduler.run_now("compact_grown").words == "it has not grown by a quarter"


def test_a_failure_that_is_over_is_not_told(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    full = True
    awaited, said = failing(service, monkeypatch, lambda: full), set[str]()
    full = False

    def filed() -> bool:
        done = service.upkeep(awaited) is None
        said.add("" if done else service.failure(awaited))
        return done

    until(filed)
    assert said == {""}


def test_a_failure_that_lasts_is_told(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited = failing(service, monkeypatch, lambda: True)
    until(lambda: "the disk is full" in service.failure(awaited))
