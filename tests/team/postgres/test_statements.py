"""Every statement on a table of memories says whose rows it is about, whatever row-level security would leave of them.

The statements are read from the source: constants, and f-strings put together as the module would. A statement names tenant and
space once for each table it names.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import memory_mcp_team.postgres as room
from memory_mcp_team.postgres import connection
from tests.team.postgres.bound import NAMED, unbound

#: What stands for a part of an f-string that only the running program knows.
_OTHER = "other"
_BOTH = "e.tenant = %(tenant)s AND e.space = %(space)s"
_VERB = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|COPY|TRUNCATE)\b")
#: Statements whose condition only the running program knows: `test_engine.py` looks at them as they are run.
_COMPOSED = re.compile(rf"\bWHERE {_OTHER}\b")


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(room.__path__):
        yield importlib.import_module(f"{room.__name__}.{found.name}")


def statements(module: ModuleType) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a module that is a statement or the beginning of one."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.BinOp) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.BinOp)
    }
    seen: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inside or id(node) in seen or not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            continue
        seen |= {id(part) for part in ast.walk(node)}
        if (text := _text(node, module)) is not None and _VERB.search(text):
            yield node.lineno, " ".join(text.split())


def _text(node: ast.expr, module: ModuleType) -> str | None:
    """What an expression of strings comes to, as far as the module's own constants tell; None for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, module) or _OTHER for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, module)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, module), _text(node.right, module)
        return None if left is None and right is None else (left or _OTHER) + (right or _OTHER)
    if isinstance(node, ast.Name):
        found = getattr(module, node.id, None)
        return found if isinstance(found, str) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "own":
        alias = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
        return connection.own(str(alias))
    return None


def test_every_statement_on_a_memorys_table_names_tenant_and_space() -> None:
    loose = [
        f"{module.__name__}:{line}: {text}"
        for module in modules()
        for line, text in statements(module)
        if unbound(text) and not _COMPOSED.search(text)
    ]
    assert loose == []


def test_the_statements_are_found() -> None:
    """As many as there are modules that speak of tables: a reader that finds none would find nothing wrong."""
    found = {module.__name__.rpartition(".")[2] for module in modules() for _, text in statements(module) if NAMED.search(text)}
    assert {"events", "toc", "records", "outbox", "store"} <= found


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("SELECT text FROM event WHERE event_id = %(id)s", True),
        ("SELECT text FROM event WHERE tenant = %(tenant)s AND event_id = %(id)s", True),
        (f"SELECT 1 FROM event e JOIN grip g ON g.event_start = e.event_id WHERE {_BOTH}", True),
        ("DELETE FROM outbox WHERE seq < %(seq)s", True),
        ("UPDATE node SET current = false WHERE key = %(key)s", True),
        ("INSERT INTO alias (old, new) VALUES (%(old)s, %(new)s)", True),
        ("DELETE FROM alias USING node WHERE alias.tenant = %(tenant)s AND alias.space = %(space)s", True),
        ("SELECT text FROM event WHERE tenant = %(tenant)s AND space = %(space)s AND event_id = %(id)s", False),
        (f"SELECT 1 FROM event e JOIN grip g USING (tenant, space) WHERE {_BOTH}", False),
        ("INSERT INTO alias (tenant, space, old, new) VALUES (%(tenant)s, %(space)s, %(old)s, %(new)s)", False),
        ("SELECT name FROM tenant WHERE name = %s", False),
    ],
)
def test_a_statement_that_leaves_it_open_is_found_and_one_that_names_both_passes(text: str, is_open: bool) -> None:
    assert bool(unbound(text)) is is_open
