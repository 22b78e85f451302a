"""TopicStore on DuckDB: two small tables, read when the memory is grouped and when its topics are opened."""

from collections.abc import Sequence

from memory_mcp.model.ids import TopicId
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.duckdb.connection import Connection, insert
from memory_mcp.storage.rows import TOPIC, topic_columns, topic_of

_TYPES = ("VARCHAR", "BIGINT", "BOOLEAN", "BLOB", "VARCHAR", "BOOLEAN", "VARCHAR")


class DuckTopics:
    """Which topics there are and were, and their labels; a `TopicStore`."""

    def __init__(self, con: Connection) -> None:
        """Use `con`; nothing is read yet."""
        self._con = con

    def list_topics(self) -> list[TopicRecord]:
        """Return every topic that was ever found, also those that are over or merged, in the order of their ids."""
        return [topic_of(row) for row in self._con.rows(f"SELECT {TOPIC} FROM topic ORDER BY topic_id")]

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Replace everything that is known of topics, in one transaction; labels stay. Without topics all are removed."""
        columns = topic_columns(topics)
        with self._con.writing() as con:
            con.execute("DELETE FROM topic")
            if topics:
                insert(con, "topic", _TYPES, columns)

    def set_label(self, given: TopicLabel) -> None:
        """Label a topic, existing or not, for a project or for all (None), in place of its label there; "" only removes that."""
        with self._con.writing() as con:
            con.execute(
                "DELETE FROM topic_label WHERE topic_id = ? AND project IS NOT DISTINCT FROM ?", [given.topic_id, given.project]
            )
            if given.label:
                row = [given.topic_id, given.project, given.label, given.author, given.at_ms]
                con.execute("INSERT INTO topic_label VALUES (?, ?, ?, ?, ?)", row)

    def list_labels(self) -> list[TopicLabel]:
        """Return every label in force, in the order in which they were given, also of topics that no longer exist."""
        rows = self._con.rows("SELECT topic_id, project, label, author, at_ms FROM topic_label ORDER BY at_ms, rowid")
        return [TopicLabel(TopicId(row[0]), row[1], row[2], row[3], row[4]) for row in rows]
