"""Finds the files, lines and names that a statement is about, and their lines in a file. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.base.text import term_set

#: Files and names of one statement that are looked for.
_FILES, _NAMES = 3, 12
#: Lines of a definition, and lines that hold a name: more are not what a statement is about.
_BLOCK, _HOLDING = 60, 6
#: Terms that a line shares with a statement which names nothing in it, and lines in which the rarest of them may occur.
_SHARED, _RARE = 2, 3
#: Characters of a statement that are read, somewhat more than of the longest stored grip; and of a file.
_STATED, _READ = 1200, 256 * 1024
#: Runs of what paths are made of with a dot within, and those that name a file with lines or without; each is read once.
_RUN = lazy_pattern(r"(?<![\w@+./\\:-])\.{0,2}[\w@+/\\:-]++(?:\.[\w@+/\\:-]++)+")
#: What every file that is named has: most texts have none, which this tells at once.
_EXTENSION = lazy_pattern(r"\.[A-Za-z]")
_FILE = lazy_pattern(r"((?:[A-Za-z]:)?[\w@+./\\-]*\w\.[A-Za-z]\w{0,7})(?::(\d{1,6})(?:-(\d{1,6}))?)?(?::\d+)?[.:]*\Z")
_URL = lazy_pattern(r"\b[a-z][a-z0-9+.-]*://\S+")
_LINES = lazy_pattern(r"\blines? (\d{1,6})(?:(?:-| to |–)(\d{1,6}))?\b")
_NAME = lazy_pattern(r"`([^`\s]{3,60})`|\b(\w+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Z][A-Z0-9]{3,})\b|\b(\w{3,})\(")
_PLAIN = lazy_pattern(r"(?<![\w./-])[A-Za-z]{4,40}(?![\w/-])")
_WORD = lazy_pattern(r"[A-Za-z_$][\w$]*\Z")
_DEFINES = (
    r"^\s*(?:[\w@()\[\]<>,.:*&'\"-]+\s+)*?(?:def|class|func|fn|function|type|struct|enum|interface|trait|impl|mod|module|const|let"
    r"|var|val|static|object|record|namespace|sub|proc)\s+(?:\([^)]*\)\s*)?{0}\b"
    r"|^\s*(?:export\s+|self\.|this\.)?[\"']?{0}[\"']?\s*(?::[^=]*)?[:=](?!=)|^\s*{0}\s*\(\)\s*\{{"
)
_CLOSING = lazy_pattern(r"\s*(?:[)\]}]|end\b)")


@dataclass(frozen=True, slots=True)
class Mention:
    """A file that a statement names, as it names it, and lines of it."""

    path: str
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """What a statement is about in a file: definitions by their name, or single lines; without indentation and empty lines."""

    definitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lines: Sequence[str] = ()
    #: Whether it is known by a name of the code.
    is_named: bool = False

    def changed_in(self, text: str) -> str | None:
        """Return what of it another text does not have as it was: a name, "" for lines; None if it has everything."""
        rows = text[:_READ].splitlines()
        for name, block in self.definitions.items():
            if list(block) not in _blocks_of(name, rows):
                return name
        present = {row.strip() for row in rows}
        return "" if any(line not in present for line in self.lines) else None


def names_file(text: str) -> bool:
    """Return whether a text names a file."""
    stated = text[:_STATED]
    return _EXTENSION.search(stated) is not None and any(True for _ in _iter_files(stated))


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the files that a text names, with their lines where it says any."""
    text = text[:_STATED]
    mentions: dict[str, Mention] = {}
    for match in islice(_iter_files(text), _FILES):
        path = re.sub(r"^(?:\.{1,2}/)+", "", match[1].replace("\\", "/"))
        numbers = match.groups()[1:] if match[2] else next(iter(_LINES.findall(text)), ("", ""))
        first, last = (int(numbers[0]), int(numbers[1] or numbers[0])) if numbers[0] else (0, 0)
        mentions.setdefault(path, Mention(path, (first, last) if 0 < first <= last else None))
    return tuple(mentions.values())


