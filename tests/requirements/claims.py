"""A tree of tests goes in; what its tests claim to prove comes out, read from source, never run.

Invariants
1. The answer does not depend on which tests a run selects.
2. Only a test that can pass proves anything: a mark beside a skip or an xfail is read, and does not
   count; nor does one in a suite that nobody imports, or in a module without tests.
3. A mark that has no effect or cannot be read is a problem, never passed over.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: the module that talks about marks, and claims nothing itself
ABOUT_MARKS = "test_requirements.py"
MARKS = frozenset({"requirement", "requirements.requirement", "pytest.mark.requirement"})
OFF = frozenset({"pytest.mark.skip", "pytest.mark.xfail"})


@dataclass(frozen=True, slots=True)
class Claim:
    """One id in one mark."""

    id: str
    #: file and line
    where: str
    #: whether a test that can pass stands behind it
    counts: bool


@dataclass(slots=True)
class Reading:
    """What some tests claim, and the marks that mean nothing."""

    claims: list[Claim] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_tree(root: Path) -> Reading:
    """Read every test module and suite below a folder that is a package of tests."""
    reading = Reading()
    sources = {path: path.read_bytes() for path in sorted(root.rglob("*.py"))}
    # All others hold no mark and import no suite.
    trees = {path: ast.parse(source) for path, source in sources.items() if b"requirement" in source or b"suite" in source}
    imported = {name for tree in trees.values() for name in _imports(tree)}
    for path, tree in trees.items():
        if path.name == ABOUT_MARKS or not _may_hold_tests(path):
            continue
        name = path.relative_to(root.parent)
        module = _Module(name.as_posix(), reading)
        if not any(_is_test(node) for node in ast.walk(tree)):
            module.idle = "the module has no test"
        elif path.name == "suite.py" and ".".join(name.with_suffix("").parts) not in imported:
            module.idle = "no module imports this suite"
        module.read(tree.body, off=False)
    return reading


@dataclass(slots=True)
class _Module:
    """One module being read; `idle` says why none of its tests is collected."""

    name: str
    reading: Reading
    idle: str = ""

    def read(self, body: Sequence[ast.stmt], *, off: bool) -> None:
        """Read the statements of a module or a class; `off` when its tests are switched off."""
        off = off or any(_is_off(mark) for mark in _pytestmarks(body))
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._read_function(node, off=off)
            elif isinstance(node, ast.ClassDef) and not self._collects(node):
                self._refuse([node], f"{node.name} is not collected")
            elif isinstance(node, ast.ClassDef):
                off_here = off or any(_is_off(mark) for mark in node.decorator_list)
                self._take(node.decorator_list, off=off_here)
                self.read(node.body, off=off_here)
            else:
                self._take([node], off=off)

    def _read_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, *, off: bool) -> None:
        if _is_test(node):
            off = off or any(_is_off(mark) for mark in node.decorator_list)
            self._take(node.decorator_list, off=off)
        else:
            self._refuse(node.decorator_list, f"{node.name} is no test")
        self._refuse(node.body, "inside a function a mark marks nothing")

    def _take(self, nodes: Iterable[ast.AST], *, off: bool) -> None:
        for mark, mark_off in _marks(nodes, off=off):
            if self.idle:
                self._refuse([mark], self.idle)
            if not mark.args or mark.keywords:
                self._refuse([mark], "a mark takes at least one id, and nothing but ids")
            for arg in mark.args:
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                    counts = not (mark_off or self.idle)
                    self.reading.claims.append(Claim(arg.value, self._where(mark), counts))
                else:
                    self._refuse([mark], "an id is written as a literal string")

    def _refuse(self, nodes: Iterable[ast.AST], reason: str) -> None:
        for mark, _ in _marks(nodes, off=False):
            self.reading.problems.append(f"{self._where(mark)}: {reason}")

    def _collects(self, node: ast.ClassDef) -> bool:
        """Whether pytest takes the class; one in a suite is for a test module to inherit."""
        return node.name.startswith("Test") or self.name.endswith("/suite.py")

    def _where(self, mark: ast.Call) -> str:
        return f"{self.name}:{mark.lineno}"


def _marks(nodes: Iterable[ast.AST], *, off: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Find the marks in some code, each with whether the test it stands for is switched off."""
    for node in nodes:
        off_here = off
        if isinstance(node, ast.Call):
            # Spelling every call out would take most of the time.
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            called = ast.unparse(node.func) if last in ("requirement", "param") else ""
            if called in MARKS:
                yield node, off
                continue
            if called == "pytest.param":
                off_here = off or any(_is_off(part) for part in ast.walk(node))
        yield from _marks(ast.iter_child_nodes(node), off=off_here)


def _pytestmarks(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in targets):
            value = node.value
            if isinstance(value, ast.List | ast.Tuple):
                yield from value.elts
            elif value is not None:
                yield value


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _may_hold_tests(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "suite.py"


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _is_off(node: ast.AST) -> bool:
    name = node.func if isinstance(node, ast.Call) else node
    return isinstance(name, ast.Attribute) and ast.unparse(name) in OFF
