"""The specifications' requirements as records, and the mark by which a test claims to prove some.

    @requirement("policy:FR-09", "error:deadline-exceeded")
    def test_a_search_past_its_deadline_returns_what_it_has() -> None: ...

The ids stand literally in the mark: `claims.py` reads them from the source, running nothing.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.requirements.record import Requirement, read

__all__ = ["ALL", "REQUIREMENTS", "Requirement", "requirement"]

ALL: tuple[Requirement, ...] = tuple(one for path in sorted(Path(__file__).parent.glob("*.toml")) for one in read(path))

REQUIREMENTS: Mapping[str, Requirement] = MappingProxyType({one.id: one for one in ALL})


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as proof of these requirements; LookupError for an id that is none."""
    if not ids:
        raise LookupError("a mark names at least one requirement")
    for one in ids:
        if one not in REQUIREMENTS:
            near = ", ".join(get_close_matches(one, REQUIREMENTS)) or "nothing like it"
            raise LookupError(f"no requirement {one!r}; near it: {near}")
    return pytest.mark.requirement(*ids)
