"""Turns responses into JSON values, measures them in bytes and tokens, and says what is unknown. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from json.encoder import encode_basestring
from typing import Any, TypeVar

from memory_mcp.model.tokens import estimate_tokens, tokens_in

T = TypeVar("T")

#: Above the results of an answer that is none.
NOT_HERE = "Probably not in this memory"


def as_json(value: Any) -> Any:
    """Return a value as JSON values, dataclasses as objects.

    Enums become their values, keys text. Of a dataclass, fields that hold their default, None or an empty text or collection
    are left out, unless they have no default. Values of other types are returned unchanged.
    """
    kind: Any = type(value)
    return value if kind in _PLAIN else _find_converter(kind)(value)


#: Types of most values, which stay as they are.
_PLAIN = frozenset((str, int, float, bool, type(None)))


@cache
def _find_converter(kind: type) -> Callable[[Any], Any]:
    """Return what converts the values of a type."""
    if issubclass(kind, Enum):
        return _convert_enum
    if issubclass(kind, str | int | float):
        return _keep_value
    if is_dataclass(kind):
        return partial(_convert_object, _list_fields(kind))
    if issubclass(kind, Mapping):
        return _convert_mapping
    return _convert_list if issubclass(kind, list | tuple) else _keep_value


def _convert_object(all_fields: Sequence[tuple[str, bool, Any]], value: Any) -> dict[str, Any]:
    json_object = {}
    for name, required, default in all_fields:
        field_value = getattr(value, name)
        kind: Any = type(field_value)
        if not required:
            if field_value is default or field_value is None or field_value == default:
                continue
            if not field_value and issubclass(kind, _MAY_BE_EMPTY):
                continue
        json_object[name] = field_value if kind in _PLAIN else _find_converter(kind)(field_value)
    return json_object


#: Types whose empty values are left out of an object.
_MAY_BE_EMPTY = (str, tuple, list, Mapping)


def _convert_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): as_json(element) for key, element in value.items()}


def _convert_list(value: Sequence[Any]) -> list[Any]:
    return [as_json(element) for element in value]


def _convert_enum(value: Enum) -> Any:
    return value.value


def _keep_value(value: Any) -> Any:
    return value


@cache
def _list_fields(kind: type) -> tuple[tuple[str, bool, Any], ...]:
    """Return (name, is required, default) of each field; `MISSING` for a factory."""
    return tuple((f.name, f.default is MISSING and f.default_factory is MISSING, f.default) for f in fields(kind))


def copy_fields(kind: type[T], value: object, /, **changes: Any) -> T:
    """Return a `kind` with `changes`, other fields copied from `value`."""
    constructor: Any = kind
    return kind(**{name: getattr(value, name) for name, _, _ in _list_fields(constructor) if name not in changes}, **changes)


def format_compact(value: Any) -> str:
    """Return a value, through `as_json`, as compact JSON text."""
    return _COMPACT.encode(as_json(value))


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def size_of(value: Any) -> int:
    """Return the bytes of a response as compact JSON in UTF-8."""
    text = encode_basestring(value) if type(value) is str else format_compact(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def tokens_of(value: Any, factor: float) -> int:
    """Return the estimated tokens of a response as compact JSON."""
    return estimate_tokens(format_compact(value), factor)


def list_size(sizes: Sequence[int]) -> int:
    """Return the bytes of a list of values with these sizes."""
    return len("[]") + sum(sizes) + max(len(sizes) - 1, 0)


def count_fitting(sizes: Iterable[int], tokens: float, factor: float) -> int:
    """Return how many of the first values, by their sizes, a list of so many tokens holds."""
    list_bytes, count = len("["), 0
    for size in sizes:
        list_bytes += size + len(",")
        if tokens_in(list_bytes, factor) > tokens:
            break
        count += 1
    return count


def fits_in(budget: float, factor: float) -> Callable[[object], bool]:
    """Return a test whether a response costs at most `budget` tokens."""
    return lambda value: tokens_of(value, factor) <= budget


def find_fullest(make: Callable[[int], T], fits: Callable[[T], bool], least: int, most: int) -> T | None:
    """Return what the largest fitting number makes; None if none fits.

    Numbers are from `least` to `most`. Found by bisection: where a number fits, every smaller one must fit too.
    """
    number = find_largest(lambda number: fits(make(number)), least, most)
    return None if number is None else make(number)


def find_largest(fits: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the largest number that fits; None if none does.

    Numbers are from `least` to `most`. Found by bisection: where a number fits, every smaller one must fit too.
    """
    if not fits(least):
        return None
    if fits(most):
        return most
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def unknown_line(answer: Mapping[str, Any]) -> str:
    """Return a line of the unknown words; "" for none."""
    words = ", ".join(answer.get("missing", ()))
    return f"Not in this memory: {words}" if words else ""
