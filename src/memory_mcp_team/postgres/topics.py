"""TopicStore on PostgreSQL: two small tables, read when the memory is grouped and when its topics are opened."""

from collections.abc import Sequence

from memory_mcp.model.ids import TopicId
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.rows import TOPIC, topic_columns, topic_of
from memory_mcp_team.postgres.connection import Connection, own

_TYPES = ("text", "bigint", "boolean", "bytea", "text", "boolean", "text")
_LABEL = "topic_id, project, label, author, at_ms"
_LABEL_TYPES = ("text", "text", "text", "text", "bigint")
_TAKE_BACK = f"""DELETE FROM topic_label
  WHERE {own()} AND topic_id = %(topic)s AND project IS NOT DISTINCT FROM %(project)s::text"""


class PostgresTopics:
    """Which topics there are and were, and their labels; a `TopicStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def list_topics(self) -> list[TopicRecord]:
        """Return every topic that was ever found, by id."""
        rows = self._con.rows(f'SELECT {TOPIC} FROM topic WHERE {own()} ORDER BY topic_id COLLATE "C"')
        return [topic_of(row) for row in rows]

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Replace all topics, in one transaction; labels stay."""
        columns = topic_columns(topics)
        with self._con.open_writer() as writer:
            writer.run(f"DELETE FROM topic WHERE {own()}")
            writer.insert_rows("topic", TOPIC, _TYPES, columns)
            writer.head.notes += 1

    def set_label(self, label: TopicLabel) -> None:
        """Label a topic for one project or all.

        Other processes notice by the head.
        """
        with self._con.open_writer() as writer:
            writer.run(_TAKE_BACK, topic=label.topic_id, project=label.project)
            if label.label:
                row = [label.topic_id, label.project, label.label, label.author, label.at_ms]
                writer.insert_rows("topic_label", _LABEL, _LABEL_TYPES, [[value] for value in row])
            # Labels do not pass through the outbox: this is how other processes notice.
            writer.head.notes += 1

    def list_labels(self) -> list[TopicLabel]:
        """Return every label in force, in the order in which they were given."""
        rows = self._con.rows(f"SELECT {_LABEL} FROM topic_label WHERE {own()} ORDER BY at_ms, number")
        return [TopicLabel(TopicId(topic_id), *labels) for topic_id, *labels in rows]
