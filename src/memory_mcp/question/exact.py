"""Find the quotations and pieces of code in a query, which a result must hold literally. Pure.

Invariants
1. A piece is exactly as written; only quotation marks and the punctuation of the sentence around it are taken off.
2. Ordinary words, capitalised or not, plain numbers and the names of products are no code.
3. Every pattern takes time linear in the text: repetitions are bounded or cannot overlap.
"""

import re
from functools import cache
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern

#: Longer runs without a space are data (base64, minified code), which nobody searches for.
_MAX_CHUNK = 200
_MAX_QUOTE = 300

_BODY = rf"{{1,{_MAX_QUOTE}}}"
#: Double quotes of several languages, backticks (also closed by an apostrophe, as gcc prints them), single quotes that
#: are no apostrophes.
_QUOTE = lazy_pattern(
    rf"\"([^\"\n]{_BODY})\"|“([^“”\n]{_BODY})”|„([^„“”\n]{_BODY})[“”]|«([^«»\n]{_BODY})»|「([^「」\n]{_BODY})」"
    rf"|`{{1,3}}([^`\n]{_BODY})`{{1,3}}|`([^`'\n]{_BODY})'|(?<!\w)'([^'\n]{{2,{_MAX_QUOTE}}})'(?!\w)"
)
_STATUS = lazy_pattern(r"\bHTTP[ /]?[1-5]\d\d\b")
_ANY_QUOTE = lazy_pattern(r"[\"'`“„«「]")
_BREAKS = r"\s,;\"“”„«»「」`—–…、。，？！：；（）"
#: A run without a break, unless it is all lower case letters: most are, and none of those is code.
_CHUNK = lazy_pattern(rf"(?<![^{_BREAKS}])[a-z]*+[^{_BREAKS}a-z][^{_BREAKS}]*+")
_LEFT, _RIGHT = "([{<'*>", ".:!?)]}>'*<"
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}

_URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]{0,20}://.*")
_FLAG = lazy_pattern(r"--[A-Za-z][\w\-]*(?:=.*)?|-[A-Z]\w[\w\-]+")
_ENVIRONMENT = lazy_pattern(r"[A-Z][A-Z0-9_]+=.*|\$\{?[A-Za-z_]\w*\}?|%[A-Z_]{2,}%")
_HASH = lazy_pattern(r"(?:sha\d+|md5):[0-9a-f]+|0x[0-9A-Fa-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_HEX = lazy_pattern(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}")
_VERSION = lazy_pattern(r"v\d+(?:\.\d+)+[\w.+\-]*|\d+\.\d+\.\d+[\w.+\-]*|[\w\-]+(?:==|@)v?\d+(?:\.\d+)*", re.I)
_TICKET = lazy_pattern(r"([A-Z][A-Z0-9]{1,9})-\d{2,}(?:-\d+)?")
_NUMBERED = lazy_pattern(r"([A-Z]{1,4})\d{3,5}")
_ERRNO = lazy_pattern(
    r"E(?:CONN|HOST|NET|ADDR|NO|NOT|PROTO|TIME|ACC|AI)[A-Z]+|E(?:PERM|EXIST|PIPE|AGAIN|BADF|BUSY|INVAL|ISDIR|MFILE|NFILE|ROFS"
    r"|INTR|FAULT|RANGE|XDEV|LOOP|FBIG|SRCH|CHILD|DEADLK|STALE|OVERFLOW|MSGSIZE|NAMETOOLONG|INTEGRITY|RESOLVE|USAGE|CANCELED)"
    r"|SIG[A-Z]{3,6}|ERR_[A-Z_]+"
)
_CAMEL = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_SNAKE = lazy_pattern(r"[^\W_]_+[^\W_]|^__?\w*[^\W_]{2}")
_DOTTED = lazy_pattern(r"\.?[\w\-]+(?:\.[\w\-]+)+|\.[A-Za-z][\w\-]{2,}")
#: A dotted name with the ending of a file; longer endings and ones with capitals are members of something.
_MEMBER = lazy_pattern(r"[a-z]{2,40}\.[A-Z][a-z]{2,40}")
#: Words of a text that names it: two sentences have more.
_WORDS_BESIDE = 4
_FILE = lazy_pattern(r"[\w\-]+|.*\.[a-z][a-z0-9]{0,4}")
_CALL = lazy_pattern(r"([\w.:>\-]+)\((.*)\)")
_HEADER = lazy_pattern(r"X(?:-[A-Z][A-Za-z]+)+")
_ISSUE = lazy_pattern(r"#\d+")
_POSITION = lazy_pattern(r"(?::\d+){1,2}$")
_EMAIL = lazy_pattern(r"[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+")
_SCOPED = lazy_pattern(r"@[\w\-]+/[\w.\-]+")
_NUMBER = lazy_pattern(r"[\d.,:/%+\-]+")
_MEASURE = lazy_pattern(r"[\d.,]+(?:[A-Za-z%]{1,2}|msec|secs?|mins?|[kKMGT]i?[Bb]|mb|gb)|[a-z]+=[\d.,]+(?:ms|s|sec)")
_INNER = lazy_pattern(r"[^/:=()|]+")
_KINDS = (
    *((_URL, "path"), (_FLAG, "flag"), (_ENVIRONMENT, "variable"), (_HASH, "hash"), (_HEX, "hash")),
    *((_VERSION, "version"), (_ISSUE, "number")),
)

