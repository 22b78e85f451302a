"""What every part of the tree shares; kept light, because each folder that needs more has a conftest of its own."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

# A test that wants the background process says so; all others open the store themselves.
os.environ["MEMORY_MCP_SERVER__DAEMON"] = "false"
# Likewise for the indexes, which a server builds in the background: most tests are about what works without them.
os.environ["MEMORY_MCP_TELEPORT__ENABLED"] = "false"
# The processes that tests start share compiled modules; without them each spends a third of its time compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests.examples import CI
from tests.fakes import FakeClock

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.settings import StorageSettings

pytest.register_assert_rewrite("tests.storage.suite", "tests.indexes.helpers")

#: Tenants of the database that tests share.
_TENANTS = itertools.count(1)
LONG_FORM = "a long form: run with --slow"

# The same examples in every run: a failure on one machine is a failure on all. `--slow` looks further.
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=CI, **_COMMON)
hypothesis.settings.register_profile("nightly", max_examples=10 * CI, **_COMMON)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", type=Path, help="folder with other people's data, for the tests that measure on it")
    parser.addoption("--slow", action="store_true", help="also run the long forms, with random examples")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("nightly" if config.getoption("--slow", default=False) else "ci")


#: Files that took a processor 25 seconds and more, longest first, and folders whose tests start processes: they begin first, so
#: that no worker is left alone with one.
LONGEST = (
    *("daemon/test_backup.py", "acceptance/test_field_forgotten.py", "acceptance/test_forget.py", "daemon/test_carry.py"),
    *("acceptance/test_field.py", "interaction/test_promises.py", "acceptance/test_kill.py", "acceptance/test_forget_kinds.py"),
    *("acceptance/test_load.py", "interaction/test_themes.py", "acceptance/test_mistakes.py", "acceptance/test_policy_table.py"),
    *("acceptance/test_hook.py", "interaction/test_teleport.py", "interaction/test_writes.py"),
)
_FIRST = ("acceptance", "daemon")


def _turn(item: pytest.Item) -> tuple[int, bool]:
    name = f"{item.path.parent.name}/{item.path.name}"
    return LONGEST.index(name) if name in LONGEST else len(LONGEST), item.path.parent.name not in _FIRST


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    if config.getoption("--slow", default=False) or "slow" in (config.getoption("markexpr", default="") or ""):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason=LONG_FORM))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left to the long form, and how to run it."""
    reports = terminalreporter.stats.get("skipped", [])
    left = Counter(r.nodeid.partition("::")[0] for r in reports if isinstance(r.longrepr, tuple) and LONG_FORM in r.longrepr[2])
    if left:
        terminalreporter.section("left to the long form")
        for path, count in sorted(left.items()):
            terminalreporter.write_line(f"{count:4} {path}")
        terminalreporter.write_line(f"{left.total()} tests, and ten times the examples of the others: python -m tests --slow")


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


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """The address of an empty database of PostgreSQL, in which memories are tenants of their own."""
    from tests.postgres import Cluster, programs

    if programs() is None:
        pytest.skip("PostgreSQL is not installed; Debian's package postgresql brings it")
    cluster = Cluster()
    yield cluster.create()
    cluster.close()


@pytest.fixture(params=["duckdb", "postgres"])
def kept_in(request: pytest.FixtureRequest) -> "Iterator[Callable[[], StorageSettings]]":
    """Where memories of a test are kept: in each engine, every one in a place of its own."""
    from tests.toc.helpers import close_all

    yield _places(str(request.param), request)
    close_all()


@pytest.fixture(params=["duckdb", "postgres"])
def carried_to(request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    """As `kept_in`, for memories that are made of another one."""
    return _places(str(request.param), request)


def _places(engine: str, request: pytest.FixtureRequest) -> "Callable[[], StorageSettings]":
    from memory_mcp.storage.settings import StorageSettings

    url = request.getfixturevalue("database") if engine == "postgres" else ""
    return lambda: StorageSettings(timezone="Europe/Berlin", engine=engine, url=url, tenant=f"test-{next(_TENANTS)}")
