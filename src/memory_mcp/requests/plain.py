"""A response as JSON values, and what it costs whoever reads it: one form for both doors. Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from memory_mcp.model.tokens import estimate_tokens


def as_json(value: Any) -> Any:
    """Dataclasses as objects, in the order of their fields. A field that holds its default, or nothing, is left out."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: as_json(held) for f, held in shown if _required(f) or not (held == f.default or _is_empty(held))}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value


def _required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)


def compact(value: Any) -> str:
    """The JSON that an agent reads, without white space."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":"))


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
