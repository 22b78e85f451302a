"""Average a text's token vectors; texts of mostly unknown words get no vector.

Invariants
1. Nothing is downloaded and no process or thread is started: only the folder is read.
2. The matrix of a model that only this program writes is mapped: memory that the system may drop. A user's own file is read
into memory, because truncating a mapped file kills the process.
3. Its vectors equal those of model2vec to the last bit (tested). That library is not imported: with its dependencies it takes
120 ms and 15 MB in every process that embeds, and stores the tokenizer twice.

Change here: which texts a model leaves to the keywords.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base import foreign_files
from memory_mcp.base.text import MAX_TOKEN, name_parts
from memory_mcp.embed.models import CONFIG, TOKENIZER, WEIGHTS, is_managed_folder
from memory_mcp.embed.tensors import read_tensors
from memory_mcp.embed.tokens import Tokens, read_tokens

#: Share of unknown words above which a text gets no vector.
UNKNOWN_LIMIT = 0.5
#: Prefixes of tokens inside a word (WordPiece), or after a space (other tokenizers).
_INSIDE, _SPACES = "##", "▁Ġ"
_SYMBOLS = re.compile(r"[^\w\s\x00-\x7f]+")
#: Most tokens of a text if the model sets no limit.
_DEFAULT_TOKENS = 512
#: What BERT's tokenizers always separate: blanks, and each ASCII sign by itself.
_BERT_WORD = re.compile(r"[^ \t\n\r!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
# A word begins inside a name at a capital after a small letter or digit (getValue), or at the last of several capitals
# before small letters (HTTPServer, but not URLs). Most texts have none.
_NEW_WORD = r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}"
_MANY_WORDS = re.compile(_NEW_WORD)
_COMPOUND = re.compile(rf"(?<![A-Za-z0-9])[A-Za-z0-9]*(?:{_NEW_WORD})[A-Za-z0-9]*")
#: Number of words whose tokens are cached, and the longest of them (characters).
_MOST_WORDS, _LONGEST_WORD = 20_000, 40


class _WordTokens(dict[str, list[int]]):
    """Tokens by word, where words do not depend on each other."""

    def __init__(self, tokens: Tokens, vocabulary: Container[str]) -> None:
        self._tokens, self._vocabulary = tokens, vocabulary

    def __missing__(self, word: str) -> list[int]:
        ids = self._tokens.cut_word(split_identifiers(word, self._vocabulary))
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids


class TokenMeanModel:
    """A model2vec model: the mean of a text's token rows.

    An unknown word is one token, and in scripts without spaces each character is. Over Russian manual pages the fusion with
    keywords finds 1 point less than keywords alone if such texts are embedded by their few known words, and as much if they are
    left out. Words of other languages in Latin letters split into known pieces and are kept: over German pages fusion finds 1 to
    2 points more, over French, Spanish and Polish ones about as much (`bench.embedder --languages`).
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], tokens: Tokens, config: Mapping[str, Any]) -> None:
        """Create the model.

        `arrays` are "embeddings", `(rows, dimensions)`, and for some models "weights" and "mapping", `(tokens,)`.
        Raises ValueError if they do not fit the tokens.
        """
        #: The tokens, by number.
        self.tokens = tokens.names
        self._rows = arrays["embeddings"]
        self._weights, self._mapping = arrays.get("weights"), arrays.get("mapping")
        if self._mapping is None and len(self._rows) != len(self.tokens):
            raise ValueError(f"it has {len(self.tokens)} tokens and rows for {len(self._rows)}")
        self._tokens = tokens
        #: The number of the token for what is unknown; None if there is none.
        self.unknown_token = tokens.unknown_token
        self._normalize = bool(config.get("normalize", False))
        self._longest: int | None = config.get("max_length", _DEFAULT_TOKENS)
        # Nearly everything cut off by characters would also be cut off by the token limit.
        median_length = int(np.median([len(token) for token in self.tokens]))
        self._characters = None if self._longest is None else self._longest * median_length
        #: Texts with one of them are tokenized as a whole.
        self._added_tokens = tuple(tokens.added)
        self._word_tokens = _WordTokens(tokens, self._vocabulary) if tokens.cuts_by_word else None

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return int(self._rows.shape[1])

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Return `(texts, dimensions)` rows, of length 1 if the model says so.

        Zeros for a text without tokens or of mostly unknown words. What is beyond the model's longest text is cut
        off. Of the type of the embeddings, float32 for int8.
        """
        ids = self.token_ids([text[: self._characters] for text in texts])
        row_type = np.dtype(np.float32) if self._rows.dtype == np.int8 else self._rows.dtype
        out = np.zeros((len(ids), self.dim), dtype=row_type)
        is_plain = self._mapping is None and self._weights is None and self._rows.dtype == np.int8
        for index, several in enumerate(ids):
            if several and is_plain:
                # Sums of integers are exact in any order, and take a third of the time.
                out[index] = np.add.reduce(self._rows.take(several, axis=0), axis=0, dtype=np.int32) / len(several)
            elif several:
                rows = self._rows[several if self._mapping is None else self._mapping[several]]
                out[index] = (rows if self._weights is None else rows * self._weights[several][:, None]).mean(axis=0)
        if not self._normalize:
            return out
        wide = out.astype(np.float32)
        unit: NDArray[Any] = (wide / (np.linalg.norm(wide, axis=1, keepdims=True) + 1e-32)).astype(row_type)
        return unit

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's known tokens; [] if mostly unknown words."""
        encoded = self._tokenize(texts)
        if self.unknown_token is None:
            return encoded
        return [self._drop_unknown(ids, text, self.unknown_token) for ids, text in zip(encoded, texts, strict=True)]

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        tokens_of = self._word_tokens
        if tokens_of is None or any(token in text for text in texts for token in self._added_tokens):
            prepared = [split_identifiers(text, self._vocabulary) for text in texts]
            return self._tokens.cut_texts(prepared, self._longest)
        # The same in a third of the time, since most words come again and again.
        words_by_text = (_BERT_WORD.findall(text.replace("_", " ")) for text in texts)
        return [list(chain.from_iterable(map(tokens_of.__getitem__, words)))[: self._longest] for words in words_by_text]

    def _drop_unknown(self, ids: list[int], text: str, unknown: int) -> list[int]:
        """Return the known tokens; [] if over half of the words are unknown."""
        if unknown not in ids:
            return ids
        known_ids = [i for i in ids if i != unknown]
        if self._is_known(len(ids) - len(known_ids), known_ids):
            return known_ids
        # Symbols and emoji are unknown too, but say nothing about the language.
        (worded,) = self._tokenize([_SYMBOLS.sub(" ", text)])
        return known_ids if self._is_known(worded.count(unknown), known_ids) else []

    def _is_known(self, missing: int, known_ids: Sequence[int]) -> bool:
        return missing <= UNKNOWN_LIMIT * (missing + sum(map(self._begins_word.__getitem__, known_ids)))

    @cached_property
    def _vocabulary(self) -> Container[str]:
        """The words of the model in lower case, in which ASCII words are looked up.

        The pieces of the tokenizer itself where they are no others: a set of its own takes 4 MB.
        """
        pieces = self._tokens.pieces
        if all(token in pieces and _is_lower(token) for token in self.tokens):
            return pieces
        return frozenset(t.strip(_SPACES).lower() for t in self.tokens)

    @cached_property
    def _begins_word(self) -> list[bool]:
        """Whether each token begins a word.

        Inner pieces of tokenizers other than WordPiece have no mark, and count too.
        """
        return [not t.startswith(_INSIDE) and t.strip(_SPACES)[:1].isalpha() for t in self.tokens]


