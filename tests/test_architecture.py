"""The shape of the program: who may import whom, how large anything may get, and what loads when."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import clocks
from tests.requirements import requirement
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "src" / "memory_mcp", ROOT / "src" / "memory_mcp_team")
MODULE_LINES, FUNCTION_LINES = 400, 40
#: Modules and functions that may be larger: name to ceiling and reason. An exception that could be lowered fails.
LARGER: dict[str, tuple[int, str]] = {}


def python(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# imports


@requirement("contract:planes-separated")
@pytest.mark.usefixtures("processes")
def test_every_import_contract_holds() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


UNNEEDED = {
    "memory_mcp": "duckdb mcp pydantic numpy anyio memory_mcp.app",
    "memory_mcp.base.errors": "duckdb mcp pydantic numpy anyio",
    "memory_mcp.config": "duckdb mcp pydantic numpy anyio",
    "memory_mcp.storage.registry": "duckdb mcp pydantic numpy",
    "memory_mcp.app": "duckdb mcp pydantic numpy anyio detect_secrets",
    "memory_mcp.cli.main": "duckdb mcp pydantic anyio detect_secrets rich",
    # A command is asked only if the summarizer names one.
    "memory_mcp.upkeep.jobs.registry": "http.client ssl memory_mcp.tree.llm.command",
    "memory_mcp.search.layers.agentic.navigate": "duckdb mcp pydantic anyio bm25s usearch model2vec numba",
    "memory_mcp.storage.duckdb": "mcp pydantic anyio",
    # A command is answered without the protocol.
    "memory_mcp.service.daemon.methods": "mcp pydantic starlette uvicorn",
    "memory_mcp.service.daemon.socket": "mcp pydantic starlette uvicorn",
}


@pytest.mark.usefixtures("processes")
def test_importing_a_room_loads_no_engine_it_does_not_need() -> None:
    """Nor one of those above it, which the same interpreter has imported before."""
    steps = "".join(f"import {module}; print(*sys.modules)\n" for module in UNNEEDED)
    loaded = [line.split() for line in python(f"import sys\n{steps}").splitlines()]
    for (module, absent), names in zip(UNNEEDED.items(), loaded, strict=True):
        assert module in names
        assert [name for name in absent.split() if name in names] == [], module


# size


def modules() -> Iterator[tuple[str, str]]:
    """The name and the text of every module, named from the core's folder on, or from `src` on in the package for teams."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            if "samples" not in path.parts:
                name = path.relative_to(package if package == PACKAGES[0] else package.parent)
                yield name.as_posix(), path.read_text(encoding="utf-8")


#: Words of the package for teams, and where the core may use them.
TEAM_WORDS = frozenset("team teams tenant tenants postgres postgresql psycopg principal principals replica replicas".split())
TEAM_WORD_USERS = {
    "base/extensions.py": "errors name the extra that adds a command, a section or an engine",
    "storage/settings.py": "the section storage has the address and the tenant of an engine that another package adds",
    "storage/opening.py": "an engine is opened with what the section storage says",
}
#: Packages that speak of the words of users' texts and of other programs' files.
OF_TEXTS = ("importers/", "question/", "redact/secret_", "tree/summarize/")


