"""How far a read replica is behind the primary."""

import threading
import time
from collections import deque

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp_team.postgres.database import Database

_PRIMARY = "SELECT pg_current_wal_lsn() - '0/0'"
_REPLICA = """SELECT coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0', pg_is_in_recovery(),
  coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0)::float8"""
#: An answer is believed for so long (seconds).
_FRESH = 0.5
#: Lag above which the age of the last replayed transaction is used instead of what was seen here (seconds).
_SEEN = 2.0


class Replica:
    """Measures how far a replica is behind its primary.

    Safe in any thread.
    """

    def __init__(self, primary: Database, database: Database) -> None:
        self._primary, self.database = primary, database
        self._lock = threading.Lock()
        #: Positions of the primary that the replica had not reached when it was asked last, with when they were seen.
        self._ahead: deque[tuple[float, int]] = deque()
        self._asked, self._behind = float("-inf"), 0.0

    def get_lag(self) -> float:
        """Return how many seconds the replica is behind, at most 0.5 s old; raises StorageAway where it does not answer."""
        with self._lock:
            if time.monotonic() - self._asked > _FRESH:
                self._behind = self._look()
                self._asked = time.monotonic()
            return self._behind

    def _look(self) -> float:
        """Ask both databases and return how many seconds the replica is behind.

        0 where it has all seen of the primary, which may be away; raises StorageAway when the replica does not answer.
        """
        now = time.monotonic()
        try:
            with self._primary.connection(None) as raw:
                row = raw.execute(_PRIMARY).fetchone()
            self._ahead.append((now, int(row[0]) if row else 0))
        except MemoryMcpError:
            # The primary is away: what is known of it remains what the replica has to reach.
            pass
        with self.database.connection(None) as raw:
            replica_row = raw.execute(_REPLICA).fetchone()
        assert replica_row is not None
        reached, recovering, age = int(replica_row[0]), bool(replica_row[1]), float(replica_row[2])
        while self._ahead and (not recovering or self._ahead[0][1] <= reached):
            self._ahead.popleft()
        lag_secs = now - self._ahead[0][0] if self._ahead else 0.0
        return max(lag_secs, age) if lag_secs > _SEEN else lag_secs