#: Kinds that are as frequent in questions and keywords as in exact searches.
FAINT = frozenset(("version", "status", "number"))


@dataclass(frozen=True, slots=True)
class LiteralPiece:
    """A literal, its kind in words, and its place with any quotes."""

    #: quote, path, identifier, file, flag, variable, error code, hash; or one of `FAINT`.
    kind: str
    text: str
    start: int
    end: int


@cache
def read_signals(name: str) -> dict[str, Any]:
    """Return the file of this name in `signals`."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads((files("memory_mcp.question") / "signals" / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def _load_common_words() -> dict[str, frozenset[str]]:
    """Return lists of words that no pattern recognizes, by name.

    They are names (products in mixed case), folders (that a path begins with), standards, file_names and short_endings.
    """
    return {key: frozenset(value.split()) for key, value in read_signals("common").items()}


def find_literals(text: str) -> list[LiteralPiece]:
    """Return the literal pieces of a text, in reading order.

    They are quotations and code, and do not overlap. Quotation marks are no part of a piece's text, but of its place; a
    quotation without a letter or digit is none.
    """
    if not _ANY_QUOTE.search(text):
        return _find_code(text, 0, len(text))
    literals: list[LiteralPiece] = []
    at = 0
    for match in _QUOTE.finditer(text):
        quoted = next(group for group in match.groups() if group is not None).strip()
        if any(c.isalnum() for c in quoted):
            literals += _find_code(text, at, match.start())
            literals.append(LiteralPiece("quote", quoted, *match.span()))
            at = match.end()
    return literals + _find_code(text, at, len(text))


def _find_code(text: str, start: int, end: int) -> list[LiteralPiece]:
    code_pieces: list[LiteralPiece] = []
    for match in _STATUS.finditer(text, start, end):
        code_pieces += _find_chunks(text, start, match.start())
        code_pieces.append(LiteralPiece("status", match[0], *match.span()))
        start = match.end()
    return code_pieces + _find_chunks(text, start, end)


def _find_chunks(text: str, start: int, end: int) -> list[LiteralPiece]:
    """Return the runs without a blank that are code.

    Those in a part of a text; runs over 200 characters are skipped. A package member such as `strings.Builder` counts only in a
    text of at most 4 words and 200 characters. Of a run that is no code as a whole its parts count: `TokenBucket/LRUCache`,
    `error:E0308`.
    """
    chunks: list[LiteralPiece] = []
    is_short = len(text) <= _MAX_CHUNK and len(text.split()) <= _WORDS_BESIDE
    for match in _CHUNK.finditer(text, start, end):
        chunk = match[0]
        is_word = chunk.isalpha() and (chunk.islower() or chunk.istitle())
        if len(chunk) > _MAX_CHUNK or (is_word and chunk not in _load_common_words()["file_names"]):
            continue
        a, b = _trim_chunk(chunk)
        inner, at = chunk[a:b], match.start() + a
        piece = _piece(inner, at)
        if piece is None and is_short and _MEMBER.fullmatch(inner):
            piece = LiteralPiece("identifier", inner, at, at + len(inner))
        if piece is not None:
            chunks.append(piece)
        elif not inner.isalnum():
            parts = (_piece(part[0], at + part.start()) for part in _INNER.finditer(inner))
            chunks += [part for part in parts if part]
    return chunks


def _trim_chunk(chunk: str) -> tuple[int, int]:
    """Leave out punctuation and possessive 's; brackets in pairs stay: `flush()`."""
    a, b = 0, len(chunk)
    while a < b and chunk[a] in _LEFT:
        a += 1
    while a < b and chunk[b - 1] in _RIGHT:
        if chunk[b - 1] in _PAIRS and _PAIRS[chunk[b - 1]] in chunk[a:b]:
            break
        if chunk.endswith("://", a, b + 2):
            break
        b -= 1
    if chunk.endswith(("'s", "’s"), a, b):
        b -= 2
    return a, b


