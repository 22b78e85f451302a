"""Turns responses into JSON values, measures them in bytes and tokens, and says what is unknown. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from json.encoder import encode_basestring
from typing import Any, TypeVar

from memory_mcp.model.tokens import estimate_tokens

T = TypeVar("T")

#: Above the results of an answer that is none.
NOT_HERE = "Probably not in this memory"


def as_json(value: Any) -> Any:
    """Return a value as JSON values, dataclasses as objects.

    Enums become their values, keys text. Of a dataclass, fields that hold their default, None or an empty text or collection
    are left out, unless they have no default. Values of other types are returned unchanged.
    """
    if isinstance(value, _PLAIN) and not isinstance(value, Enum):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        json_object = {}
        for name, required, default in _list_fields(type(value)):
            field_value = getattr(value, name)
            if not required and (field_value is None or field_value == default):
                continue
            if required or field_value or not isinstance(field_value, str | tuple | list | Mapping):
                json_object[name] = as_json(field_value)
        return json_object
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): as_json(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(element) for element in value]
    return value


_PLAIN = (str, int, float, bool)


@cache
def _list_fields(kind: type) -> tuple[tuple[str, bool, Any], ...]:
    """Return (name, is required, default) of a dataclass's fields.

    The default is `MISSING` for a factory.
    """
    return tuple((f.name, f.default is MISSING and f.default_factory is MISSING, f.default) for f in fields(kind))


def copy_fields(kind: type[T], value: object, /, **changes: Any) -> T:
    """Return a `kind` with `changes`, other fields copied from `value`."""
    constructor: Any = kind
    return kind(**{name: getattr(value, name) for name, _, _ in _list_fields(constructor) if name not in changes}, **changes)


def format_compact(value: Any) -> str:
    """Return a value, through `as_json`, as compact JSON text."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":"))


def size_of(value: Any) -> int:
    """Return the bytes of a response as compact JSON in UTF-8."""
    text = encode_basestring(value) if type(value) is str else format_compact(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def tokens_of(value: Any, factor: float) -> int:
    """Return the estimated tokens of a response as compact JSON."""
    return estimate_tokens(format_compact(value), factor)


def fits_in(budget: float, factor: float) -> Callable[[object], bool]:
    """Return a test whether a response costs at most `budget` tokens."""
    return lambda value: tokens_of(value, factor) <= budget


def find_fullest(make: Callable[[int], T], fits: Callable[[T], bool], least: int, most: int) -> T | None:
    """Return what the largest fitting number makes; None if none fits.

    Numbers are from `least` to `most`. Found by bisection: where a number fits, every smaller one must fit too.
    """
    best = make(least)
    if not fits(best):
        return None
    if fits(largest := make(most)):
        return largest
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        candidate = make(middle)
        if fits(candidate):
            low, best = middle, candidate
        else:
            high = middle
    return best


def unknown_line(answer: Mapping[str, Any]) -> str:
    """Return a line of the unknown words; "" for none."""
    words = ", ".join(answer.get("missing", ()))
    return f"Not in this memory: {words}" if words else ""
