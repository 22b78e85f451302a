"""The program's own `dataclass` is the standard library's, made faster."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from memory_mcp.base import dataclass as fast

#: What the two decorators are given.
FLAGS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "order": True},
]


def make_classes(decorate: Callable[..., Any], flags: dict[str, bool]) -> tuple[type[Any], type[Any], type[Any]]:
    """Return a class with every kind of field, one that inherits, and one with methods that are written."""

    @decorate(**flags)
    class Reading:
        """A reading."""

        name: str
        value: float = 0.5
        tags: list[str] = dataclasses.field(default_factory=list, hash=False)
        note: str = dataclasses.field(default="", compare=False, repr=False)
        total: float = dataclasses.field(default=1.0, init=False)
        marks: list[int] = dataclasses.field(default_factory=list, init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.value * 2)

    @decorate(**flags)
    class Located(Reading):
        """A reading with a place."""

        place: str = "here"

    @decorate(**flags)
    class Named:  # noqa: PLW1641 - whether it has a hash is tested
        """A value that compares as it likes."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and self.name.lower() == other.name.lower()

        def __repr__(self) -> str:
            return self.name

    return Reading, Located, Named


def find_outcome(kind: Any, use: Callable[[Any], Any]) -> Any:
    """Return what a use gives, or the type and words of its error."""
    try:
        result = use(kind)
    except Exception as error:
        return type(error), str(error)
    # Two decorators make two classes of a name.
    return result if isinstance(result, bool | tuple | dict | list) else repr(result)


#: What is done with a class that has the fields of `Reading`.
USES: list[Callable[[Any], Any]] = [
    lambda kind: kind(name="b", tags=["t"]),
    lambda kind: kind("positional", 1.0),
    lambda kind: kind(),
    lambda kind: kind(name="a", other=1),
    lambda kind: kind(name="a").tags is kind(name="a").tags,
    lambda kind: kind(name="a", note="x") == kind(name="a", note="y"),
    lambda kind: kind(name="a") == kind(name="b"),
    lambda kind: kind(name="a") == "a",
    lambda kind: hash(kind(name="a", tags=["t"])) == hash(kind(name="a")),
    lambda kind: kind(name="a") <= kind(name="a"),
    lambda kind: kind(name="a") > kind(name="b"),
    lambda kind: setattr(kind(name="a"), "name", "c"),
    lambda kind: delattr(kind(name="a"), "value"),
    lambda kind: dataclasses.replace(kind(name="a"), name="d"),
    lambda kind: dataclasses.asdict(kind(name="a")),
    lambda kind: copy.copy(kind(name="a", value=3.0)),
    lambda kind: [field.name for field in dataclasses.fields(kind)],
    lambda kind: kind.__match_args__,
    lambda kind: getattr(kind, "__slots__", ()),
    lambda kind: list(inspect.signature(kind.__init__).parameters),
]
#: What is done with `Named`.
USES_OF_NAMED: list[Callable[[Any], Any]] = [
    lambda kind: kind(name="A") == kind(name="a"),
    lambda kind: kind(name="A"),
    lambda kind: hash(kind(name="A")) == hash(kind(name="A")),
]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_it_gives_what_the_standard_decorator_gives(flags: dict[str, bool]) -> None:
    outcomes = []
    for decorate in (dataclasses.dataclass, fast.dataclass):
        reading, located, named = make_classes(decorate, flags)
        uses = [(kind, use) for kind in (reading, located) for use in USES] + [(named, use) for use in USES_OF_NAMED]
        outcomes.append([find_outcome(kind, use) for kind, use in uses])
    assert outcomes[0] == outcomes[1]


@fast.dataclass(frozen=True, slots=True)
class Point:
    """A value that other processes are sent."""

    x: int
    y: list[int] = dataclasses.field(default_factory=list)


def test_a_frozen_value_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, [2]))) == Point(1, [2])
