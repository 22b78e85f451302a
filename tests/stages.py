"""The stage of each test, by the folder it is in or a fixture that it uses, and what each stage cost.

1. A test of `pure` starts no process: one that does is named at the end of the run.
2. A folder of `_FOLDERS` holds no test of a later stage, so that it need not be read for one.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
#: In the order in which they begin: what waits for others comes first, so that no worker is left alone with it.
STAGES = ("team", "browser", "processes", "pure")
_FOLDERS = {"team": "team", "acceptance": "processes", "daemon": "processes", "packaging": "processes"}
_FIXTURES = {"cluster": "team", "browser": "browser", "processes": "processes"}
_STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"})

_STAGE = pytest.StashKey[str]()


def stage_of(item: pytest.Item) -> str:
    """Return the first stage that something the test uses is of; `pure` for none."""
    used = {_FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in _FIXTURES} | {_stage_of_folder(item.path)}
    # A fixture whose parameters are engines asks for the database only where it is that engine's turn.
    return "team" if item.get_closest_marker("team") else next((stage for stage in STAGES if stage in used), "pure")


def _stage_of_folder(path: Path) -> str:
    return _FOLDERS.get(path.relative_to(TESTS).parts[0], "pure") if path.is_relative_to(TESTS) and path != TESTS else "pure"


class Stages:
    """Chooses the tests of a run, watches what those of `pure` start, and counts seconds of a processor."""

    def __init__(self, config: pytest.Config) -> None:
        self._wanted: list[str] = config.getoption("stage") or [*STAGES]
        self._is_long = config.getoption("slow") or "slow" in (config.getoption("markexpr", default="") or "")
        #: The test of `pure` that runs, and what such tests have started.
        self._pure_test, self._started = "", dict[str, str]()
        #: Seconds and tests by stage; tests that were left to the long form by file.
        self._seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self._tests, self._left = Counter[str](), Counter[str]()
        sys.addaudithook(self._note_start)

    # which tests run

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        last = STAGES.index(_stage_of_folder(collection_path))
        return True if all(STAGES.index(stage) > last for stage in self._wanted) else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out other stages and, without --slow, the long form; begin with what waits."""
        sets, chosen, others = Counter[str](), list[pytest.Item](), list[pytest.Item]()
        for item in items:
            item.stash[_STAGE] = stage = stage_of(item)
            few = item.get_closest_marker("few")
            family = item.nodeid.partition("[")[0]
            sets[family] += 1
            is_left = item.get_closest_marker("slow") or (few and sets[family] > few.args[0])
            is_chosen = stage in self._wanted and (self._is_long or not is_left)
            self._left[item.nodeid.partition("::")[0]] += stage in self._wanted and not is_chosen
            (chosen if is_chosen else others).append(item)
        if others:
            config.hook.pytest_deselected(items=others)
        # Within a file the order is kept, as its tests may share what the first of them makes.
        turns: dict[Path, int] = {}
        for item in chosen:
            turns[item.path] = min(turns.get(item.path, len(STAGES)), STAGES.index(item.stash[_STAGE]))
        items[:] = sorted(chosen, key=lambda item: turns[item.path])

    # what they start and cost

    def _note_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._pure_test and event in _STARTS:
            self._started[self._pure_test] = f"{arguments[:2]!r:.150}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        stage, began = item.stash[_STAGE], _used_seconds()
        self._pure_test = item.nodeid if stage == "pure" else ""
        try:
            return (yield)
        finally:
            self._pure_test = ""
            self._seconds[stage] += _used_seconds() - began
            self._tests[stage] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        # What is shared may end now, by processes of its own.
        self._pure_test = ""

    # what is said at the end

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["stages"] = [self._seconds, dict(self._tests), dict(self._left), self._started]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker counted; each has left the same tests to the long form."""
        seconds, tests, left, started = getattr(node, "workeroutput", {}).get("stages", ({}, {}, {}, {}))
        for stage, used in seconds.items():
            self._seconds[stage] += used
        self._tests.update(tests)
        self._left |= Counter(left)
        self._started |= started

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if left := +self._left:
            terminalreporter.section("left to the long form")
            for path, count in sorted(left.items()):
                terminalreporter.write_line(f"{count:5} {path}")
            terminalreporter.write_line(f"{left.total()} tests, and ten times the examples of others: python -m tests --slow")
        if self._started:
            terminalreporter.section("tests of the stage `pure` that start processes: let them use the fixture `processes`")
            for test, command in sorted(self._started.items()):
                terminalreporter.write_line(f"{test}: {command}")
        terminalreporter.section("seconds of a processor, without background processes that outlive who started them")
        for stage in STAGES:
            if self._tests[stage]:
                terminalreporter.write_line(f"{self._seconds[stage]:7.0f} {stage:9} {self._tests[stage]:6} tests")


def _used_seconds() -> float:
    """Return what this process and those that it waited for have used."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system
