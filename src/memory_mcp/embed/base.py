"""What turns texts into vectors: the contract that indexes of meaning rely on."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Texts to unit vectors. Safe to use from any thread; a text's vector never depends on what it is embedded with."""

    @property
    def name(self) -> str:
        """As settings and metrics call it."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector; LayerUnavailable when the model is not there."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Everything a vector depends on, and where the model lies; plain JSON. LayerUnavailable when it is not there."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text, of length 1; zeros where nothing of the text is known. LayerUnavailable when it cannot."""
        ...
