"""Match new groups of segments to the former topics. Pure.

Invariants
1. A topic keeps its id as long as one group has more of its segments than any other, and few old segments of other topics.
2. Every id ever given resolves: to the topic itself, to the one that has most of its segments, or to its end.
3. The same groups and former topics give the same ids, whatever the order of the groups.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import TopicId, topic_id
from memory_mcp.model.topic import TopicChange, TopicRecord

#: Least share of common segments among the old ones of a topic and a group for them to be the same.
_SAME = 0.25
#: Least share of a new topic's old segments from one topic for it to be split from that.
_SPLIT = 0.5
#: Most entries of a topic's history, the latest.
_TURNS = 12


@dataclass(frozen=True, slots=True)
class IdentifiedTopics:
    """The topic of each group, and all topics known from now on."""

    ids: tuple[TopicId, ...]
    records: tuple[TopicRecord, ...]


def match_topics(
    groups: Sequence[Sequence[int]], former_topics: Sequence[TopicRecord], at_ms: int, areas: bool = False
) -> IdentifiedTopics:
    """Match groups, disjoint lists of segment keys, to topics or areas.

    A group continues the former topic with most in common (at least a quarter); else it gets a new id. Former
    topics without a group end, or are merged into the group that has most of their segments. Topics of the other
    kind pass unchanged.
    """
    group_of = {key: n for n, group in enumerate(groups) for key in group}
    former = [topic for topic in former_topics if not topic.is_over and topic.is_area == areas]
    shared = Counter((o, group_of[key]) for o, topic in enumerate(former) for key in topic.members if key in group_of)
    continued = _continue_topics(groups, former, shared)
    used_ids = {topic.topic_id for topic in former_topics}
    ids: list[TopicId] = []
    kind = "area" if areas else "topic"
    for c, group in enumerate(groups):
        # A new id is made from the group's members, and from a number if that one was taken.
        name, salt = former[continued[c]].topic_id if c in continued else topic_id(kind, group), 0
        while c not in continued and name in used_ids:
            salt += 1
            name = topic_id(kind, [*group, -salt])
        used_ids.add(name)
        ids.append(name)
    ended, turns = _end_topics(ids, continued, former, shared, at_ms)
    by_id = {topic.topic_id: topic for topic in former_topics}
    topics: list[TopicRecord] = [ended.get(t.topic_id, t) for t in former_topics if t.topic_id not in ids]
    for c, name in enumerate(ids):
        topic = by_id.get(name, TopicRecord(name, at_ms, areas))
        topics.append(replace(topic, members=tuple(sorted(groups[c])), merged_into=None, is_over=False))
    topics = [replace(t, changes=(*t.changes, *turns.get(t.topic_id, ()))[-_TURNS:]) for t in topics]
    return IdentifiedTopics(tuple(ids), tuple(sorted(topics, key=lambda t: t.topic_id)))


def resolve_topic(topic: TopicId, records: Mapping[TopicId, TopicRecord]) -> TopicId | None:
    """Return the current topic of an id, following mergers, or None."""
    visited: set[TopicId] = set()
    current: TopicId | None = topic
    while current is not None and current not in visited:
        record = records.get(current)
        if record is None:
            return None
        if not record.is_over:
            return current
        visited.add(current)
        current = record.merged_into
    return None


def _continue_topics(
    groups: Sequence[Sequence[int]], former: Sequence[TopicRecord], shared: Counter[tuple[int, int]]
) -> dict[int, int]:
    topic_sizes: Counter[int] = Counter()
    group_sizes: Counter[int] = Counter()
    for (o, c), count in shared.items():
        topic_sizes[o] += count
        group_sizes[c] += count
    overlap = {(o, c): count / (topic_sizes[o] + group_sizes[c] - count) for (o, c), count in shared.items()}
    order = sorted(overlap, key=lambda p: (-overlap[p], -shared[p], former[p[0]].topic_id, min(groups[p[1]])))
    continued: dict[int, int] = {}
    matched: set[int] = set()
    for o, c in order:
        if overlap[o, c] >= _SAME and o not in matched and c not in continued:
            continued[c] = o
            matched.add(o)
    return continued


def _end_topics(
    ids: Sequence[TopicId],
    continued: Mapping[int, int],
    former: Sequence[TopicRecord],
    shared: Counter[tuple[int, int]],
    at_ms: int,
) -> tuple[dict[TopicId, TopicRecord], dict[TopicId, list[TopicChange]]]:
    turns: defaultdict[TopicId, list[TopicChange]] = defaultdict(list)
    for c, name in enumerate(ids):
        if c not in continued:
            from_each = {o: count for (o, other), count in shared.items() if other == c}
            source = max(from_each, key=lambda o: (from_each[o], former[o].topic_id), default=None)
            if source is None or from_each[source] < _SPLIT * sum(from_each.values()) or source not in continued.values():
                turns[name].append(TopicChange(at_ms, "found"))
            else:
                turns[name].append(TopicChange(at_ms, "split from", former[source].topic_id))
                turns[former[source].topic_id].append(TopicChange(at_ms, "split off", name))
    ended: dict[TopicId, TopicRecord] = {}
    for o in sorted(set(range(len(former))) - set(continued.values())):
        topic = former[o]
        to_each = {c: count for (other, c), count in shared.items() if other == o}
        into = ids[max(to_each, key=lambda c: (to_each[c], ids[c]))] if to_each else None
        ended[topic.topic_id] = replace(topic, members=(), is_over=True, merged_into=into)
        turns[topic.topic_id].append(TopicChange(at_ms, "ended" if into is None else "merged into", into))
        if into is not None:
            turns[into].append(TopicChange(at_ms, "took in", topic.topic_id))
    return ended, turns
