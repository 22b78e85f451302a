"""Topics, or areas, in a view: which exist, their importance and fit to a text.

Change here: how well a topic fits a question.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import cjk_runs
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import State, TopicName, TopicNames, View
from memory_mcp.indexes.topics.documents import NameTables, spaced_terms_of, terms_of
from memory_mcp.indexes.topics.rows import QueryTerms, Rows
from memory_mcp.indexes.topics.shares import Shares

DAY_MS = 86_400_000
#: Age up to which mentions are recent, and their boost.
_LATE_MS, _BOOST = 7 * DAY_MS, 1.5
#: Best segments of a topic that determine its fit.
_BEST = 3
#: Weights of the fit: words and vectors of these, words of all segments (fully from the share `_ENOUGH`), and the name by label
#: and first keywords. Chosen on the tuning half of `bench.topics`; no number changes it much.
_BY_WORDS, _BY_MEANING, _BY_SHARE, _ENOUGH = 0.4, 0.4, 0.2, 0.5
_BY_NAME, _CALLED_BY = 0.25, 4
#: Least fit of a topic to a text, and least share of the text's words, by weight, that the topic holds, those that no segment
#: holds included, or else similarity of its best segments. Of 20 questions about nothing in the memory a quarter (500 segments)
#: to .7 (12,000) fit a topic without this, .05 to .35 with it; of questions about it .95 to 1.0 and .9 to 1.0.
_FITS, _COVERS, _NEAR = 0.2, 0.25, 0.5
#: Share of the words from which a topic whose name holds them fits as well.
_NAMED = 0.99
#: Least share that a topic holds of a text of which segments hold so much: it may name several topics.
_OF_MANY, _KNOWN = 0.12, 0.9
#: Least weight of the words that name what a question is about, where segments hold them and where none does: "wingman" does,
#: "our work so far" does not, and "which hobbies come up" asks for an overview where hobbies are spoken of in passing.
_SUBJECT, _ABSENT_SUBJECT = 1.1, 1.0

#: Texts whose results are kept.
_TEXTS = 2

#: Returns the unit vector of a text, `(dimensions,)` float32; None without an embedder.
Embed = Callable[[str], Array | None]


@dataclass(frozen=True)
class Level:
    """Rows with their topics of one level, the names of these, and pins."""

    rows: Rows
    tables: NameTables
    names: tuple[TopicNames, ...]
    pins: frozenset[str]
    settings: TopicsSettings
    embed: Embed
    #: Segments by project (see `of_project`); caches of the last narrower view and the last texts, needed for each topic.
    _project_shares: dict[str, Shares] = field(init=False, repr=False, compare=False, default_factory=dict)
    _latest: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    @cached_property
    def indices(self) -> Mapping[str, int]:
        """Index in `names` of each topic by id."""
        return {names.topic_id: index for index, names in enumerate(self.names)}

    @cached_property
    def pinned(self) -> Array:
        """Which topics are pinned, `(topics,)` bool."""
        return np.array([n.topic_id in self.pins for n in self.names], dtype=bool)

    @cached_property
    def all_shares(self) -> Shares:
        """The segments of all projects that have a topic with keywords."""
        return self._with_keywords(self.rows, None)

    def project_shares(self, project: str | None) -> Shares:
        """Return a project's segments that have a topic with keywords there."""
        if project is None:
            return self.all_shares
        if project not in self._project_shares:
            number = self.tables.projects.index(project) if project in self.tables.projects else -1
            rows = self.rows.select(np.flatnonzero(self.rows.project == number))
            self._project_shares[project] = self._with_keywords(rows, project)
        return self._project_shares[project]

    def _with_keywords(self, rows: Rows, project: str | None) -> Shares:
        """Without keywords a topic says nothing and is not shown."""
        scopes = (names.by_scope.get(project) for names in self.names)
        # One more for rows without a topic, whose index is -1.
        has_keywords = np.array([*(bool(name and name.keywords) for name in scopes), False])
        visible = has_keywords[rows.topic]
        return Shares(rows if visible.all() else rows.select(np.flatnonzero(visible)), len(self.names))

    def select_view(self, view: View) -> Shares:
        """Return the segments in a view that have a topic."""
        project_shares = self.project_shares(view.project)
        if view.agent is None and view.window is None:
            return project_shares
        key = view.project, view.agent, view.window
        latest = self._latest.get("seen")
        if latest is None or latest[0] != key:
            visible = np.ones(len(project_shares.rows), dtype=bool)
            if view.agent is not None:
                visible &= np.isin(
                    project_shares.rows.agents, [n for n, names in enumerate(self.tables.agents) if view.agent in names]
                )
            if view.window is not None:
                visible &= (project_shares.rows.start < view.window.end_ms) & (project_shares.rows.end >= view.window.start_ms)
            narrowed = Shares(project_shares.rows.select(np.flatnonzero(visible)), len(self.names))
            latest = self._latest["seen"] = key, narrowed
        shares: Shares = latest[1]
        return shares

    def hidden_topics(self, view: View) -> Array:
        """Return which topics a view hides as old; none in a time window."""
        return self.silent_topics(view.project) if view.window is None else np.zeros(len(self.names), dtype=bool)

    def silent_topics(self, project: str | None) -> Array:
        """Return which topics a scope has not mentioned for `prune_days`.

        Not pinned ones, nor those without segments. Counted back from the last `min_segments` segments: after half a
        year without any, all topics are still there. No topic if `prune_days` is 0.
        """
        shares = self.project_shares(project)
        if not self.settings.prune_days or not len(shares.rows):
            return np.zeros(len(self.names), dtype=bool)
        ends = np.sort(shares.rows.end)
        least = int(ends[-min(len(ends), self.settings.min_segments)]) - self.settings.prune_days * DAY_MS
        silent: Array = (shares.last_mention < least) & ~self.pinned & (shares.mentions > 0)
        return silent

    def compute_importance(self, shares: Shares, view: View) -> Array:
        """Return topics' importance: relevance of their mentions, recent ones more."""
        if view.window is not None:
            return np.bincount(shares.rows.topic, weights=shares.rows.relevance, minlength=shares.topics)
        return shares.compute_importance(view.now_ms, self.settings.half_life_days * DAY_MS, _LATE_MS, _BOOST)

    def name_shares(self, shares: Shares, subject: str, terms_of_name: Callable[[int], frozenset[int]]) -> Array:
        """Return the share of a subject's words that each topic's name holds.

        Words of little weight count if there are no others. `terms_of_name` returns the term hashes of a topic's name.
        """
        subject_terms = terms_of(subject) or terms_of(subject, least=0.0)
        total = sum(subject_terms.values())
        name_shares = np.zeros(shares.topics)
        for topic in np.flatnonzero(shares.mentions).tolist() if total else ():
            terms = terms_of_name(topic)
            name_shares[topic] = sum(weight for term, weight in subject_terms.items() if term in terms) / total
        return name_shares

    def compute_fit(self, shares: Shares, text: str, name_shares: Array) -> Array:
        """Return the fit of each topic to a text, `(topics,)`, 0..1.

        By words and vectors of its three best segments, by the share of its segments that hold the words, and by its
        name. A topic with fewer segments is not favoured.
        """
        matches, best, _ = self._score_segments(shares, text)
        total = _of_best(shares, best)
        total += _BY_SHARE * matches.by_topic(shares.rows.topic, shares.mentions, _ENOUGH)
        clipped: Array = np.clip(total + _BY_NAME * name_shares, 0.0, 1.0)
        return clipped

    def find_fitting(self, shares: Shares, text: str, subject: str, name_shares: Array) -> tuple[Array, Array]:
        """Return which topics fit a text, bool, and the fit of each."""
        fit = self.compute_fit(shares, text, name_shares)
        matches = QueryTerms.from_rows(shares.rows, terms_of(subject), spaced_terms_of(subject))
        covered = matches.by_topic(shares.rows.topic, shares.mentions, _ENOUGH) * matches.known_share
        # The other words of a question are near to whatever is written in its language.
        nearest = _of_best(shares, self._score_segments(shares, subject)[2])
        least = _OF_MANY if matches.known_share >= _KNOWN else _COVERS
        accepted: Array = (fit >= _FITS) & ((covered >= least) | (nearest >= _NEAR) | (name_shares >= _NAMED))
        return accepted, fit

    def is_subject(self, shares: Shares, subject: str) -> bool:
        """Return whether a question with these words is about them alone.

        In scripts without blanks two adjacent characters do.
        """
        weights = spaced_terms_of(subject)
        is_known = QueryTerms.from_rows(shares.rows, terms_of(subject), weights).known_share >= _KNOWN
        least = _SUBJECT if is_known else _ABSENT_SUBJECT
        return sum(weights.values()) >= least or any(len(run) > 1 for run in cjk_runs(subject))

    def segment_fits(self, shares: Shares, text: str) -> Array:
        """Return the fit of each segment to a text, `(rows,)`, 0..1."""
        return self._score_segments(shares, text)[1]

    def _score_segments(self, shares: Shares, text: str) -> tuple[QueryTerms, Array, Array]:
        """Results of the last texts, a question and its subject, are cached; similarity is 0 without vectors."""
        latest = self._latest.get("read")
        if latest is None or latest[0] is not shares:
            latest = self._latest["read"] = shares, OrderedDict[str, tuple[QueryTerms, Array, Array]]()
        readings: OrderedDict[str, tuple[QueryTerms, Array, Array]] = latest[1]
        reading = readings.get(text)
        if reading is None:
            matches = QueryTerms.from_rows(shares.rows, terms_of(text))
            vector = self.embed(text) if shares.rows.vectors.shape[1] else None
            similarity = np.zeros(len(shares.rows)) if vector is None else shares.similarities_to(vector)
            fits = _BY_WORDS * matches.by_row() + _BY_MEANING * similarity
            reading = readings[text] = matches, fits, similarity
            while len(readings) > _TEXTS:
                readings.popitem(last=False)
        return reading

    def find_state(self, topic: int, view: View) -> tuple[State, int]:
        """Return a topic's state in a scope, and when it began (UTC ms).

        Dormant begins `dormant_days` after the last mention. After a pause as long it is revived for `dormant_days`,
        then active. The scope must have a segment of the topic.
        """
        scope_shares = self.project_shares(view.project)
        rows, of_topic = scope_shares.rows, np.flatnonzero(scope_shares.rows.topic == topic)
        dormant = self.settings.dormant_days * DAY_MS
        order = of_topic[np.argsort(rows.start[of_topic], kind="stable")]
        start, end = rows.start[order], np.maximum.accumulate(rows.end[order])
        last = int(end[-1])
        if view.now_ms - last > dormant:
            return State.DORMANT, last + int(dormant)
        quiet = np.flatnonzero(start[1:] - end[:-1] > dormant)
        if not len(quiet):
            return State.ACTIVE, int(start[0])
        resumed = int(start[1:][quiet[-1]])
        return (State.REVIVED if view.now_ms - resumed <= dormant else State.ACTIVE), resumed


def _of_best(shares: Shares, values: Array) -> Array:
    """Return the mean of each topic's three highest values; missing count 0."""
    order = np.lexsort((-values, shares.rows.topic))
    topic = shares.rows.topic[order]
    is_best = np.arange(len(topic)) - np.searchsorted(topic, np.arange(shares.topics))[topic] < _BEST
    mean: Array = np.bincount(topic[is_best], weights=values[order][is_best], minlength=shares.topics) / _BEST
    return mean


# Cached because every query needs them, and placing segments keeps names.
@lru_cache(maxsize=4096)
def name_terms(name: TopicName) -> frozenset[int]:
    """Return term hashes of a label and its first four keywords."""
    return frozenset(terms_of(" ".join((name.label, *name.keywords[:_CALLED_BY])), least=0.0))
