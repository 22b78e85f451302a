"""The published shapes have a field for everything that responses say."""

from dataclasses import fields

import pytest

from memory_mcp.requests import expand, explaining, results, search, teleport
from memory_mcp.server import wire, wire_indexes, wire_policy


@pytest.mark.parametrize(
    ("response", "shape"),
    [
        (search.SearchResponse, wire_policy.SearchAnswer),
        (explaining.Explanation, wire_policy.Explanation),
        (explaining.FullExplanation, wire_policy.Explanation),
        (results.Result, wire_indexes.KeywordResult),
        (results.Result, wire_indexes.SimilarResult),
        (results.FullResult, wire_indexes.KeywordResult),
        (teleport.TeleportResponse, wire_indexes.HybridAnswer),
        (expand.ExpandResponse, wire.GripAnswer),
        (expand.Cited, wire.Grip),
        (expand.Said, wire.Said),
    ],
    ids=lambda one: one.__name__,
)
def test_a_shape_names_every_field_of_its_response(response: type, shape: type[wire.Wire]) -> None:
    of_another_index = {"bm25_score", "similarity", "keywords"}
    assert {f.name for f in fields(response)} - set(shape.model_fields) <= of_another_index
    required = {name for name, field in shape.model_fields.items() if field.is_required()}
    assert required <= {f.name for f in fields(response)}
