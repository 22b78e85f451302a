"""The one tokenizer of every lexical part: splits text into stemmed terms, and cuts snippets around them.

Invariants
1. Queries are words, not syntax: no input can make a function here fail.
2. Code tokens (snake_case, camelCase, paths, dotted names, versions, error codes, hashes) give the whole token *and*
   its parts; prose words give their stem; CJK runs give character bigrams.
3. `terms` of a text contains every term of any query that quotes a whole word of it.

Change here: what counts as a word, or which are stop words.
"""

import re
import threading
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

import Stemmer

from memory_mcp.base.patterns import lazy_pattern

_T = TypeVar("_T")
#: Stored term sets were made with this version; a change means `admin rebuild-toc`.
TOKENIZER_VERSION = 1

#: Longer runs are data (base64, minified code), not words; hashes of up to 64 hex digits stay whole.
MAX_TOKEN = 64
_CACHE_LIMIT = 200_000
#: Words of the quotations of some hundred answers, some 200 bytes each.
_PLACED_LIMIT = 20_000

_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
# A token is a run of word characters, joined by the punctuation that code and names put inside words; C++ and C# keep
# their tails. An apostrophe ends a word: "Caroline's" is "Caroline".
_RAW = lazy_pattern(r"[A-Za-z](?:\+\+|#)(?!\w)|\w+(?:[.\-/:@+\\]+\w+)*")
# The same where all characters are ASCII and no such tail can be, in half the time.
_PLAIN_RAW = lazy_pattern(r"[A-Za-z0-9_]++(?:[.\-/:@+\\]++[A-Za-z0-9_]++)*+")
# Such tails.
_SHARP, _PLUSES = lazy_pattern(r"#(?<=[A-Za-z]#)"), lazy_pattern(r"\+\+(?<=[A-Za-z]\+\+)")
#: Signs of no word that stay as they are in every form of a text. Without them most texts are plain: clients number the lines of
#: files with an arrow.
_SIGNS = "\u2192\u2014\u2500\u2502\u2514\u251c\u2705\u2713\u2714\u2013"
_CJK_RUN = lazy_pattern(f"[{_CJK}]+")
# Runs of one script: hiragana, katakana, hangul, ideographs.
_SCRIPT_RUN = lazy_pattern(
    "[\u3040-\u309f]+|[\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f]+|[\uac00-\ud7af]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
# CJK runs, and what stands between white space and them; very long stretches come in pieces.
_PLACED = lazy_pattern(rf"(?P<cjk>[{_CJK}]+)|[^\s{_CJK}]{{1,{MAX_TOKEN}}}")
_PARTS = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+|[^\W\d_a-zA-Z]+\d*")
_HEX = lazy_pattern(r"^(?=[0-9a-f]*\d)[0-9a-f]{7,64}$")
_SEPARATORS = lazy_pattern(r"[/\\\\:@]+")
_NAME = lazy_pattern(r"\w+")
_PLURAL_ACRONYM = lazy_pattern(r"^[A-Z]{2,}s$")
_URL = lazy_pattern(r"^(?:https?|ftp|file)://?", re.I)

#: Function words, question words and the halves of contractions, English. Short code words (go, c, v2) are not here.
STOPWORDS = frozenset(
    """a about above after again against all also am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each else ever few for
    from further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn
    it its itself just let ll m me more most mustn my myself no nor not now of off on once only or other ought our ours
    ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them themselves
    then there these they this those through to too under until up us ve very was wasn we were weren what when where
    whether which while who whom whose why will with won would wouldn you your yours yourself yourselves""".split()
)


class TokenCache(dict[str, _T]):
    """Values by token, computed by `make` when first asked for.

    One with more than `most` is emptied first.
    """

    def __init__(self, make: Callable[[str], _T], most: int) -> None:
        self._make, self._most = make, most

    def __missing__(self, token: str) -> _T:
        if len(self) > self._most:
            self.clear()
        value = self[token] = self._make(token)
        return value


class _Stemmer(threading.local):
    """A stemmer for each thread: it is not thread-safe."""

    def __init__(self) -> None:
        self.stem = Stemmer.Stemmer("english", 0).stemWord


def iter_terms(text: str) -> Iterator[str]:
    """Iterate over the terms of a text, in order.

    Stop words are left out; a token of code gives itself and then its parts, a plain word its stem.
    """
    return chain.from_iterable(map(_TERMS.__getitem__, split_tokens(text)))


def terms(text: str) -> list[str]:
    """Return a text's terms in order, repeated, without stop words."""
    return list(iter_terms(text))


def term_set(text: str) -> set[str]:
    """Return the distinct terms of a text, stop words left out."""
    return set().union(*map(_TERMS.__getitem__, set(split_tokens(text))))


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text in order, repeated: what terms are made of."""
    text = _drop_signs(text)
    if _is_plain(text):
        return _PLAIN_RAW.findall(text)
    if not text.isascii():
        # One form of each character: an accent that is a character of its own would split its word.
        text = unicodedata.normalize("NFKC", text)
    # No token reaches over a line's end, and most lines of most texts are plain.
    tokens: list[str] = []
    for line in text.split("\n"):
        tokens += (_PLAIN_RAW if _is_plain(line) else _RAW).findall(line)
    return tokens


def token_terms(token: str) -> tuple[str, ...]:
    """Return the terms of a token without adding them to the cache."""
    return _TERMS.get(token) or _terms_of(token)


def stem(word: str) -> str:
    """Return the stem of a plain word in lower case."""
    return str(_stemmer.stem(word))


def query_terms(text: str) -> list[str]:
    """Return the distinct terms of a query in order.

    When it holds stop words only, those words themselves, in lower case.
    """
    terms = list(dict.fromkeys(iter_terms(text)))
    if terms:
        return terms
    return list(dict.fromkeys(w.lower() for w in _RAW.findall(text) if w.strip("_")))


def tokens_with_terms(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the distinct tokens of a text with their terms."""
    return [(raw, terms) for raw in dict.fromkeys(split_tokens(text)) if (terms := _TERMS[raw])]


def cjk_runs(token: str) -> list[str]:
    """Return the runs of CJK characters in a token.

    Cut where kana, ideographs and hangul meet.
    """
    return [] if token.isascii() else _SCRIPT_RUN.findall(token)


def placed_terms(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the terms of a text as (start, end, term).

    A stretch lies between white space, cut at `MAX_TOKEN` characters. A CJK run gives one term for every two
    characters, placed where they stand.
    """
    for match in _PLACED.finditer(text):
        start, piece = match.start(), match[0]
        if match.lastgroup == "cjk":
            step = min(len(piece), 2)
            for at in range(len(piece) - step + 1):
                yield from ((start + at, start + at + step, term) for term in iter_terms(piece[at : at + step]))
        else:
            for term in _PLACED_TERMS[piece]:
                yield start, match.end(), term


def name_parts(name: str) -> list[str]:
    """Return the words and numbers of a name of code.

    As they are written: `getHTTPValue` gives get, HTTP, Value.
    """
    return _PARTS.findall(name)


def probe(term: str) -> str:
    """Return how every word with this stem begins.

    The stem without its last letter, which may differ (happi, happy). Stems of up to three letters, and terms with other
    characters than letters, stay whole.
    """
    return term if len(term) <= 3 or not term.isalpha() else term[:-1]


def lower_plain(text: str) -> str | None:
    """Return a text in lower case, without signs of no word; None if it has other characters than ASCII."""
    return text.lower() if (text := _drop_signs(text)).isascii() else None


def find_beginning(term: str) -> str:
    """Return what `lower_plain` of every text with a term holds: more than its `probe`, and also of short stems."""
    if not term.isalpha():
        return term
    # The stems of skies, dying, vying; others differ at their end alone: happi, happy; use, using; capabl, capability.
    return term[:1] if term == "sky" or term.endswith("ie") else term[:-1] if term[-1] in "eil" else term


def term_hash(term: str) -> int:
    """Return a term's 32-bit hash in the tree's term sets.

    A collision costs a visit, never a claimed hit.
    """
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def hashes_in(*texts: str) -> set[int]:
    """Return the distinct hashes of the texts' terms."""
    raws: set[str] = set()
    for text in texts:
        raws.update(split_tokens(text))
    return set().union(*map(_HASHES.__getitem__, raws))


def _drop_signs(text: str) -> str:
    """Return a text with blanks in place of `_SIGNS`."""
    if not text.isascii():
        for sign in _SIGNS:
            text = text.replace(sign, " ")
    return text


def _is_plain(text: str) -> bool:
    """Whether the faster pattern finds the same tokens."""
    if not text.isascii() or ("#" in text and _SHARP.search(text)):
        return False
    return "++" not in text or not _PLUSES.search(text)


def _terms_of(raw: str) -> tuple[str, ...]:
    """Return the terms of a token."""
    if raw.isalpha() and raw.isascii() and (raw.islower() or raw.istitle()) and len(raw) <= MAX_TOKEN:
        # Most tokens are plain words: `_latin` says the same of them.
        folded = raw.lower()
        if folded != raw:
            return _TERMS[folded]
        return () if folded in STOPWORDS else (_stemmer.stem(folded),)
    runs = [] if raw.isascii() else _CJK_RUN.findall(raw)
    if not runs:
        return _latin(raw)
    bigrams: list[str] = []
    for run in runs:
        bigrams += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return (*bigrams, *(term for piece in _RAW.findall(_CJK_RUN.sub(" ", raw)) for term in _latin(piece)))


def _hashes_of(raw: str) -> tuple[int, ...]:
    return tuple(map(term_hash, token_terms(raw)))


def _latin(raw: str) -> tuple[str, ...]:
    """Return the terms of a token without CJK.

    A word gives its stem, a stop word nothing, an acronym's plural its singular; anything else the whole
    token, and its parts unless it is a number or a hash. Whole tokens and words of more than `MAX_TOKEN`
    characters are left out.
    """
    token = raw.strip("_")
    if not token:
        return ()
    folded = fold(token)
    if folded.isalpha() and (token.islower() or token.istitle() or token.isupper() or not token.isascii()):
        return (_stemmer.stem(folded),) if folded not in STOPWORDS and len(folded) <= MAX_TOKEN else ()
    if _PLURAL_ACRONYM.match(token):
        return (_stemmer.stem(folded[:-1]),)
    tokens = (folded,) if len(folded) <= MAX_TOKEN else ()
    return tokens if folded.isdigit() or _HEX.match(folded) else (*tokens, *_pieces(token, folded))


def _pieces(token: str, folded_token: str) -> list[str]:
    """Return the parts of a token besides `folded_token`.

    Components of a path (tokenStore.ts), their names, the words in a name. Stop words and parts of more than `MAX_TOKEN`
    characters are left out; a URL's scheme is not looked at.
    """
    bare = _URL.sub("", token)
    names = _NAME.findall(bare)
    if names != [bare]:
        components = dict.fromkeys(fold(c) for c in _SEPARATORS.split(bare) if not _NAME.fullmatch(c))
        pieces = [c for c in components if c and c != folded_token and len(c) <= MAX_TOKEN]
        for name in names:
            pieces += _TERMS[name]
        return pieces
    parts = (part for part in map(fold, _PARTS.findall(bare)) if part != folded_token and len(part) <= MAX_TOKEN)
    # Words of names come again and again: stemming one takes as long as ten looks into the cache.
    return [t for part in parts for t in (_TERMS[part] if part.isascii() and part.isalpha() else (_stemmer.stem(part),))]


def fold(token: str) -> str:
    """Return a text case folded, without accents, in plain forms."""
    if token.isascii():
        return token.lower()
    folded = unicodedata.normalize("NFKD", token.casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


def snippet(text: str, terms: Iterable[str], width: int = 240) -> str:
    """Return about `width` characters where most terms meet.

    It is cut at white space, or in the midst of a long word; an ellipsis marks each cut. Without any of the
    terms it is the beginning; a text that fits is returned whole.
    """
    clean = " ".join(text.split())
    if len(clean) <= width:
        return clean
    terms_wanted = frozenset(terms)
    hits = [(m.start(), term) for m in _RAW.finditer(clean) for term in iter_terms(m[0]) if term in terms_wanted]
    best, best_count = 0, 0
    for i, (at, _) in enumerate(hits):
        count = len({term for offset, term in hits[i : i + 64] if offset < at + width - 40})
        if count > best_count:
            best, best_count = at, count
    start = max(0, best - 40)
    end = min(len(clean), start + width)
    if start > 0:
        gap = clean.find(" ", start, start + 40)
        start = gap + 1 if gap >= 0 else start
    if end < len(clean):
        gap = clean.rfind(" ", max(start, end - 40), end)
        end = gap if gap > start else end
    return ("… " if start else "") + clean[start:end].rstrip() + (" …" if end < len(clean) else "")


def densest(text: str, width: int, worth: Callable[[str], float]) -> int:
    """Return where the part worth most begins.

    It has `width` characters (2 or more); the first of equals. Parts overlap by half; `worth` returns the value of the text of
    one.
    """
    return max(range(0, max(len(text), 1), width // 2), key=lambda at: (worth(text[at : at + width]), -at))


_stemmer = _Stemmer()
# Caches of all threads: the layers of one question look at the same texts, each in a thread of its own.
_TERMS = TokenCache(_terms_of, _CACHE_LIMIT)
_HASHES = TokenCache(_hashes_of, _CACHE_LIMIT)
_PLACED_TERMS = TokenCache(lambda piece: tuple(iter_terms(piece)), _PLACED_LIMIT)
