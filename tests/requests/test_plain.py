"""Responses as JSON values: what is said and what is left out."""

from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from memory_mcp.requests.plain import as_json, count_fitting, find_fullest, format_compact, list_size, size_of, tokens_of


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    name: str
    note: str = ""


@dataclass(frozen=True)
class Outer:
    items: tuple[Inner, ...]
    complete: bool = True
    outside: bool = False
    colour: Colour | None = None
    more: dict[str, int] = field(default_factory=dict)


def test_a_field_that_holds_its_default_or_nothing_is_left_out() -> None:
    assert as_json(Outer(())) == {"items": []}
    full = Outer((Inner("a", "b"),), complete=False, outside=True, colour=Colour.RED, more={"token_budget": 3})
    assert as_json(full) == {
        "items": [{"name": "a", "note": "b"}],
        "complete": False,
        "outside": True,
        "colour": "red",
        "more": {"token_budget": 3},
    }


def test_what_it_costs_is_counted_over_the_compact_json() -> None:
    assert format_compact(Outer(())) == '{"items":[]}'
    assert tokens_of(Outer((Inner("账本"),)), 1.0) == -(-len('{"items":[{"name":"账本"}]}'.encode()) // 4)


@pytest.mark.parametrize("most", [0, 1, 7, 41, 42, 43, 1000])
def test_the_largest_number_that_fits_is_found(most: int) -> None:
    assert find_fullest(int, lambda n: n <= 42, 0, most) == min(most, 42)
    assert find_fullest(int, lambda _: False, 3, most + 3) is None


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_a_list_is_measured_by_the_sizes_of_its_values(factor: float) -> None:
    values = [Inner("é" * n, "a" * (n % 3)) for n in range(12)]
    sizes = list(map(size_of, values))
    assert list_size(sizes) == len(format_compact(values).encode())
    assert list_size([]) == len("[]")
    for count in range(len(values) + 1):
        budget = tokens_of(values[:count], factor)
        fitting = count_fitting(sizes, budget, factor)
        assert tokens_of(values[:fitting], factor) <= budget
        assert fitting == len(values) or tokens_of(values[: fitting + 1], factor) > budget
