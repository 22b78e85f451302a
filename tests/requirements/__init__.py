"""The specifications' requirements as records, and the mark by which a test claims to prove some.

    @requirement("policy:FR-09", "error:deadline-exceeded")
    def test_a_search_past_its_deadline_returns_what_it_has() -> None: ...

The ids stand literally in the mark: `claims.py` reads them from the source, running nothing.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

import pytest

from tests.requirements.bm25 import BM25
from tests.requirements.bm25_index import BM25_INDEX
from tests.requirements.contracts import CONTRACTS
from tests.requirements.errors import ERRORS
from tests.requirements.execution import EXECUTION
from tests.requirements.goals import GOALS
from tests.requirements.plan import PLAN
from tests.requirements.policy import POLICY
from tests.requirements.record import Requirement

__all__ = ["ALL", "REQUIREMENTS", "Requirement", "requirement"]

ALL: tuple[Requirement, ...] = (
    *POLICY,
    *EXECUTION,
    *ERRORS,
    *BM25,
    *BM25_INDEX,
    *GOALS,
    *PLAN,
    *CONTRACTS,
)

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
