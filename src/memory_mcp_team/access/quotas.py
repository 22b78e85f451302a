"""Limits on how much a tenant and its members may use: token buckets by the clock, kept in memory.

Invariants
1. What is refused takes nothing: neither from the member's bucket nor from the tenant's.
2. A tenant's buckets are separated by its number, and forgotten once they are full again: many tenants cost no memory for good.
3. Each server counts for itself, so that a call needs no round trip; what a tenant has stored in all is counted by the database.
"""

import threading
from math import ceil

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.dataclass import dataclass
from memory_mcp_team.access.permissions import Principal
from memory_mcp_team.errors import QuotaExceeded
from memory_mcp_team.settings import TeamSettings

_MINUTE, _DAY = 60.0, 86_400.0
_MEGABYTE = 1_000_000
#: Tools that are counted as searches: each may read a whole index.
SEARCHES = frozenset(
    {
        *("intelligent_search", "teleport_search", "vector_teleport", "hybrid_search", "topics_by_query"),
        *("recall_for", "search_children", "search_node", "navigate", "search_spaces"),
    }
)
#: So many buckets are kept before those that are full again are dropped.
_MAX_BUCKETS = 20_000


@dataclass(slots=True)
class _Bucket:
    """A token bucket: what was available at a moment of the monotonic clock."""

    available: float
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Demand:
    key: tuple[int, int, str]
    amount: float
    #: What the bucket holds when full, and in how many seconds it fills.
    size: float
    seconds: float
    what: str


class Quotas:
    """The buckets of one server. Safe in any thread."""

    def __init__(self, settings: TeamSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._buckets: dict[tuple[int, int, str], _Bucket] = {}
        self._lock = threading.Lock()
        self._sweep_size = _MAX_BUCKETS

    def count_call(self, who: Principal) -> None:
        """Count a request, for the member and the tenant.

        Raises QuotaExceeded, with the seconds to wait; it counts for neither then.
        """
        limits = self._settings.limits_of(who.tenant_class)
        self._take_from_buckets(
            _Demand(
                (who.tenant, who.member, "calls"), 1, limits.member_calls_per_minute, _MINUTE, "requests a minute of a member"
            ),
            _Demand((who.tenant, 0, "calls"), 1, limits.calls_per_minute, _MINUTE, "requests a minute of the tenant"),
        )

    def count_search(self, who: Principal) -> None:
        """Count a search of the tenant, or raise QuotaExceeded."""
        most = self._settings.limits_of(who.tenant_class).searches_per_minute
        self._take_from_buckets(_Demand((who.tenant, 0, "searches"), 1, most, _MINUTE, "searches a minute of the tenant"))

    def count_records(self, who: Principal, events: int, text_bytes: int, stored_events: int = 0) -> None:
        """Count events to record, in addition to `stored_events`.

        Raises QuotaExceeded for too many in all or in a day, or too many bytes in a day; nothing is counted then.
        """
        limits = self._settings.limits_of(who.tenant_class)
        if limits.stored_events and stored_events + events > limits.stored_events:
            raise _make_exceeded(f"{limits.stored_events:,} stored events of the tenant", _DAY)
        most_bytes = limits.megabytes_per_day * _MEGABYTE
        self._take_from_buckets(
            _Demand((who.tenant, 0, "events"), events, limits.events_per_day, _DAY, "events a day of the tenant"),
            _Demand((who.tenant, 0, "bytes"), text_bytes, most_bytes, _DAY, "bytes of text a day of the tenant"),
        )

    def _take_from_buckets(self, *wants: _Demand) -> None:
        bounded = [want for want in wants if want.size]
        with self._lock:
            now = self._clock.monotonic()
            buckets = [self._buckets.setdefault(want.key, _Bucket(want.size, now, want.seconds)) for want in bounded]
            for want, bucket in zip(bounded, buckets, strict=True):
                bucket.available = min(want.size, bucket.available + (now - bucket.at) * want.size / want.seconds)
                bucket.at = now
            for want, bucket in zip(bounded, buckets, strict=True):
                # A single want above the whole bucket could never be had: it takes a full one.
                lacks = min(want.amount, want.size) - bucket.available
                if lacks > 0:
                    raise _make_exceeded(f"{want.size:,.0f} {want.what}", lacks * want.seconds / want.size)
            for want, bucket in zip(bounded, buckets, strict=True):
                bucket.available -= want.amount
            if len(self._buckets) > self._sweep_size:
                # Buckets that were not used for as long as they take to fill are full again.
                self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket.at < bucket.seconds}
                self._sweep_size = max(_MAX_BUCKETS, 2 * len(self._buckets))


def _make_exceeded(what: str, seconds: float) -> QuotaExceeded:
    after = max(1, ceil(seconds))
    hint = f"Call again in {after:,} seconds, or ask the server's administrator for more."
    return QuotaExceeded(f"the limit is reached: {what}", hint, after)
