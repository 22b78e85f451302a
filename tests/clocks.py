"""Source of tests in; the places where it judges a clock out, read from the source, never run.

Invariants
1. What a clock gave stays a clock's: through names, containers, functions that return it and objects made of it.
2. Only an order is a judgement: a clock compared for equality, or looked up in a range of stamps, is none.
3. Tests marked slow are left out; so is `waiting.py`, whose patience is the one bound that the short form has.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MODULES = frozenset({"time", "timeit", "resource"})
_CLOCK = re.compile(r"(time|monotonic|perf_counter|process_time|thread_time|clock_gettime)(_ns)?|getrusage|default_timer|timeit")
#: What a program or a bench calls how long something took.
_DURATION = re.compile(r"seconds|took|taken|elapsed(_ms)?|search_time_ms|duration(_ms|_seconds)?|latency(_ms|_seconds)?")
#: What any module holds in which a clock may be judged: an import of one, or a duration by its name.
_HINT = re.compile(rf"^\s*(?:import|from)\b.*\b(?:time|timeit|resource|bench)\b|\bos\.times\b|\b(?:{_DURATION.pattern})\b", re.M)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ADDERS = frozenset({"append", "add", "extend", "insert", "setdefault"})


def judged(source: str) -> list[int]:
    """Return the lines of a test module on which a clock is put in an order with anything but zero."""
    if not _HINT.search(source):
        return []
    tree = ast.parse(source)
    module = _Module(_clocks(tree), _benches(tree))
    if any(_is_slow(mark) for mark in _pytestmarks(tree)):
        return []
    # What one function gives, another keeps: read until nothing new is learned.
    known = -1
    while known != len(module.timed):
        known = len(module.timed)
        for node in tree.body:
            module.learn(node, set())
    return sorted({line for node in tree.body for line in module.orders(node)})


def in_tree(root: Path) -> list[str]:
    """Return every such place below a folder, as file:line."""
    found = []
    for path in sorted(root.rglob("*.py")):
        if path.name != "waiting.py":
            found += [f"{path.relative_to(root).as_posix()}:{line}" for line in judged(path.read_text(encoding="utf-8"))]
    return found


@dataclass
class _Module:
    #: Names under which this module calls a clock.
    clocks: frozenset[str]
    #: Names of functions of the benches that measure.
    benches: frozenset[str]
    #: Functions and names of the module that give what a clock gave.
    timed: set[str] = field(default_factory=set)

    def learn(self, node: ast.AST, own: set[str]) -> set[str]:
        """Collect the names that hold a clock's value inside a statement of the module; `own` are those already known."""
        if isinstance(node, _FUNCTION):
            own = self._inside(node, set(own))
            self.timed |= self._given(node, own)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                self.learn(inner, own)
        else:
            self.timed |= self._bound(node, set())
        return own

    def orders(self, node: ast.AST) -> Iterator[int]:
        """Lines of a statement of the module on which a clock is put in an order."""
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from self.orders(inner)
            return
        if isinstance(node, _FUNCTION) and any(_is_slow(mark) for mark in node.decorator_list):
            return
        compared = [n for n in ast.walk(node) if isinstance(n, ast.Compare) and any(isinstance(op, _ORDER) for op in n.ops)]
        own = self.learn(node, set()) if compared else set()
        for one in compared:
            sides = [one.left, *one.comparators]
            timed = [self._tells(side, own) or _is_duration(side) for side in sides]
            rest = [side for side, of_clock in zip(sides, timed, strict=True) if not of_clock]
            if any(timed) and not (rest and all(_is_zero(side) for side in rest)):
                yield one.lineno

    def _inside(self, function: ast.AST, own: set[str]) -> set[str]:
        known, nodes = -1, list(ast.walk(function))
        while known != len(own):
            known = len(own)
            for node in nodes:
                own |= self._given(node, own) if isinstance(node, _FUNCTION) and node is not function else self._bound(node, own)
        return own

    def _given(self, function: ast.FunctionDef | ast.AsyncFunctionDef, own: set[str]) -> set[str]:
        """The function's name if what it returns is a clock's value."""
        given = (n.value for n in ast.walk(function) if isinstance(n, ast.Return | ast.Yield) and n.value is not None)
        return {function.name} if any(self._tells(value, own) for value in given) else set()

    def _bound(self, node: ast.AST, own: set[str]) -> set[str]:
        """Names to which one node gives a clock's value."""
        match node:
            case ast.Assign(targets=targets, value=value):
                return _names(*targets) if self._tells(value, own) else set()
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                return _names(target) if self._tells(value, own) else set()
            case ast.NamedExpr(target=target, value=value) | ast.For(target=target, iter=value):
                return _names(target) if self._tells(value, own) else set()
            case ast.comprehension(target=target, iter=value):
                return _names(target) if self._tells(value, own) else set()
            case ast.Call(func=ast.Attribute(attr=adds, value=holder), args=arguments) if adds in _ADDERS:
                return _names(holder) if any(self._tells(a, own) for a in arguments) else set()
        return set()

    def _tells(self, value: ast.AST, own: set[str]) -> bool:
        return any(self._gives(node, own) for node in ast.walk(value))

    def _gives(self, node: ast.AST, own: set[str]) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if module in _MODULES:
                return bool(_CLOCK.fullmatch(name))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="times")):
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in self.clocks | self.benches | self.timed
            case ast.Name(id=name, ctx=ast.Load()):
                return name in own or name in self.timed
        return False


def _clocks(tree: ast.Module) -> frozenset[str]:
    """Names under which clocks were imported one by one."""
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module in _MODULES)
    return frozenset(a.asname or a.name for n in imports for a in n.names if _CLOCK.fullmatch(a.name))


def _benches(tree: ast.Module) -> frozenset[str]:
    """Names of measuring functions that were imported from the benches."""
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").partition(".")[0] == "bench")
    return frozenset(a.asname or a.name for n in imports for a in n.names if a.name == "measure")


def _names(*targets: ast.expr) -> set[str]:
    """Variables that are bound, or whose parts are."""
    return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)} - {"self"}


def _is_duration(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return bool(_DURATION.fullmatch(name))
    return False


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_slow(mark: ast.AST) -> bool:
    """Whether a decorator, or one of the marks of a module, is the mark itself; a parameter that carries it is not."""
    marks = mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark]
    return any(ast.unparse(one.func if isinstance(one, ast.Call) else one) == "pytest.mark.slow" for one in marks)


def _pytestmarks(tree: ast.Module) -> Iterator[ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            yield node.value
