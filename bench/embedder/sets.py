"""What is looked for in what: four sets of texts and questions with known answers. For measuring only, never for training.

LoCoMo (a turn that answers a question), commits (the session that made one, by its best message), manual pages (the one
line of NAME against the DESCRIPTION, the command's names masked) and the Python standard library (first sentence of a
docstring against the rest, the object's name masked). The last depends on the Python that runs it.
"""

import ast
import gzip
import re
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.locomo import half, load

#: Pages and docstrings asked for, at most: enough for an interval of two points.
LIMIT = 3000
#: Characters of a description or docstring that are kept.
LONG = 1500
_MASK = "it"
#: How manual pages of a language call the sections that are read.
TITLES = {
    "en": ("NAME", "DESCRIPTION"),
    "de": ("BEZEICHNUNG", "BESCHREIBUNG"),
    "fr": ("NOM", "DESCRIPTION"),
    "es": ("NOMBRE", "DESCRIPCIÓN"),
    "pl": ("NAZWA", "OPIS"),
    "ru": ("ИМЯ", "ОПИСАНИЕ"),
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts that are searched together; a group is what counts as one answer (a turn, a session, a page)."""

    texts: list[str]
    groups: list[str]


@dataclass(frozen=True, slots=True)
class Query:
    """A question, the corpus it is asked of and the groups that answer it."""

    id: str
    corpus: str
    text: str
    gold: frozenset[str]

    @property
    def half(self) -> str:
        """Everything is chosen on "tune" and reported on "held"."""
        return half(self.id)


@dataclass(frozen=True, slots=True)
class EvalSet:
    """A name, corpora and queries."""

    name: str
    corpora: dict[str, Corpus]
    queries: list[Query]


def locomo(data: Path) -> EvalSet:
    """Turns that hold the evidence, categories 1 to 4, each question within its own conversation."""
    corpora: dict[str, Corpus] = {}
    for unit in load(data / "locomo" / "units.jsonl"):
        own = corpora.setdefault(unit["corpus"], Corpus([], []))
        own.texts.append(f"{unit['role']}: {unit['text']}")
        own.groups.append(unit["id"])
    queries = [
        Query(q["id"], q["corpus"], q["query"], frozenset(q["gold"]))
        for q in load(data / "locomo" / "queries.jsonl")
        if q["gold"] and not q["category"].startswith("5")
    ]
    return EvalSet("LoCoMo", corpora, queries)


def commits(data: Path) -> EvalSet:
    """Messages of coding sessions; what counts is the session."""
    units = load(data / "commits" / "units.jsonl")
    corpus = Corpus([u["text"] for u in units], [u["session"] for u in units])
    queries = [
        Query(q["id"], "", q["query"], frozenset(q["gold_sessions"]))
        for q in load(data / "commits" / "queries.jsonl")
        if q["gold_sessions"]
    ]
    return EvalSet("commits", {"": corpus}, queries)


def manual(folder: Path, language: str = "en") -> EvalSet:
    """Manual pages of every section; one of those with the same line or the same description."""
    lines: set[str] = set()
    bodies: set[str] = set()
    found: list[tuple[str, str, str]] = []
    for path in sorted(folder.glob("man[1-8]/*")):
        # Thousands of generated pages that differ in a word would be all there is to find.
        if path.is_symlink() or not path.is_file() or path.name.startswith("gcloud"):
            continue
        page = _page(_roff(path), *TITLES[language])
        if page is None or page[0] in lines or page[1][:200] in bodies:
            continue
        lines.add(page[0])
        bodies.add(page[1][:200])
        found.append((f"man/{path.name}", *page))
    return _pairs("man pages" if language == "en" else f"man pages, {language}", found)


def library() -> EvalSet:
    """Docstrings of the standard library, read from its source without importing it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__"}
    first: set[str] = set()
    found: list[tuple[str, str, str]] = []
    for path in sorted(root.rglob("*.py")):
        if skipped & set(path.relative_to(root).parts):
            continue
        for name, text in docstrings(path):
            pair = _split(name, text)
            if pair and pair[0] not in first:
                first.add(pair[0])
                found.append((f"lib/{path.relative_to(root)}:{name}", *pair))
    return _pairs("stdlib docs", found)


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Names and docstrings of a module and everything in it; nothing where it cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, RecursionError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", path.stem), text


def masked(text: str, names: set[str]) -> str:
    """The text with each of the names, as a whole word in any case, replaced by a word that says nothing."""
    known = sorted((n for n in names if n), key=len, reverse=True)
    return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, known))})(?!\w)", _MASK, text, flags=re.I) if known else text


def _split(name: str, text: str) -> tuple[str, str] | None:
    head, _, rest = " ".join(text.split()).partition(". ")
    if not (20 <= len(head) <= 200 and len(rest) >= 80):
        return None
    return masked(head, {name}), masked(rest, {name})[:LONG]


def _pairs(name: str, found: list[tuple[str, str, str]]) -> EvalSet:
    # Some of many, by a hash: the alphabet would prefer one family of pages.
    chosen = sorted(sorted(found, key=lambda f: zlib.crc32(f[0].encode()))[:LIMIT])
    corpus = Corpus([rest for _, _, rest in chosen], [key for key, _, _ in chosen])
    return EvalSet(name, {"": corpus}, [Query(key, "", line, frozenset({key})) for key, line, _ in chosen])


def _roff(path: Path) -> str:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode("utf-8", "replace")


_FONT = re.compile(r"\\f(?:\[[^]]*\]|\(..|.)|\\s[+-]?\d|\\[&|^/,%]|\\\*\(..|\\\*\[[^]]*\]")
_SIGNS = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\e": "\\", r"\ ": " ", r"\(bu": " ", r"\(co": " ", r"\~": " ", r"\(em": "-"}
_SHOWN = re.compile(r"^\.\s*(?:[BIR]{1,2}|SM|SB|Nm|Nd|Fl|Ar|Pa|Xr|Sq|Dq|Ql|Li|Em|Sy|Cm|Ev|Va|Fn|It|Ic|Op|TP|IP)\b\s*")


def _page(text: str, naming: str, describing: str) -> tuple[str, str] | None:
    """The one line and the description of a page, its names masked; None where either is missing."""
    name, body = _section(text, naming), _section(text, describing)
    names, dash, line = re.sub(r"\s+-{1,2}\s+|\s*\\?–\s*", "\0", name, count=1).partition("\0")
    if not dash or not (15 <= len(line) <= 200) or len(body) < 80:
        return None
    known = {n.strip() for n in names.split(",")}
    return masked(line, known), masked(body, known)[:LONG]


def _section(text: str, title: str) -> str:
    found = re.search(rf'^\.\s*S[Hh]\s+"?{title}"?\s*$(.*?)(?=^\.\s*S[Hh]\s)', text + "\n.SH \n", re.M | re.S)
    out = []
    for line in (found[1] if found else "").splitlines():
        shown = f"- {line[4:]}" if line.startswith(".Nd ") else _SHOWN.sub("", line)
        if shown and shown[0] not in ".'":
            out.append(shown.replace('"', "") if shown != line else shown)
    plain = _FONT.sub("", " ".join(out))
    for sign, meant in _SIGNS.items():
        plain = plain.replace(sign, meant)
    return " ".join(plain.split())