def test_the_core_names_nothing_of_the_package_for_teams() -> None:
    """In names, strings and comments: what that package needs it adds by entry points (`base/extensions.py`)."""
    users = set()
    for name, source in modules():
        if not name.startswith((f"{PACKAGES[1].name}/", *OF_TEXTS)):
            words = {word.lower() for text in re.findall("[A-Za-z]+", source) for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", text)}
            users |= {name} if words & TEAM_WORDS else set()
    assert users == set(TEAM_WORD_USERS)


@cache
def sizes() -> dict[str, tuple[int, int]]:
    """Lines of every module and function, and the lines allowed."""
    found: dict[str, tuple[int, int]] = {}
    for name, source in modules():
        found[name] = (len(source.splitlines()), MODULE_LINES)
        for node, qualified in functions(ast.parse(source), name):
            assert node.end_lineno is not None
            found[qualified] = (node.end_lineno - node.lineno + 1, FUNCTION_LINES)
    return found


def functions(tree: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    # No expression holds one.
    for node in (node for node in ast.iter_child_nodes(tree) if not isinstance(node, ast.expr)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, f"{prefix}:{node.name}"
        name = f"{prefix}:{node.name}" if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else prefix
        yield from functions(node, name)


def test_modules_and_functions_stay_small() -> None:
    too_large = {n: lines for n, (lines, allowed) in sizes().items() if lines > LARGER.get(n, (allowed, ""))[0]}
    assert too_large == {}


def test_an_exception_is_no_larger_than_it_must_be_and_has_a_reason() -> None:
    measured = sizes()
    assert {n: ceiling for n, (ceiling, _) in LARGER.items() if n not in measured or measured[n][0] < ceiling} == {}
    assert [n for n, (ceiling, _) in LARGER.items() if ceiling <= measured[n][1]] == []
    assert all(len(reason.split()) >= 5 for _, reason in LARGER.values())


def test_every_failpoint_that_is_named_is_visited_and_every_visit_is_named() -> None:
    from memory_mcp.base.failpoints import FAILPOINTS

    visited = dict[str, str]()
    for name, source in modules():
        for node in ast.walk(ast.parse(source)) if "failpoint(" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "failpoint" and name != "failpoints.py":
                assert isinstance(node.args[0], ast.Constant), f"{name}: a failpoint is named by a literal"
                visited[str(node.args[0].value)] = name
    # Another package declares its own when it is loaded.
    assert {name for name, module in visited.items() if not module.startswith(f"{PACKAGES[1].name}/")} <= set(FAILPOINTS)
    assert set(FAILPOINTS) <= visited.keys()


def test_a_failpoint_that_is_not_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.base import failpoints

    failpoints.failpoint("no such point")
    monkeypatch.setenv(failpoints.VARIABLE, "another")
    with pytest.raises(KeyError):
        failpoints.failpoint("no such point")
    failpoints.failpoint("events.committed")


# the tests

JUDGES = {
    "a name": "began = time.monotonic()\n    work()\n    assert time.monotonic() - began < 1",
    "a difference kept": "began = time.perf_counter()\n    work()\n    took = perf_counter() - began\n    assert took <= 0.2",
    "a list": "spent = []\n    spent.append(time.thread_time())\n    assert min(spent) < 0.000_2",
    "a rate": "began = time.process_time()\n    work()\n    assert 500 / (time.process_time() - began) >= 8_000",
    "a loop": "end = time.monotonic() + 5\n    while not work():\n        assert time.monotonic() < end",
    "a function": "assert clocked() < 5",
    "a function inside, that something else calls": (
        "def inner():\n        return time.monotonic()\n    whole = work(inner)\n    assert whole < 5"
    ),
    "a comprehension": "figures = [perf_counter()]\n    assert [f for f in figures if f < 3] == []",
    "an object": "done = Ran(work(), clocked())\n    assert done.whole < 0.4",
    "a clock by its own name": "assert perf_counter() < 5",
    "a bench": "assert measure(1).p99 < 20",
    "what the program says": "assert work()['search_time_ms'] < 100",
    "what a bench says": "assert work().seconds < 60",
}
FINE = {
    "an equality": "assert clocked() == clocked()",
    "stamps": "before = time.time_ns()\n    assert work() in range(before, time.time_ns())",
    "that it is told": "assert work()['search_time_ms'] > 0",
    "something else": "began = time.monotonic()\n    assert work(began) is not None\n    assert 1 < 2",
}
AROUND = """
import time
from time import perf_counter
from bench.lag import measure
def clocked():
    began = time.monotonic()
    return time.monotonic() - began
{mark}
def test_it():
    {body}
"""


def test_no_test_of_the_short_form_judges_a_clock() -> None:
    """A slower machine is no defect: work is counted, waits are patient, and times are judged by the benches."""
    assert clocks.in_tree(ROOT / "tests") == []


@pytest.mark.parametrize("body", JUDGES.values(), ids=JUDGES)
def test_a_clock_that_is_judged_is_found_unless_the_test_is_slow(body: str) -> None:
    assert len(clocks.judged(AROUND.format(mark="", body=body))) == 1
    assert clocks.judged(AROUND.format(mark="@pytest.mark.slow", body=body)) == []
    assert clocks.judged("pytestmark = [needs_proc, pytest.mark.slow]" + AROUND.format(mark="", body=body)) == []


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_a_clock_that_is_only_looked_at_is_no_judge(body: str) -> None:
    assert clocks.judged(AROUND.format(mark="", body=body)) == []


WALK = re.compile(r"(?<![A-Z_])\.rglob\(|\bos\.walk\(")
#: Folders of tests beside whose processes nobody walks by himself.
BESIDE_PROCESSES = ("acceptance", "daemon", "forgetting", "share", "team", "web")
#: Modules that walk by themselves: other programs' folders, of which what cannot be listed is counted, and one's own.
WALKERS = {"base/machine.py", "indexes/files.py", "importers/client_importer.py", "importers/markdown/reader.py"}


def test_a_folder_in_which_others_work_is_walked_by_what_lets_files_come_and_go() -> None:
    """`machine.iter_files` in the package, `tests.files` in tests; a test's constant is a folder that stays as it is."""
    assert {name for name, source in modules() if WALK.search(source)} <= WALKERS
    tests = (path for folder in BESIDE_PROCESSES for path in sorted((ROOT / "tests" / folder).rglob("*.py")))
    assert [path.name for path in tests if WALK.search(path.read_text(encoding="utf-8"))] == []


# without any index engine

WORK = """
import json, sys
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import Budget
from memory_mcp.search.policy.plan import detect_tier
from tests.factories import a_small_history
from tests.fakes import FakeClock
app = App(Settings(storage=StorageSettings(sys.argv[1], "Europe/Berlin")), FakeClock())
app.write(a_small_history(1), "test")
app.derivation.run()
told = {"tree": [(n.node_id, n.title, [b.text for b in n.bullets]) for n in app.storage.toc.iter_nodes()], "answers": []}
for text in ("idempotency key", "what did we decide on 2026-01-21", "VAT Norway", "nothing like it"):
    answer = app.ask(Query(text, 5))
    told["answers"].append([(h.node_id, h.quote, h.grip_ids, h.score) for h in answer.hits])
    told["path"] = [(s.label, s.decision) for s in answer.why.path]
    told["tier"] = [answer.why.tier, answer.why.method]
told["children"] = [r.node.node_id for r in app.agentic.nodes.search_children("toc:root", "queue", None, None, 5, None).results]
app.close()
print(json.dumps(told, default=str))
"""
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"bm25s", "usearch", "model2vec", "numba"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
for name in ("bm25s", "usearch", "model2vec", "numba"):
    try:
        __import__(name)
    except ImportError as error:
        assert "blocked" in str(error)
    else:
        raise AssertionError(name)
"""


@requirement("plan:success-no-index", "contract:philosophy-indexes-optional", "bm25:optional", "contract:toc-always-works")
@pytest.mark.usefixtures("processes")
def test_with_every_index_engine_blocked_the_memory_starts_navigates_and_answers_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = json.loads(python(BLOCKED + WORK, str(tmp_path / "blocked")))
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "plain")])
    exec(WORK, {})
    told = json.loads(capsys.readouterr().out)
    assert blocked == told
    assert told["tier"] == [5, "agentic"]
    assert all(told["answers"][:3])
    assert told["answers"][3] == []
    assert told["tree"]
    assert told["children"]
