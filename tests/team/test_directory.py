"""Members, grants, keys and their audit in a real database, and what row-level security alone keeps apart."""

from typing import Any

import pytest

from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, NotFound, StorageError
from memory_mcp_team.access import keys
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.directory import Directory
from memory_mcp_team.access.keys import KeyText
from memory_mcp_team.access.permissions import Grant, Principal, Role
from memory_mcp_team.errors import PermissionDenied, Unauthenticated
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Binding, Database
from tests.fakes import FakeClock

DAY = 86_400


@pytest.fixture
def directory(acts: Administration) -> Directory:
    return acts.directory


def refused(directory: Directory, key: KeyText) -> str:
    with pytest.raises(Unauthenticated) as raised:
        directory.get_principal(key)
    return raised.value.message


def audited(directory: Directory, tenant: int) -> list[tuple[str, str]]:
    return [(act.what, act.subject) for act in reversed(directory.list_acts(tenant, 100))]


# callers


def test_a_member_is_found_by_subject_with_grants_and_scopes(acts: Administration, directory: Directory, acme: int) -> None:
    acts.add_space(acme, "docs", "project")
    acts.grant_role(acme, "Ada", "docs", Role.ADMIN)
    found = directory.find_principal(acme, "keys|Ada", ["openid", "memory:curate"])
    grants = (Grant(2, "docs", "project", Role.ADMIN), Grant(1, "team", "team", Role.WRITER))
    assert found == Principal(acme, "standard", 1, "Ada", False, grants, Role.CURATOR)
    assert directory.find_principal(acme, "keys|Bob", ["memory:read"]) is None


def test_a_key_acts_as_its_member_in_its_spaces_within_its_scopes(acts: Administration, directory: Directory, acme: int) -> None:
    acts.add_space(acme, "docs", "project")
    acts.grant_role(acme, "Ada", "docs", Role.ADMIN)
    key = acts.make_key(acme, "ci", "Ada", ["memory:write"], ["docs"])
    grants = (Grant(2, "docs", "project", Role.ADMIN),)
    assert directory.get_principal(key) == Principal(acme, "standard", 1, "Ada", False, grants, Role.WRITER, key.key_id)
    assert directory.get_principal(key).find_role(2) is Role.WRITER
    assert directory.get_principal(key).find_role(1) is None


def test_a_key_in_a_space_that_its_member_lost_sees_nothing(acts: Administration, directory: Directory, acme: int) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:write"], ["team"])
    assert directory.get_principal(key).find_role(1) is Role.WRITER
    assert acts.revoke_role(acme, "Ada", "team")
    assert directory.get_principal(key).grants == ()


def test_a_key_expires(acts: Administration, directory: Directory, acme: int, clock: FakeClock) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:read"], days=1)
    for_good = acts.make_key(acme, "hooks", "Ada", ["memory:read"], days=None)
    clock.advance(DAY - 1)
    directory.get_principal(key)
    clock.advance(1)
    assert refused(directory, key) == "the API key has expired"
    clock.advance(3000 * DAY)
    directory.get_principal(for_good)


def test_a_revoked_key_and_those_of_a_removed_member_count_no_more(acts: Administration, directory: Directory, acme: int) -> None:
    one, two = (acts.make_key(acme, name, "Ada", ["memory:read"]) for name in ("one", "two"))
    assert acts.revoke_key(acme, one.key_id)
    assert not acts.revoke_key(acme, one.key_id)
    assert refused(directory, one) == "the API key was revoked"
    directory.get_principal(two)
    acts.remove_member(acme, "Ada")
    assert refused(directory, two) == "the API key was revoked"
    with pytest.raises(PermissionDenied, match="was removed"):
        directory.find_principal(acme, "keys|Ada", ["memory:read"])
    # A member who comes back has neither grants nor keys.
    acts.add_member(acme, "Ada", "keys|Ada")
    assert refused(directory, two) == "the API key was revoked"
    back = directory.find_principal(acme, "keys|Ada", ["memory:read"])
    assert back is not None
    assert (back.member, back.grants) == (1, ())


def test_every_wrong_key_is_told_the_same(acts: Administration, directory: Directory, acme: int, other: int) -> None:
    key, theirs = acts.make_key(acme, "ci", "Ada", ["memory:admin"]), acts.make_key(other, "ci", "Ada", ["memory:admin"])
    wrong = [
        KeyText(acme, key.key_id, theirs.secret),
        KeyText(acme, theirs.key_id, theirs.secret),
        KeyText(other, key.key_id, key.secret),
        KeyText(other, theirs.key_id, key.secret),
        KeyText(999, key.key_id, key.secret),
        keys.make_key(acme),
    ]
    assert {refused(directory, one) for one in wrong} == {"the API key is not valid"}
    assert directory.get_principal(theirs).tenant == other


