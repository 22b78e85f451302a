"""Nested values with one of them changed, to hold an edited text against. Pure."""

from collections.abc import Sequence
from typing import Any

from memory_mcp.install.edit.jsonc import Broken


def at(values: Any, keys: Sequence[str]) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return None
        values = values[key]
    return values


def changed(values: Any, keys: Sequence[str], value: Any) -> Any:
    """The values with `value` at a path of keys; Broken where something on the way holds no others."""
    if not isinstance(values, dict):
        raise Broken("on the way to " + ".".join(keys) + " stands something that holds no entries", 0)
    inner = value if len(keys) == 1 else changed(values.get(keys[0], {}), keys[1:], value)
    return {**values, keys[0]: inner}


def without(values: Any, keys: Sequence[str], prune: bool = False) -> Any:
    """The values without the one at a path of keys and, `prune`, without what is left empty by that on the way."""
    if not isinstance(values, dict) or keys[0] not in values:
        return values
    inner = None if len(keys) == 1 else without(values[keys[0]], keys[1:], prune)
    if len(keys) == 1 or (prune and inner == {}):
        return {name: one for name, one in values.items() if name != keys[0]}
    return {**values, keys[0]: inner}
