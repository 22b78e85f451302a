"""Lean schemas: the same meaning in fewer bytes."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from memory_mcp.server.schema import lean_input, lean_output
from memory_mcp.server.wire import Wire


class Inner(BaseModel):
    """Not for agents."""

    depth: Annotated[int | None, Field(ge=1)] = None


class Arguments(BaseModel):
    """Not for agents either."""

    query: Annotated[str, Field(description="What", max_length=9)]
    title: str = ""
    level: Literal["", "day"] = ""
    limit: int = 10
    inner: Inner | None = None
    names: list[str] | None = None


class Answer(Wire):
    """Nor this."""

    inner: list[Inner]
    note: str = ""
    mark: str = "x"


def test_arguments_lose_titles_nulls_and_empty_defaults_and_are_closed() -> None:
    assert lean_input(Arguments.model_json_schema()) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What"},
            "title": {"type": "string"},
            "level": {"type": "string", "enum": ["day"]},
            "limit": {"type": "integer", "default": 10},
            "inner": {"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1}}},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": False,
    } | {"description": "Not for agents either."}


def test_answers_keep_their_definitions_once_and_no_defaults() -> None:
    assert lean_output(Answer.model_json_schema()) == {
        "type": "object",
        "properties": {
            "inner": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
            "note": {"type": "string"},
            "mark": {"type": "string"},
        },
        "required": ["inner"],
        "$defs": {"Inner": {"type": "object", "properties": {"depth": {"type": "integer", "minimum": 1}}}},
    }


def test_an_answer_leaves_out_what_says_nothing_and_keeps_what_is_required() -> None:
    assert Answer(inner=[]).model_dump() == {"inner": [], "mark": "x"}
    assert Answer(inner=[], note="n", mark="").model_dump() == {"inner": [], "note": "n"}
