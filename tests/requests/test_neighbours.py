"""Which messages around a citation become lines."""

from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.text import iter_terms
from memory_mcp.capture.evidence import ExpandedGrip
from memory_mcp.model.ids import GripId
from memory_mcp.requests.expand import choose_neighbours
from memory_mcp.requests.surroundings import BEARING_LINES
from memory_mcp.search.policy.recent import NO_TERMS, QuestionTerms
from tests.factories import event

_WORDS = [
    "try",
    "tries",
    "retrying",
    "happily",
    "capabilities",
    "getUser",
    "USERS",
    "use",
    "using",
    "the",
    "caf\u00e9",
    "\u2192",
    "C++",
]
_TERMS = [*dict.fromkeys(iter_terms(" ".join(_WORDS)))]


@given(
    st.lists(st.lists(st.sampled_from(_WORDS)), max_size=30),
    st.integers(0, 30),
    st.dictionaries(st.sampled_from(_TERMS), st.floats(0.1, 5)),
)
def test_the_lines_are_those_that_hold_most_of_the_question_and_the_nearest_of_equals(
    texts: list[list[str]], quoted: int, weights: dict[str, float]
) -> None:
    events = [event(f"{number} {' '.join(words)}", f"2026-01-12 09:{number:02}") for number, words in enumerate([*texts, []])]
    at = min(quoted, len(texts))
    quotation = ExpandedGrip(GripId("g"), "q", True, 0, None, tuple(events[:at]), (events[at],), tuple(events[at + 1 :]))
    chosen = choose_neighbours(quotation, QuestionTerms(weights, frozenset()) if weights else NO_TERMS, 3, 4)

    def rank(number: int) -> tuple[float, int, bool]:
        terms = set(iter_terms(events[number].text))
        weight = sum(weight for term, weight in weights.items() if term in terms)
        return -weight, abs(number - at), number > at

    if weights:
        others = [number for number in range(len(events)) if number != at]
        assert chosen == [events[number] for number in sorted(others, key=rank)[:BEARING_LINES]]
    else:
        assert {e.event_id for e in chosen} == {e.event_id for e in (*events[max(at - 3, 0) : at], *events[at + 1 : at + 5])}
