"""The topic graph of a view: topics and areas by query or importance, their segments and relations.

Topics belong to areas, a dozen or so, which overviews list. In a view of one project everything is computed from that
project's segments: label, keywords, numbers, dates, relations. A graph is immutable; following the store makes another.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import Link, Related, RelationKind, Topic, TopicName, TopicNames, TopicsStatus, View
from memory_mcp.indexes.topics.documents import Document, NameTables
from memory_mcp.indexes.topics.identity import resolve_topic
from memory_mcp.indexes.topics.labels import LabelScope, fold_label, valid_labels
from memory_mcp.indexes.topics.level import DAY_MS, Embed, Level, name_terms
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import Rows, by_area
from memory_mcp.indexes.topics.shares import Shares
from memory_mcp.model.ids import NodeId, TopicId, parse_topic_id, segment_key_of
from memory_mcp.model.toc import display_author
from memory_mcp.model.topic import MAX_LABEL, TopicChange, TopicLabel, TopicRecord
from memory_mcp.tree.summarize.titles import make_headline

#: Least strength of a relation by kind.
_LEAST = {RelationKind.SIMILAR: 0.5, RelationKind.CO_OCCURRING: 0.2}
#: Most topics listed with an area.
_PARTS = 8
#: Share of the segments from which a graph that lacks them is not healthy.
BEHIND = 0.1
#: The first day of 1970 as a proleptic ordinal; the first of all days was a Monday.
_EPOCH = 719_163


@dataclass(frozen=True)
class TopicGraph:
    """An immutable topic graph."""

    rows: Rows
    tables: NameTables
    #: Names of topics, then of areas.
    names: tuple[TopicNames, ...]
    #: The area of each topic by index.
    area_of: tuple[int, ...]
    records: Mapping[TopicId, TopicRecord]
    #: All labels that were given; see `valid_labels`.
    labels: tuple[TopicLabel, ...]
    pins: frozenset[str]
    settings: TopicsSettings
    embed: Embed
    #: Returns the profiles of topics at the last grouping: placing segments must not depend on their order.
    profiles: Callable[[], Profiles]

    def is_affected(self, segments: Collection[int], holds: Callable[[str], bool]) -> bool:
        """Return whether it has some segments, or a text that `holds`."""
        if np.isin(self.rows.lo, np.array(sorted(segments), dtype=np.uint64)).any():
            return True
        names = [name for n in self.names for name in (n.overall, *n.by_project.values())]
        texts = {text for name in names for text in (name.label, *name.keywords)}
        texts |= {agent for agents in self.tables.agents for agent in agents}
        return any(map(holds, texts.union(self.tables.projects)))

    @cached_property
    def topics(self) -> Level:
        """The level of topics."""
        return Level(self.rows, self.tables, self.names[: len(self.area_of)], self.pins, self.settings, self.embed)

    @cached_property
    def areas(self) -> Level:
        """The level of areas: segments with their areas as topics."""
        rows, names = by_area(self.topics.all_shares.rows, self.area_of), self.names[len(self.area_of) :]
        return Level(rows, self.tables, names, self.pins, self.settings, self.embed)

    @property
    def pruned_count(self) -> int:
        """Number of topics that are hidden because they are old."""
        return int(np.count_nonzero(self.topics.silent_topics(None)))

    @property
    def topic_count(self) -> int:
        """Number of visible topics, areas excluded."""
        return int(np.count_nonzero(self.topics.all_shares.mentions)) - self.pruned_count

    def status(self, pending_count: int, segments: int) -> TopicsStatus:
        """Return the state if `pending_count` of so many segments came since."""
        by_meaning = self.rows.vectors.shape[1] > 0
        message = "" if by_meaning else "grouped by terms alone: the vector index is off"
        if is_renewed := pending_count > 0 and pending_count >= BEHIND * segments:
            message = f"being renewed: at least {pending_count:,} of {segments:,} segments came since topics were looked for"
        return TopicsStatus(
            enabled=True,
            healthy=not is_renewed,
            topic_count=self.topic_count,
            segments=len(self.rows),
            unassigned=int(np.count_nonzero(self.rows.topic < 0)),
            behind=pending_count,
            is_renewed=is_renewed,
            by_meaning=by_meaning,
            pruned=self.pruned_count,
            message=message,
        )

    def best_topics(self, view: View, text: str, limit: int, subject: str = "") -> list[Topic]:
        """Return topics and areas that fit a text, then important others.

        None if none fits, but the text is about a subject; see `find_fitting`.
        """
        fitting = self.find_fitting(view, text, limit, subject)[0] if text.strip() else []
        if not fitting and self.topics.is_subject(self.topics.select_view(view), subject):
            return []
        ids = {topic.topic_id for topic in fitting}
        return [*fitting, *(topic for topic in self.list_topics(view, limit)[0] if topic.topic_id not in ids)][:limit]

    def list_topics(self, view: View, limit: int, offset: int = 0, areas: bool = True) -> tuple[list[Topic], int]:
        """Return a page of areas (or topics), and their number.

        Pinned ones first, then by importance. Hidden ones and those without a segment in the view do not count.
        """
        level = self.areas if areas else self.topics
        shares = level.select_view(view)
        importance = level.compute_importance(shares, view)
        order = importance + level.pinned * (importance.max(initial=0.0) + 1.0)
        listed = np.flatnonzero((shares.mentions > 0) & ~level.hidden_topics(view))
        ranked = listed[np.lexsort((listed, -order[listed]))]
        page = ranked[offset : offset + limit].tolist()
        return [self._describe_topic(level, p, shares, view, float(importance[p])) for p in page], len(ranked)

    def find_fitting(self, view: View, text: str, limit: int, subject: str = "") -> tuple[list[Topic], int]:
        """Return topics and areas that fit a text, alternating, and their number.

        An area answers a wide question and a topic a narrow one; which was asked is unknown. Old ones are left out.
        `subject` are the words of the text that a topic must hold; "" for all.
        """
        lists = [self._rank_fitting(level, view, text, subject or text) for level in (self.topics, self.areas)]
        lists.sort(key=lambda matches: -matches[0][-1] if matches else 0.0)
        mixed = [match for pair in zip_longest(*lists) for match in pair if match is not None]
        return [self._describe_topic(*match) for match in mixed[:limit]], len(mixed)

    def _rank_fitting(
        self, level: Level, view: View, text: str, subject: str
    ) -> list[tuple[Level, int, Shares, View, float, float]]:
        """Return arguments of `_describe_topic` for fitting topics, best first."""
        shares = level.select_view(view)
        importance = level.compute_importance(shares, view)
        name_shares = level.name_shares(
            shares, subject, lambda index: name_terms(self._label_in_scope(level, index, view.project)[0])
        )
        accepted, fit = level.find_fitting(shares, text, subject, name_shares)
        accepted &= (shares.mentions > 0) & ~level.hidden_topics(view)
        if level is self.areas:  # an area of a single topic is listed as the topic
            visible = self.topics.select_view(view).mentions > 0
            areas = np.array(self.area_of, dtype=np.int64)[visible]
            accepted &= np.bincount(areas, minlength=len(self.areas.names)) > 1
        candidates = np.flatnonzero(accepted)
        ranked = candidates[np.lexsort((candidates, -importance[candidates], -fit[candidates]))].tolist()
        return [(level, index, shares, view, float(importance[index]), float(fit[index])) for index in ranked]

    def get_topic(self, topic_id: str, view: View) -> Topic:
        """Return a topic or area, or what it was merged into, in the view.

        Raises NotFound if the view has none, InvalidQuery for an id of another form.
        """
        level, index, shares = self._find_topic(topic_id, view)
        return self._describe_topic(level, index, shares, view, float(level.compute_importance(shares, view)[index]))

    def _find_topic(self, topic_id: str, view: View) -> tuple[Level, int, Shares]:
        """Raises NotFound if the view has none, InvalidQuery for another form."""
        # Topics of this graph are found even if the store has a newer grouping already.
        parsed_id = parse_topic_id(topic_id)
        is_current = parsed_id in self.topics.indices or parsed_id in self.areas.indices
        resolved_id = parsed_id if is_current else resolve_topic(parsed_id, self.records)
        for level in (self.topics, self.areas):
            index = level.indices.get(resolved_id, -1) if resolved_id else -1
            if index >= 0 and (shares := level.select_view(view)).mentions[index]:
                return level, index, shares
        raise NotFound(f"no such topic: {topic_id}", "topics_by_query and `memory-mcp topics top` list those there are.")

    def _describe_topic(
        self, level: Level, index: int, shares: Shares, view: View, importance: float, score: float = 0.0
    ) -> Topic:
        """The view must have a segment of the topic."""
        rows = np.flatnonzero(shares.rows.topic == index)
        name, author = self._label_in_scope(level, index, view.project)
        state, since = level.find_state(index, view)
        topic_id = level.names[index].topic_id
        inside = self._topics_in_area(index, self.topics.select_view(view).mentions)[:_PARTS] if level is self.areas else []
        return Topic(
            topic_id=topic_id,
            label=name.label,
            keywords=name.keywords,
            parts=tuple(self._label_in_scope(self.topics, part, view.project)[0].label for part in inside),
            importance=float(f"{importance:.4g}"),
            mentions=len(rows),
            events=int(shares.rows.events[rows].sum()),
            first_ms=int(shares.rows.start[rows].min()),
            last_ms=int(shares.rows.end[rows].max()),
            state=state,
            since_ms=since,
            pinned=topic_id in self.pins,
            labelled_by=author,
            score=round(min(score, 1.0), 4),
        )

    def _topics_in_area(self, area: int, mentions: Array) -> list[int]:
        topics = np.flatnonzero((np.array(self.area_of, dtype=np.int64) == area) & (mentions > 0))
        ordered: list[int] = topics[np.argsort(-mentions[topics], kind="stable")].tolist()
        return ordered

    def _label_in_scope(self, level: Level, index: int, project: str | None) -> tuple[TopicName, str]:
        names = level.names[index]
        words_name = names.overall if project is None else names.by_project.get(project, TopicName("", ()))
        label = self._valid_labels.get((names.topic_id, project))
        return (replace(words_name, label=label.label), display_author(label.author)) if label else (words_name, "")

    @cached_property
    def _valid_labels(self) -> Mapping[LabelScope, TopicLabel]:
        words_names = {(n.topic_id, project): name for n in self.names for project, name in n.by_scope.items()}
        return valid_labels(self.labels, words_names)

    def is_label_used(self, label: str, project: str | None, other_than: TopicId) -> bool:
        """Return whether another topic than `other_than` has this label.

        Labels are the same if they have the same terms, whatever the case and order. `project` None is the scope of all
        projects.
        """
        key = fold_label(label)
        return any(
            fold_label(existing) == key
            for level in (self.topics, self.areas)
            for index, names in enumerate(level.names)
            if names.topic_id != other_than and project in names.by_scope
            for existing in (self._label_in_scope(level, index, project)[0].label, names.by_scope[project].label)
        )

    def list_links(self, topic_id: str, view: View, limit: int, offset: int = 0, text: str = "") -> tuple[list[Link], int]:
        """Return a page of a topic's segments, and their number.

        `relevance` of each is that to the topic, whatever the text. Raises NotFound for no such topic in the view.
        """
        level, index, shares = self._find_topic(topic_id, view)
        of_topic = np.flatnonzero(shares.rows.topic == index)
        rows = shares.rows
        value = rows.relevance[of_topic] + (2.0 * level.segment_fits(shares, text)[of_topic] if text.strip() else 0.0)
        order = of_topic[np.lexsort((rows.lo[of_topic], -rows.end[of_topic], -value))[offset : offset + limit]]
        links = []
        for n in order.tolist():
            project = self.tables.projects[int(rows.project[n])]
            relevance = round(float(rows.relevance[n]), 4)
            links.append(Link(rows.node_id_at(n), relevance, int(rows.start[n]), int(rows.end[n]), project))
        return links, len(of_topic)

    def find_related(self, topic_id: str, view: View, limit: int) -> list[Related]:
        """Return parent or children, then similar and co-occurring topics.

        The strength of a parent or child is the share of the area that the topic is. Each is listed once, as what it is
        most. Weak relations, and old topics other than parent and children, are left out. Raises NotFound.
        """
        level, index, shares = self._find_topic(topic_id, view)
        candidates = (shares.mentions > 0) & ~level.hidden_topics(view)
        candidates[index] = False
        strongest: dict[int, Related] = {}
        for kind, strength in (
            (RelationKind.SIMILAR, shares.compute_similarities(index)),
            (RelationKind.CO_OCCURRING, shares.co_occurrences(index)),
        ):
            for other in np.flatnonzero(candidates & (strength >= _LEAST[kind])).tolist():
                related = self._describe_related(level, other, kind, float(strength[other]), view)
                if other not in strongest or related.strength > strongest[other].strength:
                    strongest[other] = related
        topic_mentions, area_mentions = self.topics.select_view(view).mentions, self.areas.select_view(view).mentions
        if level is self.topics:
            area = self.area_of[index]
            share = topic_mentions[index] / max(area_mentions[area], 1)
            family = [self._describe_related(self.areas, area, RelationKind.PARENT, share, view)] if area_mentions[area] else []
        else:
            inside = self._topics_in_area(index, topic_mentions)
            family = [
                self._describe_related(self.topics, p, RelationKind.CHILD, topic_mentions[p] / area_mentions[index], view)
                for p in inside
            ]
        return [*family, *sorted(strongest.values(), key=lambda r: (-r.strength, r.topic_id))][:limit]

    def _describe_related(self, level: Level, index: int, kind: RelationKind, strength: float, view: View) -> Related:
        return Related(
            level.names[index].topic_id,
            self._label_in_scope(level, index, view.project)[0].label,
            kind,
            round(float(strength), 3),
        )

    def weekly_mentions(self, topic_id: str, view: View, count: int) -> list[int]:
        """Return a topic's mentions in each of `count` weeks, oldest first.

        The last is the current week, or that of the view's newest mention of anything if that is `count` weeks ago or
        more. Raises NotFound.
        """
        _, index, shares = self._find_topic(topic_id, view)
        week = (shares.rows.days[shares.rows.topic == index] - 1) // 7
        current_week = (view.now_ms // DAY_MS + _EPOCH - 1) // 7
        newest = (int(shares.rows.days.max(initial=1)) - 1) // 7
        ago: Array = (current_week if current_week - newest < count else newest) - week
        counts: list[int] = np.bincount(ago[(ago >= 0) & (ago < count)], minlength=count)[::-1].tolist()
        return counts

    def mentions_by_week(self, topic_id: str, view: View) -> list[tuple[int, int]]:
        """Return (ordinal of Monday, mentions) of each week; raises NotFound."""
        _, index, shares = self._find_topic(topic_id, view)
        mondays, counts = np.unique((shares.rows.days[shares.rows.topic == index] - 1) // 7 * 7 + 1, return_counts=True)
        return list(zip(mondays.tolist(), counts.tolist(), strict=True))

    def topic_history(self, topic_id: str) -> list[TopicChange]:
        """Return what happened to a topic in groupings; raises InvalidQuery."""
        topic = self.records.get(parse_topic_id(topic_id))
        return list(topic.changes) if topic else []


#: Keywords of a topic's name in a project that has its first segment of it.
_KEYWORDS = 8


def place_segments(graph: TopicGraph, documents: Sequence[Document], vectors: Array, changed: Collection[NodeId]) -> TopicGraph:
    """Return a graph with some segments replaced, each placed.

    A project that gets its first segment of a topic names it, and its area, after that segment. `documents` are
    those of `changed` that exist, the rows of `changed` are dropped; `vectors` are `(documents, dimensions)`
    float32 of length 1 or 0.
    """
    tables = NameTables(graph.tables.projects, graph.tables.agents)
    changed_keys = np.array([segment_key_of(node) or 0 for node in changed], dtype=np.uint64)
    unchanged = graph.rows.select(np.flatnonzero(~np.isin(graph.rows.lo, changed_keys)))
    fresh = tables.build_rows(documents, vectors)
    fresh = fresh.with_topics(*graph.profiles().find_nearest(fresh))
    rows = Rows.merge([unchanged, fresh])
    names = list(graph.names)
    by_key = {segment_key_of(document.node_id): document for document in documents}
    for row in np.flatnonzero(fresh.topic >= 0).tolist():
        topic, project = int(fresh.topic[row]), tables.projects[int(fresh.project[row])]
        document = by_key[int(fresh.lo[row])]
        name = TopicName(make_headline(document.title, MAX_LABEL), document.keywords[:_KEYWORDS])
        for index in (topic, len(graph.area_of) + graph.area_of[topic]):
            if project not in names[index].by_project:
                names[index] = replace(names[index], by_project={**names[index].by_project, project: name})
    return replace(graph, rows=rows, tables=tables, names=tuple(names))
