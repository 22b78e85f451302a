"""SpendingStore on DuckDB."""

from itertools import starmap
from typing import Any

from memory_mcp.model.ids import NodeId, TopicId
from memory_mcp.model.spending import Outcome, Spent
from memory_mcp.storage.duckdb.connection import Connection

_COLUMNS = "at_ms, node_id, written_from, model, tokens_in, tokens_out, estimated, outcome, reason, ms"


class DuckSpending:
    """One small table."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def record(self, spent: Spent) -> None:
        """See SpendingStore."""
        row = [spent.at_ms, spent.node_id, spent.written_from, spent.model, spent.tokens_in, spent.tokens_out, spent.estimated]
        with self._con.writing() as con:
            con.execute(
                "INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [*row, spent.outcome, spent.reason, spent.ms]
            )

    def since(self, at_ms: int) -> list[Spent]:
        """See SpendingStore."""
        rows = self._con.rows(f"SELECT {_COLUMNS} FROM spending WHERE at_ms >= ? ORDER BY at_ms, rowid", [at_ms])
        return list(starmap(_spent, rows))

    def tokens_since(self, at_ms: int) -> int:
        """See SpendingStore."""
        row = self._con.row("SELECT coalesce(sum(tokens_in + tokens_out), 0)::BIGINT FROM spending WHERE at_ms >= ?", [at_ms])
        return int(row[0]) if row else 0

    def unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        """See SpendingStore."""
        sql = "SELECT DISTINCT node_id, written_from FROM spending WHERE outcome = ? AND model = ?"
        rows = self._con.rows(sql, [Outcome.FALLBACK, model])
        return frozenset((NodeId(row[0]), row[1]) for row in rows)


def _spent(at_ms: int, node_id: str, *told: Any) -> Spent:
    written_from, model, tokens_in, tokens_out, estimated, outcome, reason, ms = told
    asked = (at_ms, NodeId(node_id), written_from, model)
    return Spent(*asked, tokens_in, tokens_out, estimated, Outcome(outcome), reason, ms)
