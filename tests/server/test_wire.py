"""The published shapes have a field for everything that responses say."""

from dataclasses import fields

import pytest

from memory_mcp.requests import expand, explaining, indexes, one_topic, results, search, teleport, topic_shapes, topics
from memory_mcp.server import wire, wire_indexes, wire_policy, wire_topics


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
        (topics.FoundTopics, wire_topics.TopTopicsAnswer),
        (topic_shapes.TopicSegment, wire_topics.TopicSegment),
        (topic_shapes.RelatedTopic, wire_topics.RelatedTopic),
        (one_topic.FoundNodes, wire_topics.TopicNodesAnswer),
        (one_topic.FoundRelated, wire_topics.RelatedTopicsAnswer),
        (one_topic.Labelled, wire_topics.LabelledTopic),
        (indexes.TopicGraphStatus, wire_topics.TopicGraphStatus),
    ],
    ids=lambda one: one.__name__,
)
def test_a_shape_names_every_field_of_its_response(response: type, shape: type[wire.Wire]) -> None:
    of_another_index = {"bm25_score", "similarity", "keywords"}
    assert {f.name for f in fields(response)} - set(shape.model_fields) <= of_another_index
    required = {name for name, field in shape.model_fields.items() if field.is_required()}
    assert required <= {f.name for f in fields(response)}
