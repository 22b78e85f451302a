"""Makes the summarizer's table of how common words are, from the documentation installed on this machine.

Counts in how many documents each stem stands: manual pages, package documentation and the docstrings of Python's
standard library. Only the counts are kept, as levels 0 (in most documents) to 9 (in few); a stem that is missing is
rarer still. The table ships with the package; this program is here so that it can be made again.

    python bench/background.py --out src/memory_mcp/tree/summarize/background.txt
"""

import argparse
import ast
import gzip
import math
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base.text import terms

#: Documents are cut into pieces of this size, so that one long manual does not count as one page.
PIECE = 4_000
#: One program's family of manuals (its name up to a hyphen, underscore or dot) counts this often at most.
FAMILY = 25
#: The table's size on disk stays under this.
MAX_BYTES = 90_000
LEVELS = 10
_ROFF = re.compile(r"^[.'].*$|\\f[BIRP]|\\[-&e|^]|\\\(..|\\\*\(..", re.M)
_PLAIN = re.compile(r"^[a-z]{2,16}$")
_TEXT_NAMES = re.compile(r"(README|NEWS|TODO|FAQ|HACKING)[^/]*$|\.(txt|md|rst)(\.gz)?$")


def main() -> int:
    """Read, count, write; the number of documents and words on the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--man", type=Path, default=Path("/usr/share/man"))
    parser.add_argument("--doc", type=Path, default=Path("/usr/share/doc"))
    options = parser.parse_args()
    pieces, counts = count(options.man, options.doc)
    options.out.write_text(table(pieces, counts), encoding="utf-8")
    print(f"{pieces} pieces, {len(counts)} stems, {options.out.stat().st_size} bytes in {options.out}")
    return 0


def count(man: Path, doc: Path) -> tuple[int, Counter[str]]:
    """Pieces read, and in how many of them each plain stem stands."""
    pieces, counts = 0, Counter[str]()
    for text in (*_manuals(man), *_documents(doc), *_docstrings()):
        for start in range(0, min(len(text), 10 * PIECE), PIECE):
            found = {t for t in terms(text[start : start + PIECE]) if _PLAIN.match(t)}
            if len(found) >= 20:
                pieces += 1
                counts.update(found)
    return pieces, counts


def table(pieces: int, counts: Counter[str]) -> str:
    """One line a level: its number, then its stems in alphabetical order; the rarest are dropped to keep the size."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept: list[tuple[str, int]] = []
    size = 0
    for stem, seen in ranked:
        size += len(stem) + 1
        if size > MAX_BYTES - 200 or seen < 4:
            break
        kept.append((stem, seen))
    rarest = math.log(pieces / kept[-1][1])
    lines: list[list[str]] = [[] for _ in range(LEVELS)]
    for stem, seen in kept:
        lines[min(LEVELS - 1, int(LEVELS * math.log(pieces / seen) / rarest))].append(stem)
    head = "# Made by bench/background.py: stems by the share of documents they stand in, 0 most common.\n"
    return head + "".join(f"{level} {' '.join(sorted(stems))}\n" for level, stems in enumerate(lines))


def _manuals(root: Path) -> Iterator[str]:
    families = Counter[str]()
    for folder in sorted(root.glob("man[1-8]")):
        for path in sorted(folder.glob("*.gz")):
            family = re.split(r"[-_.]|::", path.name, maxsplit=1)[0]
            families[family] += 1
            if families[family] > FAMILY:
                continue
            text = _read(path)
            if not text.startswith(".so "):
                yield _ROFF.sub(" ", text)


def _documents(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        if _TEXT_NAMES.search(path.name) and path.is_file() and path.stat().st_size < 400_000:
            yield _read(path)


def _docstrings() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "test" in path.parts or "site-packages" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        yield "\n".join(ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds))


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
