"""Token buckets of members and tenants, by a clock that stands still."""

import pytest

from memory_mcp_team.access.permissions import Principal, Role
from memory_mcp_team.access.quotas import Quotas
from memory_mcp_team.errors import QuotaExceeded
from memory_mcp_team.settings import SmallLimits, TeamLimits, TeamSettings, TenantLimits
from tests.fakes import FakeClock

LIMITS = TenantLimits(
    calls_per_minute=6,
    member_calls_per_minute=4,
    searches_per_minute=3,
    events_per_day=100,
    megabytes_per_day=1,
    stored_events=1000,
)


def quotas(clock: FakeClock, limits: TenantLimits = LIMITS) -> Quotas:
    return Quotas(TeamSettings(limits=TeamLimits(standard=limits)), clock)


def member(number: int = 1, tenant: int = 1, tenant_class: str = "standard") -> Principal:
    return Principal(tenant, tenant_class, number, "Ada", False, (), Role.ADMIN)


def after(refused: pytest.ExceptionInfo[QuotaExceeded]) -> int:
    assert refused.value.code == "RESOURCE_EXHAUSTED"
    assert refused.value.retryable
    return refused.value.retry_after


def test_a_member_makes_so_many_calls_and_then_waits(clock: FakeClock) -> None:
    held = quotas(clock)
    for _ in range(4):
        held.count_call(member())
    with pytest.raises(QuotaExceeded, match="4 requests a minute of a member") as refused:
        held.count_call(member())
    assert after(refused) == 15
    clock.advance(15)
    held.count_call(member())
    with pytest.raises(QuotaExceeded):
        held.count_call(member())


def test_members_share_what_their_tenant_has_and_a_refusal_takes_nothing(clock: FakeClock) -> None:
    held = quotas(clock)
    for who in (1, 1, 1, 2, 2, 2):
        held.count_call(member(who))
    for _ in range(5):
        with pytest.raises(QuotaExceeded, match="6 requests a minute of the tenant") as refused:
            held.count_call(member(2))
    assert after(refused) == 10
    clock.advance(10)
    # Refused calls have not used up the member's own.
    held.count_call(member(2))


def test_one_tenants_use_is_no_others(clock: FakeClock) -> None:
    held = quotas(clock)
    for _ in range(3):
        held.count_search(member())
    with pytest.raises(QuotaExceeded, match="3 searches a minute"):
        held.count_search(member(9))
    held.count_search(member(tenant=2))


def test_events_and_bytes_are_taken_together_or_not_at_all(clock: FakeClock) -> None:
    held = quotas(clock)
    held.count_records(member(), 60, 100)
    with pytest.raises(QuotaExceeded, match="100 events a day"):
        held.count_records(member(), 60, 100)
    with pytest.raises(QuotaExceeded, match="1,000,000 bytes of text a day"):
        held.count_records(member(), 1, 999_950)
    held.count_records(member(), 40, 999_900)


def test_a_batch_above_the_whole_limit_takes_a_full_bucket_and_is_paid_for(clock: FakeClock) -> None:
    held = quotas(clock)
    held.count_records(member(), 250, 10)
    clock.advance(86_400)
    with pytest.raises(QuotaExceeded) as refused:
        held.count_records(member(), 1, 10)
    assert after(refused) > 3600


def test_stored_events_are_counted_by_the_database(clock: FakeClock) -> None:
    held = quotas(clock)
    held.count_records(member(), 10, 10, stored_events=990)
    with pytest.raises(QuotaExceeded, match="1,000 stored events"):
        held.count_records(member(), 11, 10, stored_events=990)


def test_the_class_decides_and_an_unknown_one_is_standard(clock: FakeClock) -> None:
    settings = TeamSettings(limits=TeamLimits(small=SmallLimits(searches_per_minute=1), standard=LIMITS))
    held = Quotas(settings, clock)
    held.count_search(member(tenant=1, tenant_class="small"))
    with pytest.raises(QuotaExceeded, match="1 searches"):
        held.count_search(member(tenant=1, tenant_class="small"))
    for _ in range(3):
        held.count_search(member(tenant=2, tenant_class="gigantic"))
    with pytest.raises(QuotaExceeded, match="3 searches"):
        held.count_search(member(tenant=2, tenant_class="gigantic"))


def test_zero_is_no_limit(clock: FakeClock) -> None:
    held = quotas(clock, TenantLimits(0, 0, 0, 0, 0, 0))
    for _ in range(1000):
        held.count_call(member())
        held.count_records(member(), 10_000, 10**9)
    assert list(held._buckets) == []


def test_buckets_of_many_tenants_are_forgotten_once_they_are_full(clock: FakeClock) -> None:
    held = quotas(clock)
    for tenant in range(1, 11_001):
        held.count_call(member(tenant=tenant))
    assert len(held._buckets) == 22_000
    clock.advance(61)
    for tenant in range(20_000, 31_001):
        held.count_call(member(tenant=tenant))
    assert all(tenant >= 20_000 for tenant, _, _ in held._buckets)