def _iter_files(text: str) -> Iterator[re.Match[str]]:
    for run in _RUN.finditer(text):
        # A call of a method and an address are none.
        is_name = "://" not in run[0] and text[run.end() : run.end() + 1] != "("
        if is_name and (match := _FILE.match(run[0])):
            yield match


def find_region(statement: str, mention: Mention, text: str) -> Region | None:
    """Return what a statement is about in the text of a file that it names; None where that cannot be told.

    Lines that it numbers, else definitions that it names, else lines with a name of it, else the line that shares most with it.
    """
    rows = text[:_READ].splitlines()
    if mention.lines is not None:
        first, last = mention.lines
        numbered = [row.strip() for row in rows[first - 1 : last] if row.strip()] if last <= len(rows) else []
        return Region(lines=numbered) if numbered and last - first < _BLOCK else None
    names = _list_names(statement, mention)
    definitions = {name: blocks[0] for name in names if len(blocks := _blocks_of(name, rows)) == 1}
    if definitions:
        return Region(definitions, is_named=True)
    holding = [lines for name in names if 0 < len(lines := _lines_with(name, rows)) <= _HOLDING]
    if holding:
        return Region(lines=min(holding, key=len), is_named=True)
    words = dict.fromkeys(_PLAIN.findall(statement.replace(mention.path, " ")))
    defined = {word: blocks[0] for word in words if len(blocks := _blocks_of(word, rows)) == 1}
    if len(defined) == 1:
        return Region(defined, is_named=True)
    nearest = _nearest_line(statement, mention, rows)
    return Region(lines=[nearest]) if nearest else None


def _list_names(statement: str, mention: Mention) -> list[str]:
    names = dict.fromkeys(next(filter(None, match.groups())) for match in _NAME.finditer(_URL.sub(" ", statement)))
    stripped = dict.fromkeys(name.removesuffix("()").strip("\"'") for name in names)
    return [name for name in stripped if len(name) > 2 and not _FILE.match(name) and name not in mention.path][:_NAMES]


def _blocks_of(name: str, rows: Sequence[str]) -> list[list[str]]:
    """Return the definitions of a name, each as far as it is indented."""
    if not _WORD.match(name):
        return []
    defines = re.compile(_DEFINES.format(re.escape(name)))
    return [_block_at(place, rows) for place, row in enumerate(rows) if name in row and defines.match(row)]


def _block_at(place: int, rows: Sequence[str]) -> list[str]:
    depth = _depth_of(rows[place])
    block = [rows[place].strip()]
    for row in rows[place + 1 :]:
        if row.strip() and _depth_of(row) <= depth:
            # What closes a signature belongs to it, and its body follows.
            if not (_depth_of(row) == depth and _CLOSING.match(row)):
                break
            block.append(row.strip())
            if not row.rstrip().endswith((":", "{")):
                break
        elif row.strip():
            block.append(row.strip())
        if len(block) > _BLOCK:
            return block[:1]
    return block


def _depth_of(row: str) -> int:
    return len(row) - len(row.lstrip())


def _lines_with(name: str, rows: Sequence[str]) -> list[str]:
    whole_word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return list(dict.fromkeys(row.strip() for row in rows if name in row and whole_word.search(row)))


def _nearest_line(statement: str, mention: Mention, rows: Sequence[str]) -> str:
    """Return the line that shares most with a statement, by how rare that is in the file; "" if none does."""
    statement_terms = term_set(statement) - term_set(mention.path)
    terms = [(row.strip(), statement_terms & term_set(row)) for row in rows if len(row) < 400]
    frequencies = Counter(term for _, shared in terms for term in shared)
    telling = [(row, shared) for row, shared in terms if len(shared) >= _SHARED and _is_rare(shared, frequencies)]
    return max(telling, key=lambda each: sum(1 / frequencies[term] for term in each[1]), default=("", set()))[0]


def _is_rare(shared: Iterable[str], frequencies: Mapping[str, int]) -> bool:
    return min(frequencies[term] for term in shared) <= _RARE
