"""Match new groups of segments to the former topics. Pure.

Invariants
1. A topic keeps its id as long as one group has more of its segments than any other, and few old segments of other topics.
2. Every id ever given resolves: to the topic itself, to the one that has most of its segments, or to its end.
3. The same groups and former topics give the same ids, whatever the order of the groups.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from memory_mcp.model.ids import TopicId, topic_id
from memory_mcp.model.topic import KnownTopic, Turn

#: Least share of common segments among the old ones of a topic and a group for them to be the same.
_SAME = 0.25
#: Least share of a new topic's old segments from one topic for it to be split from that.
_SPLIT = 0.5
#: Most entries of a topic's history, the latest.
_TURNS = 12


@dataclass(frozen=True, slots=True)
class Identified:
    """The topic of each group, and all topics known from now on."""

    ids: tuple[TopicId, ...]
    known: tuple[KnownTopic, ...]


def identified(groups: Sequence[Sequence[int]], known: Sequence[KnownTopic], at_ms: int, areas: bool = False) -> Identified:
    """Match groups, disjoint non-empty lists of segment keys, to topics (or areas), and tell what became of each.

    A group continues the former topic with most in common (at least a quarter); else it gets a new id. Former topics without a
    group end, or are merged into the group that has most of their segments. Topics of the other kind pass unchanged.
    """
    place = {key: n for n, group in enumerate(groups) for key in group}
    before = [topic for topic in known if not topic.is_over and topic.is_area == areas]
    shared = Counter((o, place[key]) for o, topic in enumerate(before) for key in topic.members if key in place)
    kept = _matched(groups, before, shared)
    taken = {topic.topic_id for topic in known}
    ids: list[TopicId] = []
    kind = "area" if areas else "topic"
    for c, group in enumerate(groups):
        # A new id is made from the group's members, and from a number if that one was taken.
        name, salt = before[kept[c]].topic_id if c in kept else topic_id(kind, group), 0
        while c not in kept and name in taken:
            salt += 1
            name = topic_id(kind, [*group, -salt])
        taken.add(name)
        ids.append(name)
    over, turns = _told(ids, kept, before, shared, at_ms)
    old = {topic.topic_id: topic for topic in known}
    told: list[KnownTopic] = [over.get(t.topic_id, t) for t in known if t.topic_id not in ids]
    for c, name in enumerate(ids):
        one = old.get(name, KnownTopic(name, at_ms, areas))
        told.append(replace(one, members=tuple(sorted(groups[c])), merged_into=None, is_over=False))
    told = [replace(t, turns=(*t.turns, *turns.get(t.topic_id, ()))[-_TURNS:]) for t in told]
    return Identified(tuple(ids), tuple(sorted(told, key=lambda t: t.topic_id)))


def resolved(topic: TopicId, known: Mapping[TopicId, KnownTopic]) -> TopicId | None:
    """Return the current topic of an id, following mergers; None if it has ended or never existed."""
    seen: set[TopicId] = set()
    now: TopicId | None = topic
    while now is not None and now not in seen:
        found = known.get(now)
        if found is None:
            return None
        if not found.is_over:
            return now
        seen.add(now)
        now = found.merged_into
    return None


def _matched(groups: Sequence[Sequence[int]], before: Sequence[KnownTopic], shared: Counter[tuple[int, int]]) -> dict[int, int]:
    """Return the index in `before` of the topic that each group continues, by group; new groups are left out.

    `shared` are numbers of common segments by index in `before` and group; pairs with the largest share in common come first.
    """
    alive: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for (o, c), count in shared.items():
        alive[o] += count
        held[c] += count
    worth = {(o, c): count / (alive[o] + held[c] - count) for (o, c), count in shared.items()}
    order = sorted(worth, key=lambda p: (-worth[p], -shared[p], before[p[0]].topic_id, min(groups[p[1]])))
    kept: dict[int, int] = {}
    used: set[int] = set()
    for o, c in order:
        if worth[o, c] >= _SAME and o not in used and c not in kept:
            kept[c] = o
            used.add(o)
    return kept


def _told(
    ids: Sequence[TopicId], kept: Mapping[int, int], before: Sequence[KnownTopic], shared: Counter[tuple[int, int]], at_ms: int
) -> tuple[dict[TopicId, KnownTopic], dict[TopicId, list[Turn]]]:
    """Return the topics that no group continues, as ended, by id; and what happened to each topic, by id.

    A new group was split from a topic that goes on and had at least half of it, which is told of both, else found. A topic
    that ended was merged into the group with most of its segments, if any has one, which is told of both.
    """
    turns: defaultdict[TopicId, list[Turn]] = defaultdict(list)
    for c, name in enumerate(ids):
        if c not in kept:
            from_each = {o: count for (o, other), count in shared.items() if other == c}
            most = max(from_each, key=lambda o: (from_each[o], before[o].topic_id), default=None)
            if most is None or from_each[most] < _SPLIT * sum(from_each.values()) or most not in kept.values():
                turns[name].append(Turn(at_ms, "found"))
            else:
                turns[name].append(Turn(at_ms, "split from", before[most].topic_id))
                turns[before[most].topic_id].append(Turn(at_ms, "split off", name))
    over: dict[TopicId, KnownTopic] = {}
    for o in sorted(set(range(len(before))) - set(kept.values())):
        topic = before[o]
        to_each = {c: count for (other, c), count in shared.items() if other == o}
        into = ids[max(to_each, key=lambda c: (to_each[c], ids[c]))] if to_each else None
        over[topic.topic_id] = replace(topic, members=(), is_over=True, merged_into=into)
        turns[topic.topic_id].append(Turn(at_ms, "ended" if into is None else "merged into", into))
        if into is not None:
            turns[into].append(Turn(at_ms, "took in", topic.topic_id))
    return over, turns
