"""TopicStore on DuckDB: two small tables, read when the memory is grouped and when its topics are opened."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_mcp.model.ids import TopicId
from memory_mcp.model.topic import KnownTopic, TopicLabel, Turn
from memory_mcp.storage.duckdb.connection import Connection

_COLUMNS = "topic_id, born_ms, is_area, members, merged_into, is_over, turns"


class DuckTopics:
    """See TopicStore."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def all(self) -> list[KnownTopic]:
        """See TopicStore."""
        return [_topic(*row) for row in self._con.rows(f"SELECT {_COLUMNS} FROM topic ORDER BY topic_id")]

    def replace(self, topics: Sequence[KnownTopic]) -> None:
        """See TopicStore."""
        rows = [_row(topic) for topic in topics]
        with self._con.writing() as con:
            con.execute("DELETE FROM topic")
            if rows:
                columns = [list(column) for column in zip(*rows, strict=True)]
                con.execute(
                    "INSERT INTO topic SELECT unnest(?::VARCHAR[]), unnest(?::BIGINT[]), unnest(?::BOOLEAN[]), "
                    "unnest(?::BLOB[]), unnest(?::VARCHAR[]), unnest(?::BOOLEAN[]), unnest(?::VARCHAR[])",
                    columns,
                )

    def label(self, given: TopicLabel) -> None:
        """See TopicStore."""
        with self._con.writing() as con:
            con.execute(
                "DELETE FROM topic_label WHERE topic_id = ? AND project IS NOT DISTINCT FROM ?", [given.topic_id, given.project]
            )
            if given.label:
                row = [given.topic_id, given.project, given.label, given.author, given.at_ms]
                con.execute("INSERT INTO topic_label VALUES (?, ?, ?, ?, ?)", row)

    def labels(self) -> list[TopicLabel]:
        """See TopicStore."""
        rows = self._con.rows("SELECT topic_id, project, label, author, at_ms FROM topic_label ORDER BY at_ms, rowid")
        return [TopicLabel(TopicId(row[0]), row[1], row[2], row[3], row[4]) for row in rows]


def _row(topic: KnownTopic) -> list[Any]:
    members = np.array(topic.members, dtype="<u8").tobytes()
    turns = json.dumps([[t.at_ms, t.what, t.other] for t in topic.turns])
    return [topic.topic_id, topic.born_ms, topic.is_area, members, topic.merged_into, topic.is_over, turns]


def members_of(column: bytes) -> tuple[int, ...]:
    """The keys of segments that a column of members holds."""
    return tuple(np.frombuffer(column, dtype="<u8").tolist())


def _topic(topic_id: str, born_ms: int, is_area: bool, members: bytes, *told: Any) -> KnownTopic:
    merged_into, is_over, turns = told
    happened = tuple(Turn(at_ms, what, TopicId(other) if other else None) for at_ms, what, other in json.loads(turns))
    keys = members_of(members)
    into = TopicId(merged_into) if merged_into else None
    return KnownTopic(TopicId(topic_id), born_ms, is_area, keys, into, is_over, happened)
