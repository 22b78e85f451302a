"""Counts of the source and its tests beside those of projects that read well, whose wheels are fetched from the package index.

    python tools/counts.py [--alone] [--json]
    python tools/counts.py --sample 30 --seed 1

The second form prints functions drawn by chance, each with its signature and docstring and without its body, for somebody
who has not seen the code: who can say of each what it takes, does and gives has understood it. The numbers of lines let
another look up whether that is so.

Nothing here is a verdict: a helper that is used once may be worth its name. The counts show where to look.
"""

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Distributions to compare with, and the package of each.
ANCHORS = {
    "starlette": "starlette",
    "httpx": "httpx",
    "procrastinate": "procrastinate",
    "svcs": "svcs",
    "datasette": "datasette",
    "sqlite-utils": "sqlite_utils",
    "llm": "llm",
    "import-linter": "importlinter",
    "mcp": "mcp",
}
#: A function above so many lines is long.
LONG_FUNCTION = 40
#: Names of variables that say nothing of what they hold.
VAGUE_NAMES = frozenset(
    "told given found asked own held kept made place wanted said seen left taken shown named known here there one both whole"
    " others rest each again anew around beside apart before behind".split()
)
_PARTICIPLE = re.compile(
    r"_?(?:[a-z]+ed|told|shown|kept|held|made|found|said|given|taken|put|read|known|seen|cut|left|sent|hidden|chosen|drawn|lost|set)"
)
_ARRAY = re.compile(r"\b(?:ndarray|NDArray|ArrayLike|Array|Vectors?|Hashes|Ints|Floats|Small|Words)\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Counts:
    """What is counted of one tree of Python files; rates are per 1,000 lines of code, shares in percent."""

    name: str
    #: Lines that are neither blank nor comments nor docstrings.
    code: int = 0
    lines: int = 0
    modules: int = 0
    longest_module: int = 0
    functions: int = 0
    long_functions: int = 0
    #: Functions and methods with a leading underscore that are no special methods.
    private_helpers_per_1000: float = 0.0
    #: Of those, how many are named at one place of their module only, beside their definition.
    private_used_once_percent: float = 0.0
    lambdas_per_1000: float = 0.0
    #: Of public functions, methods and classes.
    with_docstring_percent: float = 0.0
    #: Public functions with a raise of their own, and how many of their docstrings name an error.
    raising: int = 0
    raising_documented: int = 0
    #: Public functions with an array among their parameters, and how many of their docstrings name a shape.
    with_arrays: int = 0
    arrays_with_shape: int = 0


@dataclass(frozen=True, slots=True)
class NameCounts:
    """How plainly a folder names things; shares in percent."""

    vague_variables: float
    participle_functions: float
    one_word_functions: float
    #: Words of the first line of a docstring, median and 90th percentile.
    docstring_median: int
    docstring_p90: int


def count_names(folder: Path) -> NameCounts:
    """Count the names of variables and functions and the first lines of docstrings below a folder."""
    functions: list[str] = []
    variables: list[str] = []
    first_lines: list[int] = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg):
                variables.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                variables.append(node.id)
            elif isinstance(node, _FUNCTIONS):
                functions.append(node.name)
                if docstring := ast.get_docstring(node):
                    first_lines.append(len(docstring.strip().partition("\n")[0].split()))
    plain_functions = [name for name in functions if not name.startswith("__")]
    first_lines.sort()
    return NameCounts(
        vague_variables=_percent(sum(name in VAGUE_NAMES for name in variables), len(variables)),
        participle_functions=_percent(sum(bool(_PARTICIPLE.fullmatch(name)) for name in functions), len(functions)),
        one_word_functions=_percent(sum("_" not in name.strip("_") for name in plain_functions), len(plain_functions)),
        docstring_median=first_lines[len(first_lines) // 2] if first_lines else 0,
        docstring_p90=first_lines[int(0.9 * len(first_lines))] if first_lines else 0,
    )


def _percent(number: int, of: int) -> float:
    return 100 * number / max(of, 1)


def count(name: str, folder: Path) -> Counts:
    """Count the Python files below a folder."""
    counts, helpers, once, lambdas, documented, public = Counts(name), 0, 0, 0, 0, 0
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        tree = ast.parse(text)
        lines = text.count("\n")
        counts.lines, counts.modules = counts.lines + lines, counts.modules + 1
        counts.longest_module = max(counts.longest_module, lines)
        counts.code += code_lines(text, tree)
        private, uses = Counter[str](), Counter[str]()
        for node in ast.walk(tree):
            lambdas += isinstance(node, ast.Lambda)
            uses.update(named(node))
            if isinstance(node, _FUNCTIONS):
                counts.functions += 1
                counts.long_functions += length(node) > LONG_FUNCTION
                if node.name.startswith("_") and not node.name.endswith("__"):
                    private[node.name] += 1
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
                public += 1
                documented += ast.get_docstring(node) is not None
            if isinstance(node, _FUNCTIONS) and not node.name.startswith("_"):
                add_promises(counts, node)
        helpers += private.total()
        once += sum(number for helper, number in private.items() if uses[helper] <= number)
    thousands = max(counts.code, 1) / 1000
    counts.private_helpers_per_1000 = helpers / thousands
    counts.private_used_once_percent = 100 * once / max(helpers, 1)
    counts.lambdas_per_1000 = lambdas / thousands
    counts.with_docstring_percent = 100 * documented / max(public, 1)
    return counts


def code_lines(text: str, tree: ast.Module) -> int:
    """Return how many lines are neither blank, nor a comment alone, nor part of a docstring."""
    quoted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            quoted.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in quoted
        for number, line in enumerate(text.splitlines(), 1)
    )