def test_a_wrong_secret_learns_nothing_of_an_expired_or_revoked_key(
    acts: Administration, directory: Directory, acme: int, clock: FakeClock
) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:read"], days=1)
    acts.revoke_key(acme, key.key_id)
    clock.advance(2 * DAY)
    assert refused(directory, KeyText(acme, key.key_id, "0" * 64)) == "the API key is not valid"


def test_the_last_use_is_kept_by_the_hour(acts: Administration, directory: Directory, acme: int, clock: FakeClock) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:read"])
    assert directory.list_keys(acme)[0].used_ms is None
    clock.advance(1800)
    directory.get_principal(key)
    used = directory.list_keys(acme)[0].used_ms
    assert used == clock.now_ms() - 1_800_000
    clock.advance(600)
    directory.get_principal(key)
    assert directory.list_keys(acme)[0].used_ms == used
    clock.advance(3600)
    directory.get_principal(key)
    assert directory.list_keys(acme)[0].used_ms == used + 3_600_000


def test_the_database_holds_no_secret(acts: Administration, database: Database, acme: int) -> None:
    key = acts.make_key(acme, "ci", "Ada", ["memory:read"])
    with database.lend_connection(Binding(acme)) as raw:
        everything = str(raw.execute("SELECT * FROM api_key").fetchall() + raw.execute("SELECT * FROM team_audit").fetchall())
    assert key.key_id in everything
    assert key.secret not in everything


# administration


def test_every_act_is_audited_once_and_repeating_it_changes_nothing(
    acts: Administration, directory: Directory, acme: int
) -> None:
    before = audited(directory, acme)
    assert before == [("tenant add", "acme"), ("space add", "team"), ("member add", "Ada"), ("grant", "Ada")]
    acts.add_tenant("acme")
    acts.add_space(acme, "team")
    acts.add_member(acme, "Ada", "keys|Ada")
    assert not acts.grant_role(acme, "Ada", "team", Role.WRITER)
    assert audited(directory, acme) == before
    acts.add_tenant("acme", "large")
    acts.add_member(acme, "Ada L.", "keys|Ada", "admin")
    assert acts.grant_role(acme, "Ada L.", "team", Role.ADMIN)
    key = acts.make_key(acme, "ci", "Ada L.", ["memory:read"])
    acts.revoke_key(acme, key.key_id)
    acts.revoke_role(acme, "Ada L.", "team")
    assert not acts.revoke_role(acme, "Ada L.", "team")
    acts.remove_member(acme, "Ada L.")
    assert audited(directory, acme)[len(before) :] == [
        ("tenant class", "acme"),
        ("member change", "Ada L."),
        ("grant", "Ada L."),
        ("key make", key.key_id),
        ("key revoke", key.key_id),
        ("revoke", "Ada L."),
        ("member remove", "Ada L."),
    ]
    newest = directory.list_acts(acme, 1)[0]
    assert (newest.author, newest.detail) == ("root@here", {"identity": "keys|Ada", "keys_revoked": 0})


def test_an_act_that_fails_leaves_neither_a_trace_nor_an_audit(acts: Administration, directory: Directory, acme: int) -> None:
    before = (audited(directory, acme), directory.list_members(acme), directory.list_spaces(acme))
    wrong: list[Any] = [
        lambda: acts.add_space(acme, "a space"),
        lambda: acts.add_space(acme, "mine", "private"),
        lambda: acts.add_space(acme, "mine", "private", owner="Bob"),
        lambda: acts.add_space(acme, "mine", "secret"),
        lambda: acts.add_space(acme, "mine", timezone="Mars/Olympus"),
        lambda: acts.add_member(acme, " ", "keys|x"),
        lambda: acts.add_member(acme, "a\nb", "keys|x"),
        lambda: acts.grant_role(acme, "Bob", "team", Role.READER),
        lambda: acts.grant_role(acme, "Ada", "docs", Role.READER),
        lambda: acts.make_key(acme, "ci", "Ada", []),
        lambda: acts.make_key(acme, "ci", "Ada", ["memory:root"]),
        lambda: acts.make_key(acme, "ci", "Ada", ["memory:read"], ["docs"]),
        lambda: acts.make_key(acme, "ci", "Ada", ["memory:read"], days=0),
        lambda: acts.revoke_key(acme, "nothing"),
        lambda: acts.add_tenant("acme", "huge"),
    ]
    for act in wrong:
        with pytest.raises(MemoryMcpError) as raised:
            act()
        assert isinstance(raised.value, NotFound | InvalidQuery)
    assert (audited(directory, acme), directory.list_members(acme), directory.list_spaces(acme)) == before
    assert directory.list_keys(acme) == []


