"""Text to train on: documentation of permissively licensed packages and transcripts of meetings. Never what is measured.

    python -m bench.embedder.text --out DIR        downloads the packages below with pip, by name and version

`technical` reads docstrings, comments and pages of those whose metadata names a permissive licence (MIT, BSD, Apache,
PSF, ISC, HPND), leaving out what the standard library's docstrings say too. `spoken` reads the turns of QMSum (MIT).
"""

import argparse
import ast
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import numpy as np

from bench.locomo import load

#: Large and well documented ones of many trades. Not celery, pyramid or nltk: their pages are not as free as their code.
#: As wheels, for their docstrings and comments.
WHEELS = """
    aiohttp==3.14.5 alembic==1.20.1 apache-airflow-core==3.3.2 azure-identity==1.27.0 azure-storage-blob==12.31.1
    bokeh==3.9.2 botocore==1.44.5 click==8.5.1 cryptography==50.0.2 dask==2026.8.0 distributed==2026.8.0 django==5.2.19
    docker==7.2.0 fastapi==0.165.0 flask==3.1.3 google-cloud-storage==3.17.1 httpx==0.28.1 ipython==9.18.1 jinja2==3.1.6
    jupyterlab==4.6.6 kubernetes==37.0.2 langchain-core==1.8.2 litellm==1.109.1 matplotlib==3.11.2 mlflow==3.18.0
    networkx==3.6.1 notebook==7.6.5 numpy==2.4.6 openai==3.54.0 opentelemetry-sdk==1.45.2 pandas==3.1.1 plotly==7.1.0
    poetry==2.5.1 prefect==3.9.1 pydantic==2.14.3 pymongo==4.20.0 pytest==9.2.0 redis==8.1.0 requests==2.34.2 rich==15.0.0
    scikit-image==0.26.0 scikit-learn==1.9.1 scipy==1.17.1 scrapy==2.19.0 sentence-transformers==6.2.0 sphinx==9.0.4
    sqlalchemy==2.1.9 starlette==1.10.0 statsmodels==0.15.0 sympy==1.14.0 textual==8.2.8 tornado==6.6.1
    transformers==5.3.0 twisted==26.10.0 typer==0.29.2 uvicorn==0.54.0 werkzeug==3.1.9 xarray==2026.9.0
""".split()
#: As source archives, for their pages and lists of changes.
SOURCES = """
    alembic==1.20.1 click==8.5.1 django==5.2.19 fastapi==0.165.0 flask==3.1.3 pydantic==2.14.3 pytest==9.2.0 redis==8.1.0
    requests==2.34.2 scrapy==2.19.0 sphinx==9.0.4 tornado==6.6.1 twisted==26.10.0 werkzeug==3.1.9
""".split()

#: Of one package, at most, so that the largest does not teach its manner of speech.
_MOST = 2500
#: Docstrings with more than a first sentence, of some 31,000.
_WHOLE = 18_000
_PERMISSIVE = re.compile(r"\b(?:MIT|BSD|Apache|PSF|Python Software Foundation|ISC|HPND|matplotlib)\b", re.I)
_OTHER = re.compile(r"GPL|Mozilla|MPL|EUPL|Proprietary", re.I)
_COMMENT = re.compile(r"(?:^[ \t]*# [^\n]*\n)+", re.M)
_MARKUP = re.compile(r":\w+:`~?([^`<]*?)(?: ?<[^>]*>)?`|`{1,2}([^`]*)`{1,2}_{0,2}|\*{1,2}([^*]+)\*{1,2}")
_CODE = re.compile(r"^\s*(?:>>>|\.\.|[-=~^*#+]{3,}|\||```|@|:\w+)|[{};]\s*$")


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and one that belongs to it (the rest of a docstring, an answer); the second may be empty."""

    first: str
    second: str = ""


def technical(folder: Path, known: set[str]) -> dict[str, list[Pair]]:
    """Pairs by kind of all packages in a folder, without those whose `key` is known."""
    out: dict[str, list[Pair]] = {"docstrings": [], "comments": [], "pages": []}
    seen = set(known)
    for path in sorted(p for p in folder.rglob("*") if p.suffix in {".whl", ".gz"}):
        files = dict(_files(path))
        if not permissive(next((t for n, t in files.items() if n.endswith(("METADATA", "PKG-INFO"))), "")):
            continue
        for kind, found in _pairs(files).items():
            fresh = {key(p.first): p for p in found if key(p.first) not in seen and key(p.second) not in known}
            seen |= fresh.keys()
            out[kind] += sampled(fresh.values(), _MOST)
    return out


def spoken(data: Path) -> list[Pair]:
    """Turns of at least four words that nobody has said before, without the transcribers' marks."""
    out: dict[str, Pair] = {}
    for unit in load(data / "qmsum" / "units.jsonl"):
        turn = " ".join(re.sub(r"\{[^}]*\}", " ", cut(unit["text"])).split())
        if turn.count(" ") >= 3:
            out.setdefault(key(turn), Pair(turn))
    return list(out.values())


