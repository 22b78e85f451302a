"""UsageStore on PostgreSQL: a small table of grip ids and moments. Openings of members who may only read count as well."""

from collections.abc import Iterable

from memory_mcp.model.grip import GripUsage
from memory_mcp.model.ids import GripId
from memory_mcp_team.postgres.connection import Connection, own

_OF = f"""SELECT grip_id, array_agg(at_ms ORDER BY at_ms) FROM usage
  WHERE {own()} AND grip_id = ANY(%(ids)s::text[]) GROUP BY grip_id"""


class PostgresUsage:
    """When quotations were opened, a row for each opening; a `UsageStore`."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        #: When there was no row, as `Head.noted` says it; None before the first look.
        self._empty_at: tuple[int, int] | None = None
        self._any = False

    def record_usage(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Note that each grip was opened at `at_ms` (UTC ms).

        The transaction is the program's own, so that members who may only read can call it.
        """
        ids = list(grip_ids)
        if ids:
            with self._con.for_all(), self._con.open_writer() as writer:
                if not self._any and writer.row(f"SELECT 1 FROM usage WHERE {own()} LIMIT 1") is None:
                    # Processes that know of none look again.
                    writer.head.notes += 1
                writer.insert_rows("usage", "grip_id, at_ms", ("text", "bigint"), [ids, [at_ms] * len(ids)])
            self._any = True

    def get_usage(self, ids: Iterable[GripId]) -> dict[GripId, GripUsage]:
        """Return the times at which those of `ids` were opened, by id."""
        id_list = list(set(ids))
        # While none is known, the table is looked at again only when the head's notes or resets changed.
        if id_list and not self._any and (noted := self._con.head().noted) != self._empty_at:
            self._any = self._con.row(f"SELECT 1 FROM usage WHERE {own()} LIMIT 1") is not None
            self._empty_at = noted
        if not id_list or not self._any:
            return {}
        return {GripId(row[0]): GripUsage(tuple(row[1])) for row in self._con.rows(_OF, ids=id_list)}

    def forget_usage(self, ids: Iterable[GripId]) -> None:
        """Remove every opening of these grips, if any."""
        with self._con.open_writer() as writer:
            writer.run(f"DELETE FROM usage WHERE {own()} AND grip_id = ANY(%(ids)s::text[])", ids=list(set(ids)))
