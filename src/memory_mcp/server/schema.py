"""JSON schemas of the tools, kept short: they are sent on every connection. Pure.

Those of responses are made from their dataclasses: descriptions are the annotations of fields whose name does not explain
itself, and what only detail="full" adds is left out. Those of arguments are generated ones, shortened.

Change here: what an agent or a command's `--json` says.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

_NULL = {"type": "null"}
#: Defaults that say "not given"; the argument being optional says as much.
_NOTHING: tuple[Any, ...] = (None, "", [], {})
#: Left to the server, which says so in words when they are passed.
_SILENT = ("title", "maxLength", "maxItems")
_TYPES: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_TOPIC = "score keywords mentions first_mentioned last_mentioned state since pinned labelled_by related"
_RESULT = "agent session kind score times last also superseded_by flag why_superseded since"
#: Fields that are not published, by the published name of their type, or the tool's name for those of its response itself.
_HIDDEN = {
    "Bullet": "superseded_by why_superseded since",
    "CountedTopic": f"{_TOPIC} nodes",
    "Explanation": "why_not",
    "Grip": "project",
    "KeywordResult": f"{_RESULT} fit similarity",
    "Lag": "index_changes",
    "LayerInfo": "contract",
    "Result": f"{_RESULT} bm25_score similarity",
    "SimilarResult": f"{_RESULT} fit bm25_score",
    "Step": "searched_level",
    "Store": "projects agents",
    "Topic": f"{_TOPIC} parts events weeks",
    "expand_grip": "superseded_by why_superseded flag pinned since",
    "get_retrieval_status": "healthy",
    "intelligent_search": "next probability",
    "teleport_search": "partial",
    "topics_by_query": "total next_cursor scope",
    "vector_teleport": "partial total_hits",
}
#: Published names of types that several tools share, where they are not the types' own.
_NAMES = {
    ("continue_session", "Statement"): "AccountLine",
    ("get_top_topics", "TopicInfo"): "CountedTopic",
    ("handoff", "Statement"): "AccountLine",
    ("teleport_search", "Result"): "KeywordResult",
    ("topics_by_query", "TopicInfo"): "Topic",
    ("vector_teleport", "Result"): "SimilarResult",
}
#: Types that are published without their fields.
_CLOSED: Mapping[str, dict[str, Any]] = {
    "AccountLine": {"type": "object"},
    "Brief": {"type": "object"},
    "ProjectOverview": {"type": "object"},
    "Theme": {"type": "object"},
    "TopicNode": {"type": "object"},
}
#: Fields with a default that the tool's response always has.
_ALWAYS = {"teleport_search": "total_hits", "hybrid_search": "partial total_hits"}


def output_schema(tool: str, response: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's response, a dataclass.

    Each inner type is there once, without defaults and nulls. Only of the response's own fields it says which are required; of
    alternative types it shows the first.
    """
    definitions: dict[str, Any] = {}

    def object_of(kind: type[Any], name: str) -> dict[str, Any]:
        hints, hidden = get_type_hints(kind, include_extras=True), _HIDDEN.get(name, "").split()
        return {"properties": {f.name: value_of(hints[f.name]) for f in fields(kind) if f.name not in hidden}, "type": "object"}

    def value_of(hint: Any) -> dict[str, Any]:
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return dict(sorted({"description": inner[1], **value_of(inner[0])}.items()))
        if origin is UnionType:
            return value_of(inner[0])
        if hint is Any:
            return {}
        if hint in _TYPES:
            return {"type": _TYPES[hint]}
        if origin is None:  # a dataclass
            name = _NAMES.get((tool, hint.__name__), hint.__name__)
            if name in _CLOSED:
                return _CLOSED[name]
            definitions[name] = object_of(hint, name)
            return {"$ref": f"#/$defs/{name}"}
        if not issubclass(origin, Mapping):
            return {"items": value_of(inner[0]), "type": "array"}
        values = value_of(inner[1])
        return {"additionalProperties": values, "type": "object"} if values else {"type": "object"}

    properties, always = object_of(response, tool)["properties"], _ALWAYS.get(tool, "").split()
    needed = {f.name for f in fields(response) if f.name in always or (f.default is f.default_factory is MISSING)}
    schema = {"properties": properties, "required": [name for name in properties if name in needed], "type": "object"}
    return {**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema


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
