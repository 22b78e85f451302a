"""What every part of the tree shares; kept light, because each folder that needs more has a conftest of its own."""

import gc
import itertools
import os
import sys
import tomllib
from collections.abc import Callable, Generator, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

# A test that wants the background process says so; all others open the store themselves.
os.environ["MEMORY_MCP_SERVER__DAEMON"] = "false"
# Likewise for the indexes, which a server builds in the background: most tests are about what works without them.
os.environ["MEMORY_MCP_TELEPORT__ENABLED"] = "false"
# Else argparse looks for a translation of each of its words in each run of a command, some hundred files.
os.environ["LANGUAGE"] = "C"
# The processes that tests start share compiled modules; without them each spends a third of its time compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from memory_mcp.base import extensions
from tests.examples import CI
from tests.fakes import FakeClock
from tests.stages import STAGES, Stages
from tests.templates import find_changes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from memory_mcp.app import App
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.settings import StorageSettings
    from tests.postgres import Cluster

pytest.register_assert_rewrite("tests.storage.suite", "tests.indexes.helpers")

#: Tenants of the database that tests share.
_TENANTS = itertools.count(1)
_HERE = str(Path(__file__).parent)
#: How variables begin that the program and its tests read; libraries set others of their own.
_READ = ("MEMORY_MCP_", "CLAUDE", "XDG_", "HOME", "PATH", "LANG", "LC_", "TZ", "TERM", "COLUMNS", "NO_COLOR")

# The same examples in every run: a failure on one machine is a failure on all. `--slow` looks further.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
}
# The program's own words are no examples: which are drawn would depend on what other tests have loaded, and to read its seven
# hundred modules for them takes seconds.
vars(providers)["is_local_module_file"] = lambda _path: False
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=CI, **_COMMON)
hypothesis.settings.register_profile("nightly", max_examples=10 * CI, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", type=Path, help="folder with other people's data, for the tests that measure on it")
    parser.addoption("--slow", action="store_true", help="also run the long forms, with random examples")
    parser.addoption("--stage", action="append", choices=STAGES, help="run the tests of this stage (again for another)")


def pytest_configure(config: pytest.Config) -> None:
    _require_entry_points()
    hypothesis.settings.load_profile("nightly" if config.getoption("--slow", default=False) else "ci")
    config.pluginmanager.register(Stages(config), "stages")


def _require_entry_points() -> None:
    """What is installed must have the entry points of pyproject.toml: an older installation lacks commands and settings."""
    project = tomllib.loads((Path(_HERE).parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = metadata.distribution(project["name"]).entry_points
    declared = {(group, name, value) for group, rows in project["entry-points"].items() for name, value in rows.items()}
    if missing := declared - {(point.group, point.name, point.value) for point in installed}:
        command = f"{sys.executable} -m pip install -q --no-deps -e ."
        raise pytest.UsageError(f"entry points that are not installed: {min(missing)}. Install again: {command}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: nobody looks for garbage in it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def processes() -> None:
    """What a test uses, or a fixture of it, that starts processes; see stages.py."""


@pytest.fixture(scope="module", autouse=True)
def unchanged() -> Iterator[None]:
    """Fails a file that leaves changed what files share: on which worker it is with which others varies."""
    environ, folder = _read_environ(), Path.cwd()
    yield
    assert (_read_environ(), Path.cwd()) == (environ, folder), "a test has not undone its changes"
    assert find_changes() == [], "a test has changed what it should have copied"


def _read_environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_READ)}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def storage(clock: FakeClock) -> "Iterator[Storage]":
    from memory_mcp.storage.duckdb import open_storage

    opened = open_storage(None, "Europe/Berlin", clock)
    yield opened
    opened.close()


@pytest.fixture
def app(clock: FakeClock) -> "Iterator[App]":
    from memory_mcp.app import App
    from memory_mcp.config import Settings
    from memory_mcp.storage.settings import StorageSettings

    opened = App(Settings(storage=StorageSettings(timezone="Europe/Berlin")), clock, in_memory=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium; ended with the module, because other tests of the worker run event loops."""
    from tests.browser import launched

    with launched() as found:
        yield found


@pytest.fixture(scope="session")
def cluster() -> "Iterator[Cluster]":
    """One PostgreSQL for all tests of a process that do not stop it: making one takes a second."""
    from tests.postgres import Cluster, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed; Debian's package postgresql brings it")
    made = Cluster()
    yield made
    made.close()


@pytest.fixture(scope="session")
def database_url(cluster: "Cluster") -> str:
    """The address of an empty database of PostgreSQL, in which memories are tenants of their own."""
    return cluster.create()


ENGINES = ["duckdb", *(pytest.param(name, marks=pytest.mark.team) for name in extensions.names(extensions.STORAGE))]


@pytest.fixture(params=ENGINES)
def kept_in(request: pytest.FixtureRequest) -> "Iterator[Callable[[], StorageSettings]]":
    """Where memories of a test are kept: in each engine, every one in a place of its own."""
    from tests.toc.helpers import close_all

    yield _places(str(request.param), request)
    close_all()


@pytest.fixture(params=ENGINES)
def carried_to(request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    """As `kept_in`, for memories that are made of another one."""
    return _places(str(request.param), request)


def _places(engine: str, request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    from memory_mcp.storage.settings import StorageSettings

    url = request.getfixturevalue("database_url") if engine == "postgres" else ""
    return lambda: StorageSettings(timezone="Europe/Berlin", engine=engine, url=url, tenant=f"test-{next(_TENANTS)}")
