"""The topic graph as it is asked: topics of a part of the memory, by what they are about or how much they matter.

Everything that is said of a topic to a caller who sees one project is counted from that project's segments: label, keywords,
numbers, dates, relations. A graph never changes; what follows the store is another one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from memory_mcp.errors import NotFound
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import Link, Name, Related, RelationKind, State, Topic, View
from memory_mcp.indexes.topics.documents import terms_of
from memory_mcp.indexes.topics.identity import resolved
from memory_mcp.indexes.topics.labels import Place, folded, in_force
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import SCALE, Rows, Tables, rarity
from memory_mcp.indexes.topics.shares import Shares
from memory_mcp.model.ids import TopicId, parse_topic_id
from memory_mcp.model.toc import shown_author
from memory_mcp.model.topic import KnownTopic, TopicLabel, Turn

_DAY_MS = 86_400_000
#: Mentions of the last days count more: what was done this week is what people mean by "lately".
_LATE_MS, _BOOST = 7 * _DAY_MS, 1.5
#: Relations weaker than this are not told, by kind.
_LEAST = {RelationKind.SIMILAR: 0.5, RelationKind.CO_OCCURRING: 0.2, RelationKind.PARENT: 0.6, RelationKind.CHILD: 0.6}
#: A parent is so many times as large as its child at least.
_LARGER = 1.5
#: Of a topic's segments, the best few that say how well it fits a question.
_BEST = 3
#: What words and what meaning count for that, and the similarity that any two texts have.
_BY_WORDS, _ANY = 0.6, 0.25
#: What it counts that a topic is called by a word of the question, and how many keywords it is called by.
_CALLED, _CALLED_BY = 0.25, 4
#: A topic that fits less is none that was asked for.
_FITS = 0.12


@dataclass(frozen=True, slots=True)
class Names:
    """What a topic is called: for those who see all projects, and for those who see one."""

    topic_id: TopicId
    whole: Name
    by_project: Mapping[str, Name]

    @property
    def by_scope(self) -> dict[str | None, Name]:
        """By project, and by None for those who see all."""
        return dict([(None, self.whole), *self.by_project.items()])


#: Text in, its vector of length 1 out ((dimensions,) float32); None where nothing is embedded.
Embed = Callable[[str], Array | None]


@dataclass(frozen=True)
class TopicGraph:
    """See the module."""

    rows: Rows
    tables: Tables
    names: tuple[Names, ...]
    known: Mapping[TopicId, KnownTopic]
    #: Everything that somebody called a topic; see `in_force`.
    labels: tuple[TopicLabel, ...]
    pins: frozenset[str]
    settings: TopicsSettings
    embed: Embed

    @cached_property
    def places(self) -> Mapping[TopicId, int]:
        """Where each topic stands."""
        return {names.topic_id: place for place, names in enumerate(self.names)}

    def _silent(self, project: str | None) -> Array:
        """Say of each topic whether a scope has not mentioned it for so long, while it went on, that it is left out."""
        shares = self._of_project(project)
        if not self.settings.prune_days or not len(shares.rows):
            return np.zeros(len(self.names), dtype=bool)
        least = int(shares.rows.end.max()) - self.settings.prune_days * _DAY_MS
        found: Array = (shares.last < least) & ~self._pinned & (shares.mentions > 0)
        return found

    @cached_property
    def _pinned(self) -> Array:
        return np.array([n.topic_id in self.pins for n in self.names], dtype=bool)

    @property
    def count(self) -> int:
        """Topics that are not silent."""
        return len(self.names) - self.pruned

    @property
    def pruned(self) -> int:
        """Topics that have been silent for too long."""
        return int(np.count_nonzero(self._silent(None)))

    @cached_property
    def profiles(self) -> Profiles:
        """What topics are like, for placing segments."""
        return Profiles.of(self.rows, len(self.names))

    @cached_property
    def _everything(self) -> Shares:
        return Shares(self.rows.taken(np.flatnonzero(self.rows.topic >= 0)), len(self.names))

    @cached_property
    def _remembered(self) -> dict[str, Shares]:
        return {}

    def _of_project(self, project: str | None) -> Shares:
        """All segments of a project, or of all of them."""
        if project is None:
            return self._everything
        if project not in self._remembered:
            rows = self._everything.rows
            number = self.tables.projects.index(project) if project in self.tables.projects else -1
            self._remembered[project] = Shares(rows.taken(np.flatnonzero(rows.project == number)), len(self.names))
        return self._remembered[project]

    def _seen(self, view: View) -> Shares:
        """What a view sees."""
        whole = self._of_project(view.project)
        if view.agent is None and view.window is None:
            return whole
        keep = np.ones(len(whole.rows), dtype=bool)
        if view.agent is not None:
            keep &= np.isin(whole.rows.agents, self.tables.with_agent(view.agent))
        if view.window is not None:
            keep &= (whole.rows.start < view.window.end_ms) & (whole.rows.end >= view.window.start_ms)
        return Shares(whole.rows.taken(np.flatnonzero(keep)), len(self.names))

    def best(self, view: View, text: str = "", limit: int = 10, offset: int = 0) -> tuple[list[Topic], int]:
        """Return topics, those that fit a text best first, or the most important first (pinned ones before), and how many."""
        shares = self._seen(view)
        importance = self._importance(shares, view)
        there = (shares.mentions > 0) & ~self._silent(view.project)
        if text.strip():
            order = self._fit(shares, text, view.project) * there
            found = np.flatnonzero(order >= _FITS)
        else:
            order = importance + self._pinned * (importance.max(initial=0.0) + 1.0)
            found = np.flatnonzero(there)
        ranked = found[np.lexsort((found, -importance[found], -order[found]))]
        page = ranked[offset : offset + limit].tolist()
        fits = order if text.strip() else np.zeros(len(self.names))
        return [self._topic(p, shares, view, float(importance[p]), float(fits[p])) for p in page], len(ranked)

    def _importance(self, shares: Shares, view: View) -> Array:
        """Of the mentions that a view sees; ages are counted from the end of its time where that is over."""
        now = view.now_ms if view.window is None else min(view.now_ms, view.window.end_ms)
        if view.window is not None:  # all of a time that is asked for counts alike
            return np.bincount(shares.rows.topic, weights=shares.rows.relevance, minlength=shares.topics)
        return shares.importance(now, self.settings.half_life_days * _DAY_MS, _LATE_MS, _BOOST)

    def _fit(self, shares: Shares, text: str, project: str | None) -> Array:
        """Return how well each topic fits a text, 0..1: by the best of its segments, and by what it is called."""
        asked = terms_of(text)
        fits = self._fits(shares.rows, text, asked)
        order = np.lexsort((-fits, shares.rows.topic))
        topic = shares.rows.topic[order]
        begins = np.searchsorted(topic, np.arange(shares.topics))
        rank = np.arange(len(topic)) - begins[topic]
        best = rank < _BEST
        total = np.bincount(topic[best], weights=fits[order][best], minlength=shares.topics)
        # Two segments that fit say more than one: the mean is over as many as a topic may have.
        fit = total / _BEST
        called = np.array([self._called(p, project, asked) if n else 0.0 for p, n in enumerate(shares.mentions.tolist())])
        found: Array = np.clip(fit + _CALLED * called, 0.0, 1.0)
        return found

    def _fits(self, rows: Rows, text: str, asked: Mapping[int, float]) -> Array:
        held, total = rarity(rows, asked, np.ones(len(rows), dtype=bool))
        by_words = held / total if total else held
        vector = self.embed(text) if rows.vectors.shape[1] else None
        if vector is None:
            return by_words
        near = rows.vectors @ np.rint(vector * SCALE).astype(np.int32) / SCALE**2
        near = np.clip((near - _ANY) / (1 - _ANY), 0.0, 1.0)
        found: Array = _BY_WORDS * by_words + (1 - _BY_WORDS) * near
        return found

    def _called(self, place: int, project: str | None, asked: Mapping[int, float]) -> float:
        """Return the share of a question's words, by weight, that a topic's label and first keywords name."""
        name, _ = self._name(place, project)
        named = terms_of(" ".join((name.label, *name.keywords[:_CALLED_BY])))
        total = sum(asked.values())
        return sum(weight for hashed, weight in asked.items() if hashed in named) / total if total else 0.0

    def topic(self, topic_id: str, view: View) -> Topic:
        """Return one topic, or the one it is part of now; NotFound where a view has none of it."""
        place, shares = self._find(topic_id, view)
        return self._topic(place, shares, view, float(self._importance(shares, view)[place]), 0.0)

    def _find(self, topic_id: str, view: View) -> tuple[int, Shares]:
        wanted = resolved(parse_topic_id(topic_id), self.known)
        place = self.places.get(wanted, -1) if wanted else -1
        shares = self._seen(view)
        if place < 0 or not shares.mentions[place]:
            raise NotFound(f"no such topic: {topic_id}", "topics_by_query and `memory-mcp topics top` list those there are.")
        return place, shares

    def _topic(self, place: int, shares: Shares, view: View, importance: float, score: float) -> Topic:
        names = self.names[place]
        own = np.flatnonzero(shares.rows.topic == place)
        name, author = self._name(place, view.project)
        # A topic's state is told of all that its project says, not of the time that is looked at.
        whole = self._of_project(view.project)
        state, since = self._state(whole.rows.taken(np.flatnonzero(whole.rows.topic == place)), view.now_ms)
        return Topic(
            topic_id=names.topic_id,
            label=name.label,
            keywords=name.keywords,
            importance=float(f"{importance:.4g}"),
            mentions=len(own),
            events=int(shares.rows.events[own].sum()),
            first_ms=int(shares.rows.start[own].min()),
            last_ms=int(shares.rows.end[own].max()),
            state=state,
            since_ms=since,
            pinned=names.topic_id in self.pins,
            labelled_by=author,
            score=round(min(score, 1.0), 4),
        )

    def _name(self, place: int, project: str | None) -> tuple[Name, str]:
        """What a topic is called in a scope, and by whom."""
        names = self.names[place]
        own = names.whole if project is None else names.by_project.get(project, Name("", ()))
        given = self._in_force.get((names.topic_id, project))
        return (replace(own, label=given.label), shown_author(given.author)) if given else (own, "")

    @cached_property
    def _in_force(self) -> Mapping[Place, TopicLabel]:
        own = {(n.topic_id, project): name for n in self.names for project, name in n.by_scope.items()}
        return in_force(self.labels, own)

    def taken(self, label: str, project: str | None, other_than: TopicId) -> bool:
        """Whether another topic of a scope is called so, or calls itself so."""
        wanted, others = folded(label), (place for place, n in enumerate(self.names) if n.topic_id != other_than)
        there = (place for place in others if project in self.names[place].by_scope)
        return any(
            folded(said) == wanted
            for place in there
            for said in (self._name(place, project)[0].label, self.names[place].by_scope[project].label)
        )

    def _state(self, rows: Rows, now_ms: int) -> tuple[State, int]:
        """Whether a topic is talked about, from when its segments were, and since when."""
        dormant = self.settings.dormant_days * _DAY_MS
        order = np.argsort(rows.start, kind="stable")
        start, end = rows.start[order], np.maximum.accumulate(rows.end[order])
        last = int(end[-1])
        if now_ms - last > dormant:
            return State.DORMANT, last + int(dormant)
        quiet = np.flatnonzero(start[1:] - end[:-1] > dormant)
        if not len(quiet):
            return State.ACTIVE, int(start[0])
        resumed = int(start[1:][quiet[-1]])
        return (State.REVIVED if now_ms - resumed <= dormant else State.ACTIVE), resumed

    def links(self, topic_id: str, view: View, limit: int, offset: int = 0, text: str = "") -> tuple[list[Link], int]:
        """Return segments of a topic, those that are most about it first (with a text: that fit it best), and how many."""
        place, shares = self._find(topic_id, view)
        rows = shares.rows.taken(np.flatnonzero(shares.rows.topic == place))
        asked = terms_of(text)
        worth = rows.relevance + (2.0 * self._fits(rows, text, asked) if text.strip() else 0.0)
        order = np.lexsort((rows.lo, -rows.end, -worth))[offset : offset + limit]
        return [self._link(rows, int(p)) for p in order], len(rows)

    def _link(self, rows: Rows, place: int) -> Link:
        relevance, project = round(float(rows.relevance[place]), 4), self.tables.projects[int(rows.project[place])]
        return Link(rows.node(place), relevance, int(rows.start[place]), int(rows.end[place]), project)

    def related(self, topic_id: str, view: View, limit: int) -> list[Related]:
        """Return what else belongs to a topic, the strongest first; each other topic once, by what it is foremost."""
        place, shares = self._find(topic_id, view)
        size, own = shares.mentions, shares.mentions[place]
        found = {
            RelationKind.PARENT: shares.within(place) * (size >= _LARGER * own),
            RelationKind.CHILD: shares.holding(place) * (own >= _LARGER * np.maximum(size, 1)),
            RelationKind.SIMILAR: shares.similar(place),
            RelationKind.CO_OCCURRING: shares.beside(place),
        }
        there = (size > 0) & ~self._silent(view.project)
        there[place] = False
        told: dict[int, Related] = {}
        for kind, strength in found.items():
            for other in np.flatnonzero(there & (strength >= _LEAST[kind])).tolist():
                if other not in told:
                    label = self._name(other, view.project)[0].label
                    told[other] = Related(self.names[other].topic_id, label, kind, round(float(strength[other]), 3))
        return sorted(told.values(), key=lambda r: (-r.strength, r.topic_id))[:limit]

    def weeks(self, topic_id: str, view: View, count: int) -> list[int]:
        """Return a topic's mentions by ISO week, the last of them the week of now, or of its last mention before that."""
        place, shares = self._find(topic_id, view)
        # The first of all days was a Monday.
        week = (shares.rows.days[shares.rows.topic == place] - 1) // 7
        now = (view.now_ms // _DAY_MS + _EPOCH - 1) // 7
        newest = (shares.rows.days.max(initial=1) - 1) // 7
        last = now if now - newest < count else newest
        ago = last - week
        return np.bincount(ago[(ago >= 0) & (ago < count)], minlength=count)[::-1].tolist()  # type: ignore[no-any-return]

    def turns(self, topic_id: str) -> list[Turn]:
        """Return what happened to a topic when the memory was grouped anew, the latest last; none for one nobody knows."""
        known = self.known.get(parse_topic_id(topic_id))
        return list(known.turns) if known else []


#: The first day of 1970 as a proleptic ordinal.
_EPOCH = 719_163


def graph_of(facts: Mapping[str, Any]) -> tuple[Tables, tuple[Names, ...]]:
    """Return what `facts_of` wrote."""
    return Tables(facts["projects"], facts["agents"]), tuple(
        Names(
            TopicId(topic["id"]),
            Name(topic["label"], tuple(topic["keywords"])),
            {project: Name(label, tuple(keywords)) for project, (label, keywords) in topic["projects"].items()},
        )
        for topic in facts["topics"]
    )


def facts_of(tables: Tables, names: Iterable[Names]) -> dict[str, Any]:
    """Return projects, agents and names of topics as plain JSON."""
    return {
        "projects": tables.projects,
        "agents": [list(a) for a in tables.agents],
        "topics": [
            {
                "id": n.topic_id,
                "label": n.whole.label,
                "keywords": list(n.whole.keywords),
                "projects": {project: [name.label, list(name.keywords)] for project, name in n.by_project.items()},
            }
            for n in names
        ],
    }
