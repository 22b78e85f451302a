"""SpendingStore on DuckDB."""

from memory_mcp.model.ids import NodeId, TopicId
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.rows import SPENT, spent_of, spent_row


class DuckSpending:
    """Requests to language models, rows that are only added; a `SpendingStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record_call(self, spent: ModelCall) -> None:
        with self._con.begin_transaction() as con:
            con.execute("INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", spent_row(spent))

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        rows = self._con.fetch_rows(f"SELECT {SPENT} FROM spending WHERE at_ms >= ? ORDER BY at_ms, rowid", [at_ms])
        return [spent_of(row) for row in rows]

    def count_tokens(self, at_ms: int) -> int:
        row = self._con.fetch_row(
            "SELECT coalesce(sum(tokens_in + tokens_out), 0)::BIGINT FROM spending WHERE at_ms >= ?", [at_ms]
        )
        return int(row[0]) if row else 0

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        sql = "SELECT DISTINCT node_id, written_from FROM spending WHERE outcome = ? AND model = ?"
        rows = self._con.fetch_rows(sql, [Outcome.FALLBACK, model])
        return frozenset((NodeId(row[0]), row[1]) for row in rows)
