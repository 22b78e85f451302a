"""Edits a TOML text at one place. Pure.

A new table is appended as text, so that nothing else can change; other edits are made by tomlkit, which keeps what it does
not touch. Either way the result is parsed again and must hold the wanted change and no other.
"""

import tomllib
from collections.abc import Sequence
from typing import Any

from memory_mcp.install.edit.jsonc import Broken
from memory_mcp.install.edit.values import at, change_value, remove_value
from memory_mcp.install.edit.values import line_break as line_break_of

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the parsed text; raise Broken if it is not TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Broken(str(error), 0) from None


def value_at(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, else None."""
    return at(parse_toml(text), keys)


def put_value(text: str, keys: Sequence[str], value: Any) -> str:
    """Return the text with a value at a key path.

    Raises Broken if the text is not TOML, or the change is not possible without another.
    """
    expected = [change_value(parse_toml(text), keys, value)]
    if isinstance(value, dict) and value_at(text, keys) is None:
        # One empty line before the new table.
        lead = line_break_of(text) * (0 if not text.strip() else 1 if text.endswith("\n") else 2)
        done = text + lead + block(keys, value, line_break_of(text))
        if _reads_as(done, expected):
            return done
    return _edit_text(text, keys, value, expected)


def drop(text: str, keys: Sequence[str], written: Any) -> str:
    """Return the text without the entry at a path of keys.

    Tables around it that become empty may go or stay. Raises Broken if it is not there or something else would change.
    """
    # The table around it may stay, if its user wrote its header.
    expected = [remove_value(parse_toml(text), keys, prune=True), remove_value(parse_toml(text), keys)]
    if isinstance(written, dict):
        ours = block(keys, written, line_break_of(text))
        for lead in (line_break_of(text), ""):
            at = text.find(lead + ours)
            if at >= 0 and _reads_as(done := text[:at] + text[at + len(lead + ours) :], expected):
                return done
    return _edit_text(text, keys, None, expected)


def block(keys: Sequence[str], value: dict[str, Any], line_break: str = "\n") -> str:
    """Return a table as text, then the tables inside it."""
    lines = [f"[{'.'.join(map(_key, keys))}]"]
    lines += [f"{_key(name)} = {_value(member)}" for name, member in value.items() if not isinstance(member, dict)]
    inner = [block([*keys, name], member, line_break) for name, member in value.items() if isinstance(member, dict)]
    return line_break.join([*lines, "", *inner]) if not inner else line_break.join([*lines, "", line_break.join(inner)])


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else _value(name)


def _value(value: Any) -> str:
    import tomlkit

    return str(tomlkit.item(value).as_string())


def _edit_text(text: str, keys: Sequence[str], value: Any, expected: Sequence[Any]) -> str:
    """A value of None removes the entry."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        owner = document
        for key in keys[:-1]:
            owner = owner[key] if key in owner else owner.setdefault(key, tomlkit.table(is_super_table=True))
        if value is None:
            del owner[keys[-1]]
        else:
            owner[keys[-1]] = value
        done = tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Broken(str(error), 0) from None
    if text.count("\r\n") == text.count("\n") > 0:
        done = done.replace("\r\n", "\n").replace("\n", "\r\n")
    if not _reads_as(done, expected):
        raise Broken(f"{'.'.join(keys)} cannot be changed without changing something else", 0)
    return done


def _reads_as(text: str, expected: Sequence[Any]) -> bool:
    try:
        return tomllib.loads(text) in expected
    except tomllib.TOMLDecodeError:
        return False