def length(node: Function) -> int:
    """Return the lines of a function from its `def` to its end."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def named(node: ast.AST) -> Iterator[str]:
    """Yield the name that a node uses."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr


def add_promises(counts: Counts, node: Function) -> None:
    """Count whether a public function raises or takes arrays, and whether its docstring says so."""
    told = ast.get_docstring(node) or ""
    if any(isinstance(inner, ast.Raise) and inner.exc is not None for inner in ast.walk(node)):
        counts.raising += 1
        counts.raising_documented += "raise" in told.lower() or any(word in told for word in raised(node))
    given = [argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs) if argument.annotation]
    if any(_ARRAY.search(ast.unparse(annotation)) for annotation in given):
        counts.with_arrays += 1
        counts.arrays_with_shape += "(" in told or "shape" in told.lower() or " x " in told


def raised(node: Function) -> set[str]:
    """Return the names of the errors that a function raises itself."""
    errors = (inner.exc for inner in ast.walk(node) if isinstance(inner, ast.Raise))
    called = (error.func if isinstance(error, ast.Call) else error for error in errors)
    return {error.id for error in called if isinstance(error, ast.Name)}


def private_uses(tests: Path) -> int:
    """Return how often tests read an attribute with a leading underscore of anything but self."""
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for path in tests.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def anchors() -> Iterator[Counts]:
    """Yield the counts of every project to compare with."""
    with tempfile.TemporaryDirectory() as folder:
        fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder]
        subprocess.run([*fetch, *ANCHORS], check=True)
        for wheel in Path(folder).glob("*.whl"):
            name = wheel.name.partition("-")[0].replace("_", "-")
            with zipfile.ZipFile(wheel) as opened:
                opened.extractall(Path(folder) / name)
            yield count(name, Path(folder) / name / ANCHORS[name])


def table(rows: Sequence[Counts]) -> str:
    """Return the counts as a table with a column for each project."""
    lines = []
    for item in fields(Counts):
        values = [getattr(row, item.name) for row in rows]
        cells = [
            f"{value:.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value for value in values
        ]
        lines.append(f"{item.name.replace('_', ' '):<28}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def sample(folder: Path, number: int, seed: int) -> Iterator[str]:
    """Yield functions drawn by chance from the Python files below a folder, without their bodies."""
    found = [
        (path, owner.name + "." if isinstance(owner, ast.ClassDef) else "", node)
        for path in sorted(folder.rglob("*.py"))
        for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in ast.iter_child_nodes(owner)
        if isinstance(node, _FUNCTIONS) and not node.name.endswith("__")
    ]
    for path, owner, node in random.Random(seed).sample(found, number):
        told = ast.get_docstring(node) or "(no docstring)"
        returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        place = f"{path.relative_to(folder.parent).as_posix()}:{node.lineno}"
        yield f"{place}\n    {owner}{node.name}({ast.unparse(node.args)}){returned}\n    " + told.replace("\n", "\n    ")


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", action="store_true", help="fetch nothing: this project alone")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sample", type=int, metavar="N", help="print N functions drawn by chance instead")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.sample:
        print("\n\n".join(sample(ROOT / "src" / "memory_mcp", arguments.sample, arguments.seed)))
        return
    rows = [count("memory-mcp", ROOT / "src" / "memory_mcp"), count("its tests", ROOT / "tests")]
    root_modules = len(list((ROOT / "src" / "memory_mcp").glob("*.py")))
    private = private_uses(ROOT / "tests")
    if not arguments.alone:
        rows += sorted(anchors(), key=lambda row: row.name)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "root_modules": root_modules, "private_uses_in_tests": private}))
    else:
        print(table(rows))
        print(f"\nmodules at the root: {root_modules}; private attributes used in tests: {private}")


if __name__ == "__main__":
    main()
