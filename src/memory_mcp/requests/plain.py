"""A response as JSON values, and what it costs whoever reads it: one form for both doors. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from json.encoder import encode_basestring
from typing import Any

from memory_mcp.model.tokens import estimate_tokens


def as_json(value: Any) -> Any:
    """Dataclasses as objects, in the order of their fields. A field that holds its default, or nothing, is left out."""
    if isinstance(value, _PLAIN) and not isinstance(value, Enum):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        made = {}
        for name, required, default in _shape(type(value)):
            held = getattr(value, name)
            if required or not (held == default or _is_empty(held)):
                made[name] = as_json(held)
        return made
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value


_PLAIN = (str, int, float, bool)


@cache
def _shape(kind: type) -> tuple[tuple[str, bool, Any], ...]:
    """Name, whether it is always told, and default of each field of a dataclass."""
    return tuple((f.name, f.default is MISSING and f.default_factory is MISSING, f.default) for f in fields(kind))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)


def compact(value: Any) -> str:
    """The JSON that an agent reads, without white space."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":"))


def size_of(value: Any) -> int:
    """Bytes of a response in its compact JSON form."""
    text = encode_basestring(value) if type(value) is str else compact(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def tokens_of(value: Any, factor: float) -> int:
    """Tokens of a response in its compact JSON form."""
    return estimate_tokens(compact(value), factor)


def largest(least: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number from `least` to `most` that fits, where every smaller one fits too; None if `least` does not."""
    if not fits(least):
        return None
    if fits(most):
        return most
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
