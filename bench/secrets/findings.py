"""How many values of ordinary source and documentation the gate takes out: files of a folder, 30 MB of them.

The folder holds one folder per package. Of each package the same share is taken at first, by the hash of the files' paths, and
where some are small the others fill up. Every replacement counts, also of a value that stands in many files.

    python -m bench.secrets.findings FOLDER... [--show]
"""

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.redact.redact import Redactor

SIZE = 30_000_000
#: A file that is longer is data; and a text of a session is about so long.
LONGEST_FILE, TEXT = 1_000_000, 16_384
#: Share of a package in the first round, bytes.
SHARE = 4_000_000
KINDS = frozenset(
    ".py .pyi .js .mjs .cjs .ts .tsx .jsx .go .rs .c .h .cc .cpp .hpp .java .kt .rb .php .pl .pm .pod .lua .sh .sql .css .scss "
    ".md .rst .txt .html .htm .xml .json .yaml .yml .toml .cfg .ini .conf .1 .2 .3 .4 .5 .7 .8 .adoc .proto .tf .ps1 .cs .ejs "
    ".in .j2 .tmpl .rake .erb .feature .graphql .properties .po".split()
)


def files(package: Path) -> list[Path]:
    """A package's texts, by the hash of their paths."""
    found = [
        path
        for path in package.rglob("*")
        if path.suffix.lower() in KINDS
        and ".min." not in path.name
        and path.is_file()
        and not path.is_symlink()
        and path.stat().st_size <= LONGEST_FILE
    ]
    return sorted(found, key=lambda path: hashlib.sha256(str(path.relative_to(package)).encode()).hexdigest())


def sample(folder: Path) -> list[Path]:
    """About 30 MB of a folder's files."""
    rest = {package: files(package) for package in sorted(folder.iterdir()) if package.is_dir()}
    taken: list[Path] = []
    size = 0
    while size < SIZE and any(rest.values()):
        for left in rest.values():
            own = 0
            while left and own < SHARE and size < SIZE:
                path = left.pop(0)
                taken.append(path)
                own += path.stat().st_size
                size += path.stat().st_size
    return taken


def texts(path: Path) -> Iterator[str]:
    """A file in pieces of some thousand characters, cut between lines."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return
    piece: list[str] = []
    size = 0
    for line in lines:
        if size + len(line) > TEXT and piece:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    yield "".join(piece)


def measure(folder: Path, show: bool) -> int:
    """Print how many values of a sample are taken out, by rule."""
    redactor = Redactor()
    counts: Counter[str] = Counter()
    size = number = 0
    different: set[str] = set()
    for path in sample(folder):
        for text in texts(path):
            size += len(text.encode())
            number += 1
            before = counts.total()
            redactor.redact(text, counts)
            if counts.total() == before:
                continue
            different.update(text[span.start : span.end] for span in redactor.find_spans(text))
            if show:
                _show(path.relative_to(folder), text, redactor)
    rules = ", ".join(f"{rule} {count}" for rule, count in counts.most_common())
    print(
        f"{folder.name}: {size / 1e6:.1f} MB, {number} texts, {counts.total()} findings ({len(different)} values): {rules}",
        flush=True,
    )
    return counts.total()


def _show(path: Path, text: str, redactor: Redactor) -> None:
    for span in redactor.find_spans(text):
        start = text.rfind("\n", 0, span.start) + 1
        line = text[max(start, span.start - 100) : span.end + 30].replace("\n", "\\n")[:260]
        print(f"{span.rule:16} {text[span.start : span.end][:60]!r}  <  {line!r}  {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print each value; not for samples that are held back")
    wanted = parser.parse_args()
    for folder in wanted.folders:
        measure(folder, wanted.show)


if __name__ == "__main__":
    main()
