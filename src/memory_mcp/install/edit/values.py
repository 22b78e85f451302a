"""Changes one value of nested dictionaries, with which edited texts are compared; and how lines of a text end. Pure."""

from collections.abc import Sequence
from typing import Any

from memory_mcp.install.edit.jsonc import Broken


def line_break(text: str) -> str:
    """Return the line end of a text's first line, else LF."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def at(values: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, itself not copied."""
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return None
        values = values[key]
    return values


def change_value(values: Any, keys: Sequence[str], value: Any) -> Any:
    """Return a copy with `value` at a key path.

    Dictionaries are made; raises Broken where something on the way is none.
    """
    if not isinstance(values, dict):
        raise Broken("on the way to " + ".".join(keys) + " is something that has no entries", 0)
    inner = value if len(keys) == 1 else change_value(values.get(keys[0], {}), keys[1:], value)
    return {**values, keys[0]: inner}


def remove_value(values: Any, keys: Sequence[str], prune: bool = False) -> Any:
    """Return a copy without the value at a path of keys.

    The same values where there is none. With `prune` the dictionaries on the way that become empty are removed too.
    """
    if not isinstance(values, dict) or keys[0] not in values:
        return values
    inner = None if len(keys) == 1 else remove_value(values[keys[0]], keys[1:], prune)
    if len(keys) == 1 or (prune and inner == {}):
        return {name: member for name, member in values.items() if name != keys[0]}
    return {**values, keys[0]: inner}
