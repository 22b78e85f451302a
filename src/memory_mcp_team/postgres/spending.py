"""SpendingStore on PostgreSQL."""

from memory_mcp.model.ids import NodeId, TopicId
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.storage.rows import SPENT, spent_of, spent_row
from memory_mcp_team.postgres.connection import Connection, own

_TYPES = ("bigint", "text", "text", "text", "bigint", "bigint", "boolean", "text", "text", "bigint")
_TOKENS = f"SELECT coalesce(sum(tokens_in + tokens_out), 0)::bigint FROM spending WHERE {own()} AND at_ms >= %(at)s"
_UNUSABLE = f"""SELECT DISTINCT node_id, written_from FROM spending
  WHERE {own()} AND outcome = %(outcome)s AND model = %(model)s"""


class PostgresSpending:
    """Requests to language models, rows that are only added; a `SpendingStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_call(self, spent: ModelCall) -> None:
        """Add a request, committed when this returns."""
        with self._con.open_writer() as writer:
            writer.insert_rows("spending", SPENT, _TYPES, [[value] for value in spent_row(spent)])

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        """Return the requests made since `at_ms` (UTC ms), by time."""
        sql = f"SELECT {SPENT} FROM spending WHERE {own()} AND at_ms >= %(at)s ORDER BY at_ms, number"
        return [spent_of(row) for row in self._con.rows(sql, at=at_ms)]

    def count_tokens(self, at_ms: int) -> int:
        """Return the tokens, in and out, of requests since `at_ms` (UTC ms)."""
        row = self._con.row(_TOKENS, at=at_ms)
        return int(row[0]) if row else 0

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        """Return (node or topic id, digest) of a model's unusable answers."""
        rows = self._con.rows(_UNUSABLE, outcome=Outcome.FALLBACK.value, model=model)
        return frozenset((NodeId(row[0]), row[1]) for row in rows)
