"""Edits a JSON text at one place: sets or removes an entry, adds or removes an item of an array. Pure.

Every function returns the whole new text. The rest stays the same to the byte: comments, indentation, line ends and
trailing commas; a new line is written like its neighbours.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from memory_mcp.install.edit import values
from memory_mcp.install.edit.jsonc import Broken, Node, Part, comments, is_blank, line_end, parse, skip
from memory_mcp.install.edit.values import line_break

#: Renders a value as JSON for a line with this indentation; None: within a line.
Render = Callable[[str | None], str]

_INDENT = re.compile(r"[ \t]*")
#: The first line inside something.
_INNER_INDENT = re.compile(r"[{\[][ \t]*\r?\n([ \t]+)[^ \t\r\n]")


def value_at(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, else None."""
    return values.at(_read_value(text), keys)


def raw_at(text: str, keys: Sequence[str]) -> str | None:
    """Return the text of the value at a key path, else None."""
    node = None if is_blank(text) else _find_node(parse(text), keys)
    return None if node is None else text[node.start : node.end]


def put_value(text: str, keys: Sequence[str], value: Any) -> tuple[str, int]:
    """Set the value at a key path; return text and number.

    It is replaced in its place or appended to its object. The number is that of the objects made on the way. A blank text
    becomes an object. Raises Broken where the text is not JSON, something on the way is not an object, or the change would
    change something else.
    """
    done, new_containers = _put_value(text, keys, partial(_render_value, text, value), value)
    return _check_value(done, values.change_value(_read_value(text), keys, value)), new_containers


def put_raw(text: str, keys: Sequence[str], raw: str) -> str:
    """Set JSON text, kept as it is, at a key path.

    Where the text is blank or objects on the way are made, it is formatted again. Raises Broken where text or `raw` is not JSON,
    something on the way is not an object, or something else would change.
    """
    value = parse(raw).value
    return _check_value(_put_value(text, keys, lambda _: raw, value)[0], values.change_value(_read_value(text), keys, value))


def add(text: str, keys: Sequence[str], item: Any) -> tuple[str, int]:
    """Append an item to the array at a key path.

    The array is made where there is none. Returns the new text, and the number of containers made, the array included. Raises
    Broken where the text is not JSON, the value there is not an array, or something else would change.
    """
    root = None if is_blank(text) else parse(text)
    array = None if root is None else _find_node(root, keys)
    if array is None:
        done, new_containers = put_value(text, keys, [item])
        return done, new_containers + 1
    if not isinstance(array.value, list):
        raise Broken(f"{'.'.join(keys)} is not an array", array.start)
    done = _insert_part(text, array, partial(_render_value, text, item))
    return _check_value(done, values.change_value(_read_value(text), keys, [*array.value, item])), 0


def replace_item(text: str, keys: Sequence[str], old: Any, item: Any) -> str:
    """Replace the first item equal to `old` in an array.

    Returns the text unchanged where there is no such item or nothing at the path. Raises Broken where the text is
    not JSON, blank included.
    """
    array = _find_node(parse(text), keys)
    for part in array.parts if array is not None else ():
        if part.node.value == old:
            return _replace_value(text, part, partial(_render_value, text, item))
    return text


def drop(text: str, keys: Sequence[str]) -> str:
    """Remove the entry at a key path.

    Every one of a key that comes twice; the text is unchanged where there is none. The objects around it stay, also when empty.
    Raises Broken where the text is not JSON, or something else would change.
    """
    expected = values.remove_value(_read_value(text), keys)
    while (owner := _find_node(parse(text), keys[:-1])) is not None and isinstance(owner.value, dict):
        indexes = [i for i, part in enumerate(owner.parts) if part.key == keys[-1]]
        if not indexes:
            break
        text = _cut_part(text, owner, indexes[-1])
    return _check_value(text, expected)


