"""The segments in a view, summed up by topic. Pure."""

from functools import cached_property

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes.files import Array
from memory_mcp.indexes.topics.profiles import common_vector_of, mean_vectors
from memory_mcp.indexes.topics.rows import SCALE, Rows

#: Least common days of two topics for a relation.
_SHARED = 2


@dataclass(frozen=True)
class Shares:
    """Rows in a view, all with a topic, and the number of topics."""

    rows: Rows
    topics: int

    @cached_property
    def mentions(self) -> Array:
        """Number of segments by topic."""
        return np.bincount(self.rows.topic, minlength=self.topics)

    @cached_property
    def last_mention(self) -> Array:
        """Time of each topic's last mention, UTC milliseconds; 0 for none."""
        latest = np.zeros(self.topics, dtype=np.int64)
        np.maximum.at(latest, self.rows.topic, self.rows.end)
        return latest

    @cached_property
    def mean_vectors(self) -> Array:
        """Mean vectors of topics less the common one, of length 1."""
        return mean_vectors(self.rows, self.topics, self.common_vector)

    @cached_property
    def common_vector(self) -> Array:
        """Mean vector of the segments that have one; not of length 1."""
        return common_vector_of(self.rows)

    @cached_property
    def _lengths(self) -> Array:
        rows = self.rows.vectors.astype(np.float32) / SCALE
        lengths: Array = np.linalg.norm(rows - self.common_vector, axis=1) * rows.any(axis=1)
        return lengths

    def similarities_to(self, vector: Array) -> Array:
        """Return each segment's similarity to a unit vector, 0..1."""
        query = vector - self.common_vector
        query = query / max(float(np.linalg.norm(query)), 1e-9)
        # The same as comparing rows less the common vector, without storing those, a kilobyte each.
        dot = self.rows.vectors.astype(np.float32) @ query / SCALE - float(self.common_vector @ query)
        similarity: Array = np.clip(np.divide(dot, self._lengths, out=np.zeros_like(dot), where=self._lengths > 0), 0.0, 1.0)
        return similarity

    @cached_property
    def topic_days(self) -> tuple[Array, Array]:
        """Topics and local days with a mention, sorted pairs."""
        pairs = np.unique(self.rows.topic.astype(np.int64) << 32 | self.rows.days)
        return pairs >> 32, pairs & 0xFFFFFFFF

    def compute_importance(self, now_ms: int, half_life_ms: float, boosted_ms: float, boost: float) -> Array:
        """Return per topic the sum of relevance x 0.5^(age / half-life).

        Mentions of an age up to `boosted_ms` count `boost` times; later ones than `now_ms` have age 0.
        """
        age = np.maximum(now_ms - self.rows.end, 0)
        weight = self.rows.relevance * np.exp2(-age / half_life_ms) * np.where(age <= boosted_ms, boost, 1.0)
        return np.bincount(self.rows.topic, weights=weight, minlength=self.topics)

    def compute_similarities(self, topic: int) -> Array:
        """Return each topic's similarity to one topic by mean vectors, 0..1."""
        similarity: Array = np.clip(self.mean_vectors @ self.mean_vectors[topic], 0.0, 1.0)
        return similarity

    def co_occurrences(self, topic: int) -> Array:
        """Return how much more often than by chance topics share days, 0..1.

        Ochiai's coefficient of their days, less that of independent topics; 0 with fewer than two common days.
        """
        topics, day = self.topic_days
        common_days = np.isin(day, day[topics == topic])
        shared = np.bincount(topics[common_days], minlength=self.topics).astype(np.float64)
        day_counts = np.bincount(topics, minlength=self.topics).astype(np.float64)
        expected = day_counts * day_counts[topic] / max(len(np.unique(day)), 1)
        length = np.sqrt(np.maximum(day_counts * day_counts[topic], 1.0))
        strength: Array = np.where(shared >= _SHARED, np.clip((shared - expected) / length, 0.0, 1.0), 0.0)
        return strength
