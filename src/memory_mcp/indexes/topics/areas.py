"""Group topics into areas for overviews, a dozen or so of each 200 topics. Pure."""

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.communities import Resolution, communities
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import Rows

#: Topics that each topic is linked to, besides those that are linked to it.
_NEIGHBOURS = 8
#: Resolution of modularity: 8 to 16 areas of 50 to 200 topics. Ten areas name 76 % of what a reader named in coding sessions
#: and 45 % in phone records, ten topics 40 and 17 %. It grows with the topics from 200 on, so that the areas of one part of the
#: memory do not melt because others are added.
_FINENESS, _TOPICS = 3.0, 200


def areas_of(rows: Rows, count: int) -> Array:
    """Return the area of each of `count` topics, `(topics,)` int32, numbered from 0 by their number of segments, most first.

    Each topic is linked to the 8 most similar; a topic similar to none is an area of its own. Empty for no topics.
    """
    if not count:
        return np.zeros(0, dtype=np.int32)
    similarity = Profiles.of(rows, count).similarities()
    np.fill_diagonal(similarity, 0)
    links: list[dict[int, float]] = [{} for _ in range(count)]
    for topic, neighbours in enumerate(np.argsort(-similarity, axis=1, kind="stable")[:, :_NEIGHBOURS].tolist()):
        for neighbour in neighbours:
            if similarity[topic, neighbour] > 0:
                links[topic][neighbour] = links[neighbour][topic] = float(similarity[topic, neighbour])
    resolution = Resolution(np.zeros(count, dtype=np.int64), np.array([_FINENESS * max(1.0, count / _TOPICS)]))
    area = communities(resolution.scale(links), range(count))
    segment_counts = np.bincount(area, weights=np.bincount(rows.topic[rows.topic >= 0], minlength=count))
    rank = np.empty(len(segment_counts), dtype=np.int32)
    rank[np.lexsort((np.arange(len(segment_counts)), -segment_counts))] = np.arange(len(segment_counts))
    numbered: Array = rank[area]
    return numbered
