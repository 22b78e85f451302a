"""The frozen list of secret kinds through the rules: the share that is stopped, in open and in held surroundings."""

from collections import Counter

import pytest

from memory_mcp.redact.redact import Redactor
from tests.ingest.secret_kinds import KINDS, survivors

REDACTOR = Redactor()
#: Values of each kind, and the least share of all of them that must be stopped.
COUNT, SHARE = 15, 0.97


@pytest.mark.parametrize("held", [False, True])
def test_of_all_values_nearly_none_remains(held: bool, request: pytest.FixtureRequest) -> None:
    count = 4 * COUNT if request.config.getoption("--slow") else COUNT
    left = survivors(lambda text: REDACTOR.redact(text, Counter()), held, count)
    assert sum(map(len, left.values())) <= (1 - SHARE) * count * len(KINDS), {kind: len(texts) for kind, texts in left.items()}


def test_the_list_is_as_long_as_promised() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 160
    assert all(kind.open and kind.held for kind in KINDS)