def _piece(chunk: str, start: int) -> LiteralPiece | None:
    kind = _kind_of(chunk) if len(chunk) > 1 else ""
    return LiteralPiece(kind, chunk, start, start + len(chunk)) if kind else None


def _kind_of(chunk: str) -> str:
    """Return the kind of code of a chunk, "" for none.

    The first that fits. Kinds are path, flag, variable, error code, hash, version, number, file and identifier; plain numbers
    and measures are none.
    """
    if _MEASURE.fullmatch(chunk) or (_NUMBER.fullmatch(chunk) and not _VERSION.fullmatch(chunk)):
        return ""
    code = _TICKET.fullmatch(chunk) or _NUMBERED.fullmatch(chunk)
    if _ERRNO.fullmatch(chunk) or (code is not None and code[1] not in _load_common_words()["standards"]):
        return "error code"
    for pattern, kind in _KINDS:
        if pattern.fullmatch(chunk):
            return kind
    bare = _POSITION.sub("", chunk)
    if _is_path(bare):
        return "path"
    if _is_file(bare):
        return "file" if _FILE.fullmatch(bare) else "identifier"
    return "identifier" if _is_identifier(bare) else ""


def _is_path(chunk: str) -> bool:
    """Return whether a chunk is a path of files.

    With backslashes or from the root, the home or a relative folder; else only with a known first folder, more than 3
    parts, a file's name at its end, or in lower case with underscores.
    """
    if "\\" in chunk:
        return bool(re.search(r"\w\\+\w|^\w:\\", chunk))
    if "/" not in chunk or "(" in chunk or not any(c.isalpha() for c in chunk):
        return False
    if _SCOPED.fullmatch(chunk) or chunk.startswith(("./", "../", "~/")):
        return True
    parts = [part for part in chunk.split("/") if part]
    if chunk.startswith("/"):
        return len(parts[0]) > 1
    if parts[0].lower() in _load_common_words()["folders"] or len(parts) > 3:
        return True
    is_written = "_" in chunk and all(p.islower() and all(c.isalnum() or c in "_-." for c in p) for p in parts)
    return is_written or _is_file(parts[-1])


def _is_file(chunk: str) -> bool:
    """Return whether a chunk is a file or dotted name.

    Not e.g, a.m, Node.js, 3.9, nor two joined sentences. Names of one letter behind the dot count only with a known ending or a
    digit.
    """
    if chunk in _load_common_words()["file_names"]:
        return True
    if not _DOTTED.fullmatch(chunk) or chunk.lower() in _load_common_words()["names"]:
        return False
    head, _, tail = chunk.rpartition(".")
    if not any(c.isalpha() for c in tail) and not re.search(r"[A-Za-z]\w*\.", head + "."):
        return False
    if len(tail) == 1:
        return len(head) > 1 and (tail.lower() in _load_common_words()["short_endings"] or tail.isdigit())
    return not (tail.istitle() and tail.isalpha() and head.islower() and head.isalpha())


def _is_identifier(chunk: str) -> bool:
    """Return whether a chunk is a name in code.

    Those are a::b, a->b, A#b, a call, a generic type, @name, an X- header, an address of mail, and words as `_is_coded`
    knows them.
    """
    name = chunk.strip("_")
    if "::" in chunk or "->" in chunk or "#" in chunk[1:]:
        return bool(re.search(r"\w(?:::|->)~?\w|[a-z]\w*#\w", chunk))
    call = _CALL.fullmatch(chunk)
    if call:
        return not call[2] or _is_coded(call[1]) or _is_file(call[1])
    if "<" in chunk and re.fullmatch(r"\w+<.+>", chunk):
        return True
    if chunk.startswith("@") and chunk[1:].isidentifier():
        return True
    if _HEADER.fullmatch(chunk) or _EMAIL.fullmatch(chunk):
        return True
    return bool(name) and _is_coded(chunk)


def _is_coded(chunk: str) -> bool:
    """Return whether a word is in snake_case, camelCase or PascalCase."""
    if not re.fullmatch(r"[\w$.]+", chunk):
        return False
    if _SNAKE.search(chunk):
        return not (chunk.startswith("_") and chunk.endswith("_") and chunk.strip("_").isalpha() and not chunk.startswith("__"))
    if not chunk.isascii() or not _CAMEL.search(chunk):
        return False
    folded = chunk.lower()
    return folded not in _load_common_words()["names"] and folded.removesuffix("s") not in _load_common_words()["names"]