def _is_lower(token: str) -> bool:
    """Return whether a token is its own lower case, or no ASCII word in it either."""
    lower = token.strip(_SPACES).lower()
    return lower == token or not (lower.isascii() and lower.isalnum())


def load_static_model(folder: Path) -> TokenMeanModel:
    """Read a folder's model, mapped if only this program writes there.

    Raises ValueError, KeyError or OSError when it cannot be read, or an error of the tokenizer's library.
    """
    config = json.loads(foreign_files.read_file((folder / CONFIG).resolve()))
    tensors = read_tensors(folder / WEIGHTS, is_managed_folder(folder))
    return TokenMeanModel(tensors, read_tokens(folder / TOKENIZER), config)


def split_identifiers(text: str, vocabulary: Container[str] = frozenset()) -> str:
    """Split identifiers: `get HTTP Value of user id` for `getHTTPValue of user_id`.

    Models fold case and know words: otherwise a camel-case name is one unknown word. What is in `vocabulary`, the model's
    words in lower case, stays one (JavaScript, GitHub), because it may be searched that way. The model's tokenizer splits paths,
    dots and dashes.
    """
    spaced = text.replace("_", " ")
    return _COMPOUND.sub(lambda match: _split_name(match[0], vocabulary), spaced) if _MANY_WORDS.search(spaced) else spaced


def _split_name(name: str, vocabulary: Container[str]) -> str:
    """Adjacent parts that are a known word together stay together."""
    if len(name) > MAX_TOKEN or name.lower() in vocabulary:
        return name
    first, *parts = name_parts(name)
    words = [first]
    for part in parts:
        if (words[-1] + part).lower() in vocabulary:
            words[-1] += part
        else:
            words.append(part)
    return " ".join(words)
