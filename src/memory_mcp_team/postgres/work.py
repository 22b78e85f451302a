"""Work that is due for the memories of a database, claimed one by one by whichever server is free.

Invariants
1. Work is begun by one server at a time; what comes while it is done is due again afterwards.
2. Work of a server that died is due again when its lease has run out.
3. Rows of table `work` hold no word of anybody's text: they alone are looked at across tenants.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_mcp_team.postgres.claims import HOLDER, LEASE, NOW
from memory_mcp_team.postgres.database import Database, sql

_TAKE = f"""WITH next AS (
    SELECT tenant, space, name FROM work
    WHERE name = ANY (%(names)s) AND until_ms < {NOW} AND (due_ms <= {NOW} OR holder <> '')
    ORDER BY due_ms NULLS FIRST LIMIT 1 FOR UPDATE SKIP LOCKED)
  UPDATE work SET holder = %(holder)s, epoch = work.epoch + 1, until_ms = {NOW} + %(lease)s, due_ms = NULL
    FROM next WHERE work.tenant = next.tenant AND work.space = next.space AND work.name = next.name
    RETURNING work.tenant, work.space, work.name, work.epoch"""
_AGAIN = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(after)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = least(work.due_ms, excluded.due_ms)"""
_ONCE = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(after)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = excluded.due_ms WHERE work.due_ms IS NULL AND work.holder = ''"""
_LET_GO = "UPDATE work SET until_ms = 0, due_ms = coalesce(due_ms, 0), holder = '' WHERE holder = %s"
_NEXT = f"SELECT min(due_ms) - {NOW} FROM work WHERE name = ANY (%(names)s) AND due_ms IS NOT NULL AND until_ms < {NOW}"
_WAITING = f"SELECT name, count(*) FROM work WHERE due_ms <= {NOW} GROUP BY name"


@dataclass(frozen=True, slots=True)
class Taken:
    """Work that this process has claimed."""

    tenant: int
    space: int
    name: str
    epoch: int


class WorkTable:
    """The table `work` of a database. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, names: Sequence[str]) -> Taken | None:
        """Claim the work of these kinds that has been due for longest, for one lease; return it, None where nothing is due.

        It names tenant, space, kind and the epoch of the claim. Work whose holder's lease is over is due too, and comes
        first.
        """
        parameters = {"names": list(names), "holder": HOLDER, "lease": int(LEASE * 1000)}
        with self._database.connection(None) as raw:
            row = raw.execute(sql(_TAKE), parameters).fetchone()
        return Taken(*row) if row else None

    def put_due(self, tenant: int, space: int, name: str, after: float) -> None:
        """Have work (kind `name` of a memory) done in `after` seconds, or earlier where it is due earlier; committed at once."""
        self._put(_AGAIN, tenant, space, name, after)

    def put_due_once(self, tenant: int, space: int, name: str, after: float) -> None:
        """Have work (kind `name` of a memory) done in `after` seconds.

        Nothing changes where it is due or being done already.
        """
        self._put(_ONCE, tenant, space, name, after)

    def _put(self, statement: str, tenant: int, space: int, name: str, after: float) -> None:
        """Run a statement that makes work due, in a transaction of its own on a connection bound to nobody."""
        parameters = {"tenant": tenant, "space": space, "name": name, "after": int(after * 1000)}
        with self._database.connection(None) as raw:
            raw.execute(sql(statement), parameters)

    def release_all(self) -> None:
        """Release everything that this process holds, and make it due for others at once; committed when this returns."""
        with self._database.connection(None) as raw:
            raw.execute(_LET_GO, [HOLDER])

    def seconds_until_due(self, names: Sequence[str], longest: float) -> float:
        """Return in how many seconds work of these kinds will be due, 0 to `longest`; `longest` where none is."""
        with self._database.connection(None) as raw:
            row = raw.execute(sql(_NEXT), {"names": list(names)}).fetchone()
        return longest if row is None or row[0] is None else min(max(int(row[0]) / 1000, 0.0), longest)

    def count_due(self) -> dict[str, int]:
        """Return by kind of work how many memories, of all tenants, wait for it and are due; kinds without any are left out."""
        with self._database.connection(None) as raw:
            return {str(name): int(count) for name, count in raw.execute(sql(_WAITING)).fetchall()}
