"""Topics of one level, or areas, as a view sees them: which there are, how much they matter, how well they fit a question."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics.base import Name, Names, State, View
from memory_mcp.indexes.topics.documents import terms_of
from memory_mcp.indexes.topics.rows import Asked, Rows
from memory_mcp.indexes.topics.shares import Shares
from memory_mcp.indexes.topics.tables import Tables

DAY_MS = 86_400_000
#: Mentions of the last days count more: what was done this week is what people mean by "lately".
_LATE_MS, _BOOST = 7 * DAY_MS, 1.5
#: Of a topic's segments, the best few that say how well it fits a question.
_BEST = 3
#: What counts for that: the words and the meaning of these, the words of all its segments (wholly where so many hold one), and
#: how it is called, by label and first keywords. Chosen on the tuning half of `bench.topics`; no number moves it by much.
_BY_WORDS, _BY_MEANING, _BY_SHARE, _ENOUGH = 0.4, 0.4, 0.2, 0.5
_BY_NAME, _CALLED_BY = 0.25, 4
#: Share of a text's words, by weight, that a topic must hold for the text to name one.
_NAMES = 0.15

#: Text in, its vector of length 1 out ((dimensions,) float32); None where nothing is embedded.
Embed = Callable[[str], Array | None]


@dataclass(frozen=True)
class Level:
    """Rows with their topics of one level, what these are called, and which are pinned."""

    rows: Rows
    tables: Tables
    names: tuple[Names, ...]
    pins: frozenset[str]
    settings: TopicsSettings
    embed: Embed

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each topic stands."""
        return {names.topic_id: place for place, names in enumerate(self.names)}

    @cached_property
    def pinned(self) -> Array:
        """Say of each topic whether it is pinned."""
        return np.array([n.topic_id in self.pins for n in self.names], dtype=bool)

    @cached_property
    def everything(self) -> Shares:
        """All segments that have a topic."""
        placed = self.rows.topic >= 0
        return Shares(self.rows if placed.all() else self.rows.taken(np.flatnonzero(placed)), len(self.names))

    @cached_property
    def _remembered(self) -> dict[str, Shares]:
        return {}

    def of_project(self, project: str | None) -> Shares:
        """Return the segments of a project, or of all of them."""
        if project is None:
            return self.everything
        if project not in self._remembered:
            rows = self.everything.rows
            number = self.tables.projects.index(project) if project in self.tables.projects else -1
            self._remembered[project] = Shares(rows.taken(np.flatnonzero(rows.project == number)), len(self.names))
        return self._remembered[project]

    def seen(self, view: View) -> Shares:
        """Return what a view sees."""
        whole = self.of_project(view.project)
        if view.agent is None and view.window is None:
            return whole
        key = view.project, view.agent, view.window
        latest = self._latest.get("seen")
        if latest is None or latest[0] != key:
            latest = self._latest["seen"] = key, self._narrowed(whole, view)
        found: Shares = latest[1]
        return found

    @cached_property
    def _latest(self) -> dict[str, Any]:
        """The latest narrower view and the latest text with what came of them: one answer asks for them for each topic."""
        return {}

    def _narrowed(self, whole: Shares, view: View) -> Shares:
        keep = np.ones(len(whole.rows), dtype=bool)
        if view.agent is not None:
            keep &= np.isin(whole.rows.agents, self.tables.with_agent(view.agent))
        if view.window is not None:
            keep &= (whole.rows.start < view.window.end_ms) & (whole.rows.end >= view.window.start_ms)
        return Shares(whole.rows.taken(np.flatnonzero(keep)), len(self.names))

    def left_out(self, view: View) -> Array:
        """Say of each topic whether a view leaves it out for its silence; of a time that is asked for nothing is."""
        return self.silent(view.project) if view.window is None else np.zeros(len(self.names), dtype=bool)

    def silent(self, project: str | None) -> Array:
        """Say of each topic whether a scope has not mentioned it for so long, while it went on, that it is left out.

        It has gone on with as many segments as topics are first looked for: whoever comes back after half a year finds all.
        """
        shares = self.of_project(project)
        if not self.settings.prune_days or not len(shares.rows):
            return np.zeros(len(self.names), dtype=bool)
        ends = np.sort(shares.rows.end)
        least = int(ends[-min(len(ends), self.settings.min_segments)]) - self.settings.prune_days * DAY_MS
        found: Array = (shares.last < least) & ~self.pinned & (shares.mentions > 0)
        return found

    def importance(self, shares: Shares, view: View) -> Array:
        """Return how much each topic matters; in a time that is asked for, all mentions count alike."""
        if view.window is not None:
            return np.bincount(shares.rows.topic, weights=shares.rows.relevance, minlength=shares.topics)
        return shares.importance(view.now_ms, self.settings.half_life_days * DAY_MS, _LATE_MS, _BOOST)

    def fit(self, shares: Shares, text: str, called: Callable[[int], frozenset[int]]) -> Array:
        """Return how well each topic fits a text, (topics,), 0..1; `called` gives the hashes of the words of a topic's name.

        By the words and the meaning of the best of its segments, by how many of its segments hold the words, and by what it
        is called. A topic with fewer segments than are looked at has to make up for them.
        """
        asked = terms_of(text)
        held, best = self._read(shares, text)
        order = np.lexsort((-best, shares.rows.topic))
        topic = shares.rows.topic[order]
        first = np.arange(len(topic)) - np.searchsorted(topic, np.arange(shares.topics))[topic] < _BEST
        total = np.bincount(topic[first], weights=best[order][first], minlength=shares.topics) / _BEST
        total += _BY_SHARE * held.by_topic(shares.rows.topic, shares.mentions, _ENOUGH)
        named = [_called(called(p), asked) if n else 0.0 for p, n in enumerate(shares.mentions.tolist())]
        found: Array = np.clip(total + _BY_NAME * np.array(named), 0.0, 1.0)
        return found

    def is_named(self, shares: Shares, text: str) -> bool:
        """Say whether a text names a topic: its words tell some topic's segments, and are not said everywhere or nowhere."""
        held = self._read(shares, text)[0].by_topic(shares.rows.topic, shares.mentions, _ENOUGH)
        return bool(held.max(initial=0.0) >= _NAMES)

    def fits(self, shares: Shares, text: str) -> Array:
        """Return how well each segment fits a text, (rows,), 0..1."""
        return self._read(shares, text)[1]

    def _read(self, shares: Shares, text: str) -> tuple[Asked, Array]:
        """Which segments hold the words of a text, and how well each fits it."""
        latest = self._latest.get("read")
        if latest is None or latest[0] is not shares or latest[1] != text:
            held = Asked.of(shares.rows, terms_of(text))
            fits = _BY_WORDS * held.by_row() + _BY_MEANING * self._near(shares, text)
            latest = self._latest["read"] = shares, text, (held, fits)
        found: tuple[Asked, Array] = latest[2]
        return found

    def _near(self, shares: Shares, text: str) -> Array:
        """How near in meaning each segment is to a text."""
        vector = self.embed(text) if shares.rows.vectors.shape[1] else None
        return np.zeros(len(shares.rows)) if vector is None else shares.near(vector)

    def state(self, place: int, view: View) -> tuple[State, int]:
        """Say whether a topic is talked about in a scope, from when its segments were, and since when (UTC milliseconds)."""
        whole = self.of_project(view.project)
        rows = whole.rows.taken(np.flatnonzero(whole.rows.topic == place))
        dormant = self.settings.dormant_days * DAY_MS
        order = np.argsort(rows.start, kind="stable")
        start, end = rows.start[order], np.maximum.accumulate(rows.end[order])
        last = int(end[-1])
        if view.now_ms - last > dormant:
            return State.DORMANT, last + int(dormant)
        quiet = np.flatnonzero(start[1:] - end[:-1] > dormant)
        if not len(quiet):
            return State.ACTIVE, int(start[0])
        resumed = int(start[1:][quiet[-1]])
        return (State.REVIVED if view.now_ms - resumed <= dormant else State.ACTIVE), resumed


# Names are asked for with every question, and stay when a segment comes.
@lru_cache(maxsize=4096)
def name_terms(name: Name) -> frozenset[int]:
    """Return the hashes of the words that a topic is called by."""
    return frozenset(terms_of(" ".join((name.label, *name.keywords[:_CALLED_BY]))))


def _called(named: Collection[int], asked: Mapping[int, float]) -> float:
    """Return the share of a question's words, by weight, that a topic is called by."""
    total = sum(asked.values())
    return sum(weight for hashed, weight in asked.items() if hashed in named) / total if total else 0.0
