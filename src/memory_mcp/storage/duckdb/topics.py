"""TopicStore on DuckDB: two small tables, read when the memory is grouped and when its topics are opened."""

from collections.abc import Sequence

from memory_mcp.model.ids import TopicId
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.statements import insert_columns
from memory_mcp.storage.rows import TOPIC, topic_columns, topic_of

_TYPES = ("VARCHAR", "BIGINT", "BOOLEAN", "BLOB", "VARCHAR", "BOOLEAN", "VARCHAR")


class DuckTopics:
    """Topics of present and past, and their labels."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def list_topics(self) -> list[TopicRecord]:
        return [topic_of(row) for row in self._con.fetch_rows(f"SELECT {TOPIC} FROM topic ORDER BY topic_id")]

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        columns = topic_columns(topics)
        with self._con.begin_transaction() as con:
            con.execute("DELETE FROM topic")
            if topics:
                insert_columns(con, "topic", _TYPES, columns)

    def set_label(self, topic_label: TopicLabel) -> None:
        with self._con.begin_transaction() as con:
            con.execute(
                "DELETE FROM topic_label WHERE topic_id = ? AND project IS NOT DISTINCT FROM ?",
                [topic_label.topic_id, topic_label.project],
            )
            if topic_label.label:
                row = [topic_label.topic_id, topic_label.project, topic_label.label, topic_label.author, topic_label.at_ms]
                con.execute("INSERT INTO topic_label VALUES (?, ?, ?, ?, ?)", row)

    def list_labels(self) -> list[TopicLabel]:
        rows = self._con.fetch_rows("SELECT topic_id, project, label, author, at_ms FROM topic_label ORDER BY at_ms, rowid")
        return [TopicLabel(TopicId(row[0]), row[1], row[2], row[3], row[4]) for row in rows]
