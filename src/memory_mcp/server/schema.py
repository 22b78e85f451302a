"""Shortens generated JSON schemas: what an agent reads costs its context on every connection. Pure."""

from typing import Any

_NULL = {"type": "null"}
#: Defaults that say "not given"; the argument being optional says as much.
_NOTHING: tuple[Any, ...] = (None, "", [], {})
#: Left to the server, which says so in words when they are passed.
_SILENT = ("title", "maxLength", "maxItems")


def lean_input(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a lean schema of a tool's arguments.

    The one given stays as it is. References are replaced by their definitions without descriptions; titles, nulls, empty
    defaults and bounds of length are left out, as the server checks these itself; unknown arguments are refused at the top.
    """
    slim: dict[str, Any] = _slim_schema(
        _inline_references({k: v for k, v in schema.items() if k != "$defs"}, schema.get("$defs", {}))
    )
    return {**slim, "additionalProperties": False}


def _inline_references(value: Any, definitions: dict[str, Any]) -> Any:
    """Return part of a schema with its references replaced."""
    if isinstance(value, list):
        return [_inline_references(v, definitions) for v in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = definitions[value["$ref"].rsplit("/", 1)[-1]]
        return _inline_references({k: v for k, v in target.items() if k != "description"}, definitions)
    return {k: _inline_references(v, definitions) for k, v in value.items()}


def _slim_schema(schema: Any) -> Any:
    """Return a schema without what says nothing, at every level.

    That is titles, bounds of length, nulls and empty defaults. "" is no value of a list of values; a choice of one remaining
    type becomes that type. What is no dict is returned as it is.
    """
    if not isinstance(schema, dict):
        return schema
    slim = {k: v for k, v in schema.items() if k not in _SILENT and not (k == "default" and v in _NOTHING)}
    if slim.get("additionalProperties") is True:  # what a schema that says nothing of them means
        del slim["additionalProperties"]
    if "anyOf" in slim:
        real = [option for option in slim.pop("anyOf") if option != _NULL]
        slim = ({**_slim_schema(real[0]), **slim} if len(real) == 1 else {"anyOf": real, **slim}) if real else slim
        slim.pop("title", None)
    if "enum" in slim:
        slim["enum"] = [v for v in slim["enum"] if v != ""]
    if "properties" in slim:
        slim["properties"] = {name: _slim_schema(part) for name, part in slim["properties"].items()}
    for name in ("items", "additionalProperties"):
        if name in slim:
            slim[name] = _slim_schema(slim[name])
    return slim
