"""Cut texts into a model's tokens: most words of BERT's form here, everything else by the library, loaded when it is needed.

Invariants
1. Tokens are those of the library for every text (tested): what is cut here means the same in every version of Unicode since 8,
   the library's own.
2. A model's file is read once: the library gets what was read.
"""

import json
import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memory_mcp.base import foreign_files

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Characters that are cut here: in these stretches no version of Unicode adds any.
_CUT_HERE = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u036f\u0400-\u052f\u1e00-\u1eff\u2010-\u2027\u2030-\u205e\u20a0-\u20bd\u2190-\u23fa\u2500-\u27bf"
    "\u3001-\u303f\u3041-\u3096\u309d-\u30ff\u4e00-\u9fcc\uac00-\ud7a3\uff01-\uff5e\U0001f300-\U0001f5ff]*"
)
#: Of these, ideographs, each a word of its own.
_IDEOGRAPH = re.compile("[\u4e00-\u9fcc]")
#: ASCII that stands alone beside Unicode's punctuation.
_SYMBOLS = frozenset("$+<=>^`|~")


class Tokens(Protocol):
    """The tokens of a model, and what cuts texts into them. For one caller at a time."""

    #: The tokens, by number.
    names: Sequence[str]
    #: What words are cut into, where it is in memory anyway; else empty.
    pieces: Container[str]
    #: The number of the token for what is unknown; None if there is none.
    unknown_token: int | None
    #: Tokens that are known in the middle of a word.
    added: Sequence[str]
    #: Whether words, as BERT's tokenizers separate them, do not depend on each other.
    cuts_by_word: bool

    def cut_texts(self, texts: Sequence[str], longest: int | None) -> list[list[int]]:
        """Return each text's tokens, at most `longest`."""
        ...

    def cut_word(self, word: str) -> list[int]:
        """Return the tokens of one word, which spaces may divide."""
        ...


class LibraryTokens:
    """The tokens of a tokenizer of the library `tokenizers`."""

    cuts_by_word = False
    pieces: Container[str] = ()

    def __init__(self, tokenizer: "Tokenizer") -> None:
        """Change the tokenizer's truncation and padding."""
        self._tokenizer = tokenizer
        tokenizer.no_truncation()
        tokenizer.no_padding()
        vocabulary = tokenizer.get_vocab()
        self.names: Sequence[str] = sorted(vocabulary, key=vocabulary.__getitem__)
        self.added: Sequence[str] = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self.unknown_token: int | None = None
        if not hasattr(tokenizer.model, "unk_token"):
            # Unigram models have a number instead.
            self.unknown_token = json.loads(tokenizer.to_str())["model"].get("unk_id")
        elif tokenizer.model.unk_token is not None:
            self.unknown_token = tokenizer.token_to_id(tokenizer.model.unk_token)

    def cut_texts(self, texts: Sequence[str], longest: int | None) -> list[list[int]]:
        """Cut with the library."""
        if longest is not None:
            self._tokenizer.enable_truncation(longest)
        return [e.ids for e in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def cut_word(self, word: str) -> list[int]:
        """Cut with the library."""
        return self.cut_texts([word], None)[0]


class WordPieceTokens:
    """The tokens of one of BERT's tokenizers: words into the longest known pieces."""

    cuts_by_word = True

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read a `tokenizer.json` for which `is_wordpiece`; raises KeyError."""
        self._document, model = document, document["model"]
        self._numbers: Mapping[str, int] = model["vocab"]
        self.pieces: Container[str] = self._numbers
        added = {str(token["content"]): int(token["id"]) for token in document["added_tokens"]}
        self.names: Sequence[str] = sorted(numbers := {**self._numbers, **added}, key=numbers.__getitem__)
        self.added: Sequence[str] = list(added)
        self._unknown = self.unknown_token = numbers[model["unk_token"]]
        self._inside, self._longest_word = str(model["continuing_subword_prefix"]), int(model["max_input_chars_per_word"])

    @cached_property
    def _library(self) -> LibraryTokens:
        """Some 15 MB and 40 ms."""
        from tokenizers import Tokenizer

        return LibraryTokens(Tokenizer.from_str(json.dumps(self._document)))

    def cut_texts(self, texts: Sequence[str], longest: int | None) -> list[list[int]]:
        """Cut with the library."""
        return self._library.cut_texts(texts, longest)

    def cut_word(self, word: str) -> list[int]:
        """Cut most words here, others with the library."""
        if not _CUT_HERE.fullmatch(word):
            return self._library.cut_word(word)
        plain = word.lower() if word.isascii() and word.isalnum() else _fold_word(word)
        return [token for part in plain.split() for token in self._cut_part(part)]

    def _cut_part(self, part: str) -> list[int]:
        """Return the longest known pieces from the left, or the unknown token alone."""
        length, pieces = len(part), self._numbers
        if length > self._longest_word:
            return [self._unknown]
        tokens: list[int] = []
        start, prefix = 0, ""
        while start < length:
            end = length
            while end > start and (piece := prefix + part[start:end]) not in pieces:
                end -= 1
            if end == start:
                return [self._unknown]
            tokens += [pieces[piece]]
            start, prefix = end, self._inside
        return tokens


def _fold_word(word: str) -> str:
    """Return a word in lower case, without accents, with spaces around ideographs and punctuation."""
    spaced = unicodedata.normalize("NFD", _IDEOGRAPH.sub(r" \g<0> ", word))
    # By character: a sigma at the end of a word stays one in the middle.
    plain = "".join(c.lower() for c in spaced if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if c in _SYMBOLS or unicodedata.category(c)[0] == "P" else c for c in plain)


def is_wordpiece(document: Mapping[str, Any]) -> bool:
    """Return whether a `tokenizer.json` is of the form that `WordPieceTokens` reads."""
    normalizer, splitter = document.get("normalizer") or {}, document.get("pre_tokenizer") or {}
    kinds = (normalizer.get("type"), splitter.get("type"), document["model"].get("type"))
    return (
        kinds == ("BertNormalizer", "BertPreTokenizer", "WordPiece")
        and all(normalizer.get(name) for name in ("clean_text", "handle_chinese_chars", "lowercase"))
        and normalizer.get("strip_accents") is not False
        and not any(token["normalized"] for token in document.get("added_tokens", ()))
    )


def read_tokens(path: Path) -> Tokens:
    """Read a model's `tokenizer.json`.

    Raises ValueError, KeyError or OSError when it cannot be read, or an error of the library.
    """
    text = foreign_files.read_file(path.resolve()).decode()
    document = json.loads(text)
    if is_wordpiece(document):
        return WordPieceTokens(document)
    from tokenizers import Tokenizer

    return LibraryTokens(Tokenizer.from_str(text))