def mixture(found: dict[str, list[Pair]], turns: list[Pair], bags: list[str]) -> dict[str, str]:
    """The texts to train on, each with its kind."""
    kinds: dict[str, str] = {}
    whole = [p for p in found["docstrings"] if p.second]
    bare = [p for p in found["docstrings"] if not p.second]
    for kind, pairs, most in (
        ("technical", whole, _WHOLE),
        ("technical", bare, 9_000),
        ("technical", found["comments"], 10_000),
        ("technical", found["pages"], 7_000),
        ("spoken", turns, 24_000),
    ):
        for pair in sampled(pairs, most):
            kinds.setdefault(pair.first, kind)
            if pair.second and kind == "technical" and pairs is whole:
                kinds.setdefault(pair.second, kind)
    return kinds | dict.fromkeys((b for b in bags if b not in kinds), "bag")


def bags(words: list[str], number: int = 12_000) -> list[str]:
    """Words thrown together, common ones more often: what no documentation says is trained as well."""
    rng = np.random.default_rng(3)
    shares = 1 / (np.arange(len(words)) + 200.0)
    shares /= shares.sum()
    sizes = rng.integers(3, 11, size=number)
    return [" ".join(words[i] for i in rng.choice(len(words), int(n), p=shares)) for n in sizes]


def sampled(pairs: Iterable[Pair], most: int) -> list[Pair]:
    """The same few of many every time: those with the lowest hashes."""
    return sorted(pairs, key=lambda p: (zlib.crc32(p.first.encode()), p.first, p.second))[:most]


def key(text: str) -> str:
    """What two texts share that say the same: their first letters."""
    return re.sub(r"\W+", "", text.lower())[:50]


def cut(text: str, most: int = 400) -> str:
    """One line of at most so many characters, ending with a word."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0]


def permissive(metadata: str) -> bool:
    """Whether a package's own metadata names a licence that lets anybody reuse its text."""
    head = HeaderParser().parsestr(metadata)
    said = [head.get("License-Expression") or "", (head.get("License") or "")[:80]]
    said += [c for c in head.get_all("Classifier") or [] if c.startswith("License")]
    named = " ".join(said)
    return bool(_PERMISSIVE.search(named)) and not _OTHER.search(named)


def _files(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if _wanted(name):
                    yield name, archive.read(name).decode("utf-8", "replace")
    else:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if _wanted(member.name) and (opened := archive.extractfile(member)):
                    yield member.name, opened.read().decode("utf-8", "replace")


def _wanted(name: str) -> bool:
    # Copies of other projects carry licences of their own.
    if re.search(r"(?:^|/)(?:tests?|_vendor|vendor|vendored|externals?|locale|enterprise)/", name):
        return False
    return name.endswith((".py", ".rst", ".md", "METADATA", "PKG-INFO")) or bool(re.search(r"/docs?/.*\.txt$", name))


def _pairs(files: dict[str, str]) -> dict[str, list[Pair]]:
    out: dict[str, list[Pair]] = {"docstrings": [], "comments": [], "pages": []}
    for name, text in files.items():
        if name.endswith(".py"):
            out["docstrings"] += docstrings(text)
            out["comments"] += comments(text)
        else:
            out["pages"] += pages(text)
    return out


def docstrings(source: str) -> Iterator[Pair]:
    """First sentences with what follows them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = prose(ast.get_docstring(node) or "")
            head, _, rest = text.partition(". ")
            if 20 <= len(head) <= 250:
                yield Pair(head, cut(rest) if len(rest) >= 40 else "")


def comments(source: str) -> Iterator[Pair]:
    """Runs of comment lines that read like prose."""
    for match in _COMMENT.finditer(source):
        text = cut(re.sub(r"(?m)^\s*# ?", "", match[0]))
        if len(text) >= 60 and sum(c.isalpha() or c == " " for c in text) > 0.85 * len(text) and "opyright" not in text:
            yield Pair(text)


def pages(text: str) -> Iterator[Pair]:
    """Paragraphs, each with the next one of the page."""
    blocks = [prose(b) for b in re.split(r"\n\s*\n", text)]
    said = [cut(b) for b in blocks if len(b) >= 60 and sum(c.isalpha() or c == " " for c in b) > 0.85 * len(b)]
    yield from (Pair(a, b) for a, b in zip(said, [*said[1:], ""], strict=False))


def prose(text: str) -> str:
    """The sentences of a page or docstring: no code, no tables, no markup; up to the first list of parameters."""
    lines = re.split(r"(?m)^\s*(?:Parameters|Args|Arguments|Examples?|Returns?|Usage)\s*:?\s*$", text, maxsplit=1)[0].splitlines()
    shown = " ".join(line.strip() for line in lines if not _CODE.search(line))
    return " ".join(_MARKUP.sub(lambda m: m[1] or m[2] or m[3] or "", shown).split())


def main() -> None:
    """Download."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the archives, some 400 MB")
    folder = parser.parse_args().out
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, "--only-binary", ":all:", *WHEELS], check=True)
    for name in SOURCES:
        subprocess.run([*pip, "--no-binary", ":all:", name], check=True)


if __name__ == "__main__":
    main()
