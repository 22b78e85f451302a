"""The weight of a term that two texts share, for themes and topics alike."""

import math

#: Exponent of rarity: the best term of 240 items is in about 50 of them, of ten items in three.
_SHARPNESS = 1.5


def rarity(held: int, of: int) -> float:
    """Return the weight of a term that `held` (at least 1) of `of` texts hold; above 0, higher for rarer terms."""
    return float(math.log((of + 1) / held) ** _SHARPNESS)
