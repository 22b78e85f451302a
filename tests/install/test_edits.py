"""Edits of JSON text, on texts that nobody thought of: the wanted change, no other, and no byte lost."""

import json
from typing import Any

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as some

from memory_mcp.install.edit import splice, toml
from memory_mcp.install.edit.jsonc import Broken, parse

KEYS = some.text(max_size=6) | some.sampled_from(["servers", "memory", "hooks", "a"])
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False) | some.text(max_size=9),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = some.dictionaries(KEYS, VALUES, max_size=4)
BLANKS = some.sampled_from(["", " ", "\n", "\r\n", "\t", "\n  ", " // it's { [ \"\n", "/* , } */", " /**/ \n\n", "//\r\n"])


@some.composite
def written(draw: some.DrawFn, values: some.SearchStrategy[Any] = OBJECTS) -> tuple[str, Any]:
    """A value, and one of the many ways to write it: blanks and comments anywhere, commas at ends."""
    value = draw(values)
    return draw(BLANKS) + _text(draw, value) + draw(BLANKS), value


def _text(draw: some.DrawFn, value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    parts = []
    for one in value.items() if isinstance(value, dict) else value:
        key = f"{json.dumps(one[0], ensure_ascii=False)}{draw(BLANKS)}:{draw(BLANKS)}" if isinstance(value, dict) else ""
        parts.append(draw(BLANKS) + key + _text(draw, one[1] if isinstance(value, dict) else one) + draw(BLANKS))
    comma = "," + draw(BLANKS) if bool(parts) and draw(some.booleans()) else ""
    inside = ",".join(parts) + comma if parts else draw(BLANKS)
    return f"{{{inside}}}" if isinstance(value, dict) else f"[{inside}]"


def kept(old: str, new: str) -> bool:
    """Whether all of `old` stands in `new`, in order."""
    rest = iter(new)
    return all(letter in rest for letter in old)


def with_entry(values: dict[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    inner = value if len(keys) == 1 else with_entry(values.get(keys[0], {}), keys[1:], value)
    return {**values, keys[0]: inner}


@given(written())
def test_what_is_read_is_what_another_reader_reads(sample: tuple[str, Any]) -> None:
    text, value = sample
    assert parse(text).value == value
    assert json5.loads(text) == value


@given(written(), KEYS, VALUES)
def test_an_entry_is_put_in_and_taken_out(sample: tuple[str, Any], key: str, value: Any) -> None:
    text, was = sample
    new, made = splice.put_value(text, [key], value)
    assert parse(new).value == {**was, key: value}
    assert made == 0
    if key not in was:
        assert kept(text, new)
        out = splice.drop(new, [key])
        assert parse(out).value == was
        # What is lost beside the entry is blank: every word and comment stays.
        assert kept("".join(text.split()), "".join(out.split()))


@given(written(), some.lists(KEYS, min_size=2, max_size=4), VALUES)
def test_objects_on_the_way_are_made_or_it_is_refused(sample: tuple[str, Any], keys: list[str], value: Any) -> None:
    text, was = sample
    there, possible = was, True
    for key in keys[:-1]:
        there = there.get(key, {})
        possible = possible and isinstance(there, dict)
        if not possible:
            break
    if not possible:
        with pytest.raises(Broken):
            splice.put_value(text, keys, value)
        return
    new, made = splice.put_value(text, keys, value)
    assert parse(new).value == with_entry(was, keys, value)
    out = splice.drop(new, keys)
    for depth in range(len(keys) - 1, len(keys) - 1 - made, -1):
        out = splice.prune(out, keys[:depth])
    if keys[-1] not in (there if isinstance(there, dict) else {}):
        assert parse(out).value == was


@given(written(some.dictionaries(some.just("list"), some.lists(VALUES, max_size=3), max_size=1)), VALUES.filter(bool))
def test_an_item_is_added_behind_the_others_and_taken_out(sample: tuple[str, Any], item: Any) -> None:
    text, was = sample
    new, made = splice.add(text, ["list"], item)
    assert parse(new).value == {"list": [*was.get("list", []), item]}
    assert kept(text, new)
    assert made == (0 if "list" in was else 1)
    last = [True]

    def ours(there: Any) -> bool:
        return there == item and isinstance(there, type(item)) and last[0]

    if item not in was.get("list", []) and not any(_holds(one, item) for one in was.get("list", [])):
        out = splice.drop_items(new, ["list"], ours)
        assert parse(out).value == ({"list": was["list"]} if "list" in was else {"list": []})


def _holds(value: Any, item: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(one, list) and item in one for one in value.values())


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1', '{"a" 1}', '{"a": 1 "b": 2}', "{,}", '{"a": 1,,}', "{'a': 1}", "{a: 1}", '{"a": 01}', '{"a": .5}'),
        *('{"a": "\n"}', '{"a": NaN}', "nul", '{"a": "x}', "{} {}", "/* {}", "[1 2]", '{"a": tru}', "{" * 5000, "# x\n{}"),
        '{"a": "\\x"}',
        "<<<<<<< HEAD\n{}",
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(Broken):
        splice.put_value(text, ["servers", "memory"], {})


@pytest.mark.parametrize("text", ["[]", '"x"', "1", "null", '{"servers": []}', '{"servers": null}', '{"servers": "x"}'])
def test_where_no_entry_can_stand_it_is_refused(text: str) -> None:
    with pytest.raises(Broken, match=r"not an object|no entries"):
        splice.put_value(text, ["servers", "memory"], {})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "m": {\n    "x": 1\n  }\n}\n'),
        ('{\n\t"a": 1,\n}\n', '{\n\t"a": 1,\n\t"m": {\n\t\t"x": 1\n\t},\n}\n'),
        ('{\n    "a": 1 // one\n}', '{\n    "a": 1, // one\n    "m": {\n        "x": 1\n    }\n}'),
        ('{"a":1}', '{"a":1, "m": {"x": 1}}'),
        ("{}\n", '{\n  "m": {\n    "x": 1\n  }\n}\n'),
        ('{\r\n  "a": 1\r\n}', '{\r\n  "a": 1,\r\n  "m": {\r\n    "x": 1\r\n  }\r\n}'),
        ("{\n  // none\n}\n", '{\n  // none\n  "m": {\n    "x": 1\n  }\n}\n'),
    ],
)
def test_an_entry_is_written_as_its_neighbours_are(text: str, wanted: str) -> None:
    assert splice.put_value(text, ["m"], {"x": 1})[0] == wanted


