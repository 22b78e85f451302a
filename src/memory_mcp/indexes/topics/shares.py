"""The segments that a view sees, summed up by topic: how often, when, and what they mean. Pure."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.profiles import common_of, middles
from memory_mcp.indexes.topics.rows import SCALE, Rows

#: Days that two topics share at least, for that to tell anything.
_SHARED = 2


@dataclass(frozen=True)
class Shares:
    """Rows that a view sees, all of which have a topic, and the number of topics there are."""

    rows: Rows
    topics: int

    @cached_property
    def mentions(self) -> Array:
        """Segments by topic."""
        return np.bincount(self.rows.topic, minlength=self.topics)

    @cached_property
    def last(self) -> Array:
        """When each topic was mentioned last, UTC milliseconds; 0 for one that was not."""
        found = np.zeros(self.topics, dtype=np.int64)
        np.maximum.at(found, self.rows.topic, self.rows.end)
        return found

    @cached_property
    def middles(self) -> Array:
        """(topics, dimensions) of length 1: where a topic's meanings lie, less what all segments have in common."""
        return middles(self.rows, self.topics, self.common)

    @cached_property
    def common(self) -> Array:
        """(dimensions,): what all segments have in common in meaning."""
        return common_of(self.rows)

    @cached_property
    def _lengths(self) -> Array:
        """(rows,): how far what each segment means is from what all have in common; 0 where nothing is known of it."""
        rows = self.rows.vectors.astype(np.float32) / SCALE
        found: Array = np.linalg.norm(rows - self.common, axis=1) * rows.any(axis=1)
        return found

    def near(self, vector: Array) -> Array:
        """Return how near in meaning each segment is to a vector ((dimensions,) of length 1), less what all have in common."""
        asked = vector - self.common
        asked = asked / max(float(np.linalg.norm(asked)), 1e-9)
        # The same as comparing rows less what is common, none of which is kept: a kilobyte each.
        dot = self.rows.vectors.astype(np.float32) @ asked / SCALE - float(self.common @ asked)
        found: Array = np.clip(np.divide(dot, self._lengths, out=np.zeros_like(dot), where=self._lengths > 0), 0.0, 1.0)
        return found

    @cached_property
    def days(self) -> tuple[Array, Array]:
        """Return the pairs of topic and local day on which it was mentioned, each once, as two columns."""
        pairs = np.unique(self.rows.topic.astype(np.int64) << 32 | self.rows.days)
        return pairs >> 32, pairs & 0xFFFFFFFF

    def importance(self, now_ms: int, half_life_ms: float, boosted_ms: float, boost: float) -> Array:
        """Return for each topic the sum over its mentions of relevance x 0.5^(age / half-life), those of late x `boost`."""
        age = np.maximum(now_ms - self.rows.end, 0)
        weight = self.rows.relevance * np.exp2(-age / half_life_ms) * np.where(age <= boosted_ms, boost, 1.0)
        return np.bincount(self.rows.topic, weights=weight, minlength=self.topics)

    def similar(self, topic: int) -> Array:
        """Return how near in meaning every topic is to one, 0..1."""
        found: Array = np.clip(self.middles @ self.middles[topic], 0.0, 1.0)
        return found

    def beside(self, topic: int) -> Array:
        """Return how much more often than by chance every topic is mentioned on the days of one, 0..1.

        Of the days on which either is mentioned, the share that both are (Ochiai's coefficient), as far as it is above what
        independent topics would share.
        """
        of, day = self.days
        own = np.isin(day, day[of == topic])
        both = np.bincount(of[own], minlength=self.topics).astype(np.float64)
        each = np.bincount(of, minlength=self.topics).astype(np.float64)
        expected = each * each[topic] / max(len(np.unique(day)), 1)
        length = np.sqrt(np.maximum(each * each[topic], 1.0))
        found: Array = np.where(both >= _SHARED, np.clip((both - expected) / length, 0.0, 1.0), 0.0)
        return found