def test_two_members_of_one_name_are_told_apart_by_their_subjects(acts: Administration, acme: int) -> None:
    acts.add_member(acme, "Ada", "https://id.example|ada-2")
    with pytest.raises(InvalidQuery, match="several members"):
        acts.grant_role(acme, "Ada", "team", Role.READER)
    assert acts.grant_role(acme, "https://id.example|ada-2", "team", Role.READER)


def test_who_joins_by_claim_does_so_once_and_a_removed_member_not_again(
    acts: Administration, directory: Directory, acme: int
) -> None:
    for _ in range(2):
        acts.join_member(acme, "Bob", "https://id.example|bob", [("team", Role.READER), ("nowhere", Role.ADMIN)])
    found = directory.find_principal(acme, "https://id.example|bob", ["memory:admin"])
    assert found is not None
    assert found.grants == (Grant(1, "team", "team", Role.READER),)
    acts.remove_member(acme, "Bob")
    acts.join_member(acme, "Bob", "https://id.example|bob", [("team", Role.READER)])
    with pytest.raises(PermissionDenied, match="was removed"):
        directory.find_principal(acme, "https://id.example|bob", ["memory:admin"])


# row-level security

TABLES = sorted(migrations.DIRECTORY)


def rows(database: Database, bound: Binding | None, table: str) -> list[Any]:
    with database.lend_connection(bound) as raw:
        return raw.execute(f"SELECT tenant FROM {table}".encode()).fetchall()


def test_without_any_filter_a_connection_sees_its_own_tenant_alone(
    acts: Administration, database: Database, acme: int, other: int
) -> None:
    for tenant in (acme, other):
        acts.make_key(tenant, "ci", "Ada", ["memory:read"])
        acts.grant_role(tenant, "Ada", "team", Role.READER)
    for table in TABLES:
        for tenant in (acme, other):
            for who in (0, 1):
                found = rows(database, Binding(tenant, who), table)
                assert found
                assert set(found) == {(tenant,)}, table
        assert rows(database, None, table) == []
        assert rows(database, Binding(999), table) == []
    assert rows(database, Binding(acme), "tenant") == [(acme,)]


def test_a_connection_of_a_member_gives_itself_nothing_and_a_tenants_writes_nothing_of_another(
    acts: Administration, database: Database, acme: int, other: int
) -> None:
    with pytest.raises(StorageError, match="row-level security"), database.lend_connection(Binding(acme)) as raw:
        raw.execute("INSERT INTO space_grant VALUES (%s, 2, 1, 'admin')", [other])
    acts.add_space(acme, "secret")
    with pytest.raises(StorageError, match="row-level security"), database.lend_connection(Binding(acme, 1)) as raw:
        raw.execute("INSERT INTO space_grant VALUES (%s, 2, 1, 'admin')", [acme])
    with database.lend_connection(Binding(acme, 1)) as raw:
        assert raw.execute("UPDATE space_grant SET role = 'admin'").rowcount == 0
        assert raw.execute("UPDATE member SET role = 'admin'").rowcount == 0
        assert raw.execute("DELETE FROM team_audit").rowcount == 0
    found = acts.directory.find_principal(acme, "keys|Ada", ["memory:admin"])
    assert found is not None
    assert [(grant.name, grant.role) for grant in found.grants] == [("team", Role.WRITER)]


def test_grants_decide_what_a_members_connection_reads_of_memories(acts: Administration, database: Database, acme: int) -> None:
    """The policies of memories look into the grants, which have a policy themselves."""
    acts.add_space(acme, "secret")
    with database.lend_connection(Binding(acme, 1)) as raw:
        assert raw.execute("SELECT space FROM head").fetchall() == [(1,)]
    acts.grant_role(acme, "Ada", "secret", Role.READER)
    with database.lend_connection(Binding(acme, 1)) as raw:
        assert raw.execute("SELECT space FROM head ORDER BY space").fetchall() == [(1,), (2,)]
    acts.revoke_role(acme, "Ada", "team")
    with database.lend_connection(Binding(acme, 1)) as raw:
        assert raw.execute("SELECT space FROM head").fetchall() == [(2,)]
