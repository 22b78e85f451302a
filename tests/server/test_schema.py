"""Lean schemas: the same meaning in fewer bytes."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from memory_mcp.server.schema import lean_input


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
