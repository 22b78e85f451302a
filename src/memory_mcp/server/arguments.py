"""Tells plain arguments of a tool, which need no look of the library: of the very types, within their ranges (pure)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from memory_mcp.requests.limits import Argument

#: Every reader of JSON has whole numbers from -2**63 on and less than this.
_INTEGERS = 2**63


@cache
def list_arguments(kind: Any) -> Mapping[str, tuple[Any, Argument, Any]]:
    """Return type, argument and default of the fields that tools have; MISSING for no default."""
    arguments = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if get_origin(hint := hints[field.name]) is Annotated:
            inner, argument = get_args(hint)[:2]
            if argument.is_for_tools:
                arguments[field.name] = (inner, argument, field.default)
    return arguments


def are_plain(kind: Any, values: Mapping[str, Any]) -> bool:
    """Return whether all arguments are there and plain; others are the library's."""
    arguments = list_arguments(kind)
    if any(name not in values for name, (_, _, default) in arguments.items() if default is MISSING):
        return False
    return values.keys() <= arguments.keys() and all(_is_plain(value, *arguments[name]) for name, value in values.items())


def _is_plain(value: Any, hint: Any, argument: Argument, default: Any = MISSING) -> bool:
    if get_origin(hint) is UnionType:
        hint = get_args(hint)[0]
    if argument.values:
        return value in argument.values or (value == "" == default)
    if hint in (int, float):
        bounds = argument.range
        is_number = type(value) is hint and (hint is int or math.isfinite(value))
        return is_number and (bounds is None or bounds.least <= value <= bounds.most)
    if hint is bool:
        return type(value) is bool
    is_right = isinstance(value, str) if hint is str else isinstance(value, list) and _are_plain_items(value, hint)
    return is_right and (argument.shortest or 0) <= len(value) <= (argument.longest or len(value))


def _are_plain_items(values: list[Any], hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin not in (tuple, Sequence):
        return False
    item, argument = get_args(inner[0])[:2] if get_origin(inner[0]) is Annotated else (inner[0], Argument())
    if get_origin(item) is Mapping:
        return all(isinstance(value, dict) and _is_plain_json(value) for value in values)
    return item is str and all(isinstance(value, str) and _is_plain(value, item, argument) for value in values)


def _is_plain_json(value: Any) -> bool:
    """Return whether a JSON value is the same in every reader of JSON: no number is larger than usual ones hold."""
    if isinstance(value, dict):
        return all(map(_is_plain_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -_INTEGERS <= value < _INTEGERS