def drop_items(text: str, keys: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """Remove `ours` from an array, and from arrays in its items.

    An item whose inner array becomes empty is removed too; the outer array stays. The text is unchanged where
    there is no array. Raises Broken where the text is not JSON.
    """
    array = None if is_blank(text) else _find_node(parse(text), keys)
    if array is None or not isinstance(array.value, list):
        return text
    for index in reversed(range(len(array.parts))):
        item = array.parts[index].node
        if ours(item.value):
            return drop_items(_cut_part(text, array, index), keys, ours)
        for part in item.parts if isinstance(item.value, dict) else ():
            remaining = [entry for entry in part.node.value if not ours(entry)] if isinstance(part.node.value, list) else []
            if not isinstance(part.node.value, list) or len(remaining) == len(part.node.value):
                continue
            if not remaining:
                return drop_items(_cut_part(text, array, index), keys, ours)
            inner = next(i for i, entry in enumerate(part.node.parts) if ours(entry.node.value))
            return drop_items(_cut_part(text, part.node, inner), keys, ours)
    return text


def prune(text: str, keys: Sequence[str]) -> str:
    """Remove the container at a key path if it is empty.

    Not if it holds a comment. Raises Broken where the text is not JSON, blank included.
    """
    node = _find_node(parse(text), keys)
    if node is None or not isinstance(node.value, dict | list) or not is_blank(text[node.start + 1 : node.end - 1]):
        return text
    return drop(text, keys)


def holds_nothing(text: str) -> bool:
    """Whether a text is blank, or an object without entries.

    `$schema` does not count, a comment does. Raises Broken where it is not JSON.
    """
    if is_blank(text):
        return True
    if "$schema" in parse(text).value:
        text = drop(text, ["$schema"])
    node = parse(text)
    return node.value == {} and is_blank(text[: node.start] + text[node.start + 1 : node.end - 1] + text[node.end :])


def _read_value(text: str) -> Any:
    """Return a JSON text's value, {} for a blank one.

    Raises Broken where it is not JSON.
    """
    try:
        # Twenty times as fast, and most configurations have no comments.
        return json.loads(text)
    except (ValueError, RecursionError):
        return {} if is_blank(text) else parse(text).value


def _check_value(text: str, expected: Any) -> str:
    """Return the text if it reads as exactly the wanted value.

    Else raise Broken.
    """
    if _read_value(text) != expected:
        raise Broken("it cannot be changed without changing something else", 0)
    return text


def _put_value(text: str, keys: Sequence[str], render: Render, value: Any) -> tuple[str, int]:
    """Return a text with a value set, and the objects made.

    `render` writes the value at the last key; `value` is what it writes, which is formatted again where objects around it are
    made. Raises Broken where the text is not JSON or something on the way is not an object.
    """
    if is_blank(text):
        return text + _render_value(text, _nest_value(keys, value), "") + line_break(text), len(keys) - 1
    node = parse(text)
    for depth, key in enumerate(keys):
        if not isinstance(node.value, dict):
            raise Broken(f"{'.'.join(keys[:depth]) or 'the text'} is not an object", node.start)
        part, later_keys = _find_member(node, key), keys[depth + 1 :]
        if part is None:
            render_member = partial(_render_value, text, _nest_value(later_keys, value)) if later_keys else render
            return _insert_part(text, node, partial(_render_entry, key, render_member)), len(later_keys)
        if not later_keys:
            return _replace_value(text, part, render), 0
        node = part.node
    raise AssertionError


def _nest_value(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _render_entry(key: str, render: Render, indent: str | None) -> str:
    return f"{_dump_json(key)}: {render(indent)}"


def _find_member(node: Node, key: str) -> Part | None:
    """Return the last member with a key, None for none."""
    return next((part for part in reversed(node.parts) if part.key == key), None)


def _find_node(node: Node, keys: Sequence[str]) -> Node | None:
    for key in keys:
        part = _find_member(node, key) if isinstance(node.value, dict) else None
        if part is None:
            return None
        node = part.node
    return node


def _dump_json(value: Any, indent: str | None = None) -> str:
    """Return a value as JSON text, indented if `indent` is given."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A path that is no Unicode text can only be written in escapes.
        return json.dumps(value, indent=indent)
    return text


def _render_value(text: str, value: Any, indent: str | None) -> str:
    """Return a value as JSON, formatted as `text` is."""
    if indent is None or _is_one_line(text):
        return _dump_json(value)
    return _dump_json(value, _find_indent(text)).replace("\n", line_break(text) + indent)


def _is_one_line(text: str) -> bool:
    """Whether a text is one line with a non-empty object.

    What is added goes on that line. Raises Broken for no JSON.
    """
    return text.strip() != "" and "\n" not in text.strip("\r\n") and parse(text).value != {}


def _find_indent(text: str) -> str:
    match = _INNER_INDENT.search(text)
    return (match[1].removeprefix(_line_indent(text, match.start())) if match else "") or "  "


def _line_indent(text: str, at: int) -> str:
    match = _INDENT.match(text, _line_start(text, at))
    return match[0] if match else ""


def _replace_value(text: str, part: Part, render: Render) -> str:
    return text[: part.node.start] + render(_line_indent(text, part.start)) + text[part.end :]


def _insert_part(text: str, owner: Node, render: Render) -> str:
    """Return the text with a new last part of a container.

    On a line of its own where the last part does not begin on the container's first line, and then after a comment
    after the last part; else on the same line, before a // comment. A trailing comma stays one.
    """
    if not owner.parts:
        return _insert_first(text, owner, render)
    last = owner.parts[-1]
    at = last.end if last.comma < 0 else last.comma + 1
    # After the comments that begin on the same line.
    insert_at = at
    for start, stop in comments(text, at, skip(text, at)):
        if line_end(text, insert_at) < start:
            break
        insert_at = stop
    comma, tail = (",", "") if last.comma < 0 else ("", ",")
    if "\n" in text[owner.start : last.start]:
        own_line = is_blank(text[_line_start(text, last.start) : last.start])
        indent = _line_indent(text, last.start) if own_line else _line_indent(text, owner.start) + _find_indent(text)
        return text[:at] + comma + text[at:insert_at] + line_break(text) + indent + render(indent) + tail + text[insert_at:]
    if "//" in text[at:insert_at]:
        # On the same line it would become part of the comment.
        insert_at = at
    return text[:at] + comma + text[at:insert_at] + " " + render(None) + tail + text[insert_at:]


def _insert_first(text: str, owner: Node, render: Render) -> str:
    """Return the text with the first part of an empty container."""
    at, end = owner.start + 1, owner.end - 1
    insert_at = at + len(text[at:end].rstrip(" \t\r\n"))
    outer = _line_indent(text, owner.start)
    if _is_one_line(text):
        return text[:insert_at] + render(None) + text[insert_at:]
    indent = outer + _find_indent(text)
    close = "" if "\n" in text[insert_at:end] else line_break(text) + outer
    return text[:insert_at] + line_break(text) + indent + render(indent) + close + text[insert_at:]


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _cut_part(text: str, owner: Node, index: int) -> str:
    """Return the text without one part of a container.

    Comments stay; of the last part the comma before it is removed, and a container that is then blank inside is
    closed up.
    """
    part = owner.parts[index]
    comma = part.comma if part.comma >= 0 or not index else owner.parts[index - 1].comma
    cuts = [(comma, comma + 1)] if comma >= 0 else []
    lead = len(text[: part.start].rstrip(" \t\r\n"))
    after = max(part.end, part.comma + 1)
    ends_its_line = line_end(text, after) < len(text) and is_blank(text[after : line_end(text, after)])
    earlier = max((max(p.end, p.comma + 1) for p in owner.parts if p.end < lead), default=owner.start + 1)
    in_comment = any(stop == lead and text.startswith("//", start) for start, stop in comments(text, earlier, lead))
    if in_comment and not ends_its_line:
        # Without the line break the comment would swallow what follows.
        lead = _line_start(text, part.start)
    cuts.append((lead, part.end))
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    if len(owner.parts) == 1:
        end = owner.end - sum(b - a for a, b in cuts)
        if is_blank(text[owner.start + 1 : end - 1]):
            text = text[: owner.start + 1] + text[end - 1 :]
    return text
