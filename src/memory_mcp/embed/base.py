"""The contract of an embedder, which turns texts into vectors."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors; thread-safe.

    A text's vector does not depend on the other texts of a call.
    """

    @property
    def name(self) -> str:
        """The kind of embedder in fingerprints, such as "model2vec"."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector; raises LayerUnavailable without a model."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Return what a vector depends on, as plain JSON.

        Name, version, the model's folder, digest and dimensions. Indexes compare it to see whether their vectors are still valid.
        Raises LayerUnavailable if there is no model.
        """
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return `(texts, dimensions)` float32 rows of length 1.

        Zeros for a text without known words. Raises LayerUnavailable without a model.
        """
        ...
