"""In how many texts something is named in, how much it tells of two that both name it out: for themes and topics alike."""

import math

#: How sharply rarity counts: of 240 items a term is best that 50 of them name, of ten one that three name.
_SHARPNESS = 1.5


def rarity(held: int, of: int) -> float:
    """How telling it is to share what `held` of `of` texts name; above 0 for all that fewer than all name."""
    return float(math.log((of + 1) / held) ** _SHARPNESS)