TOML_VALUES = some.text(max_size=9) | some.booleans() | some.lists(some.text(max_size=6), max_size=3)
TABLES = some.dictionaries(
    some.text(min_size=1, max_size=6), TOML_VALUES | some.dictionaries(KEYS, some.text(max_size=5), max_size=2), max_size=4
)


@given(TABLES, some.sampled_from(["", "\n", "\n\n# end"]), some.sampled_from(["\n", "\r\n"]))
def test_a_table_is_put_at_the_end_and_taken_out(table: dict[str, Any], tail: str, line_break: str) -> None:
    import tomlkit

    text = (tomlkit.dumps({"model": "x", "mcp_servers": {"other": table}}) + tail).replace("\r\n", "\n").replace("\n", line_break)
    was = toml.parse_toml(text)
    new = toml.put_value(text, ("mcp_servers", "memory"), {"command": 'C:\\"x"', "args": ["serve"], "env": {"A B": "1"}})
    assert new.startswith(text)
    assert toml.parse_toml(new)["mcp_servers"].pop("memory")["env"] == {"A B": "1"}
    wrote = toml.parse_toml(new)["mcp_servers"]["memory"]
    assert toml.drop(new, ("mcp_servers", "memory"), wrote) in (text, text + line_break)
    assert toml.parse_toml(toml.drop(new, ("mcp_servers", "memory"), {"other": 1})) == was
