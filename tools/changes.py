"""Writes src/README.md, where each kind of change belongs, from the lines `Change here: ...` of module docstrings.

    python tools/changes.py [--check]

With --check nothing is written; the exit status is 1 if the page is not what it would be.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "README.md"
MARK = "Change here: "
_HEAD = """# Where a change belongs

Made by `python tools/changes.py` from the lines `Change here: ...` that modules carry in their docstrings. Each package's
README has the recipe of its usual change.

| To change | Open |
|---|---|
"""


def iter_changes() -> Iterator[tuple[str, Path]]:
    """Each kind of change with the module that names it, by module."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        paragraphs = (" ".join(part.split()) for part in docstring.split("\n\n"))
        for paragraph in paragraphs:
            for change in paragraph.split(MARK)[1:]:
                yield change.strip().rstrip("."), path


def render_page() -> str:
    """The page as it should be."""
    rows = [
        f"| {change} | [`{path.relative_to(ROOT / 'src').as_posix()}`]({path.relative_to(ROOT / 'src').as_posix()}) |"
        for change, path in iter_changes()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def main() -> int:
    """Write the page, or compare it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    page = render_page()
    if parser.parse_args().check:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
