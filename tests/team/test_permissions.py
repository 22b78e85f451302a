"""Roles, scopes and requests: who may do what, over values alone."""

import pytest

from memory_mcp.base.errors import MemoryMcpError, NotFound
from memory_mcp.requests.registry import all_requests
from memory_mcp_team.access.permissions import (
    ACTS,
    LOWEST_ROLES,
    NOT_OFFERED,
    SCOPES,
    Act,
    Grant,
    Principal,
    Role,
    check_request,
    find_highest_role,
    get_grant,
    is_allowed,
)
from memory_mcp_team.errors import InsufficientScope, PermissionDenied
from memory_mcp_team.settings import _ROLES
from tests.writing import WRITING

TEAM, DOCS, OTHER = 1, 2, 99
ROLES = list(Role)


def principal(role: Role = Role.READER, at_most: Role | None = Role.ADMIN, is_tenant_admin: bool = False) -> Principal:
    grants = (Grant(DOCS, "docs", "project", Role.READER), Grant(TEAM, "team", "team", role))
    return Principal(7, "standard", 3, "Ada", is_tenant_admin, grants, at_most)


def said(principal: Principal, space: int, request: str) -> str:
    with pytest.raises(MemoryMcpError) as raised:
        check_request(principal, space, request)
    return str(raised.value)


def test_every_request_has_the_act_it_needs() -> None:
    assert set(all_requests()) - set(ACTS) == NOT_OFFERED
    assert set(ACTS).isdisjoint(NOT_OFFERED)
    assert sorted(name for name, act in ACTS.items() if name in WRITING and act in (Act.READ, Act.WRITE)) == []
    others = {"hooks", "import", "recall", "backup", "restore", "config"}
    assert set(ACTS) - set(all_requests()) == others


def test_what_only_reads_is_a_readers_unless_it_tells_of_the_servers_machine() -> None:
    reading = {name for name in all_requests() if name not in {*WRITING, *NOT_OFFERED, "remember", "ingest_events"}}
    assert {name for name in reading if ACTS[name] is not Act.READ} == {"get_overview", "get_spend", "list_clients"}


@pytest.mark.parametrize(
    ("request_name", "lowest"),
    [
        ("intelligent_search", Role.READER),
        ("expand_grip", Role.READER),
        ("remember", Role.WRITER),
        ("ingest_events", Role.WRITER),
        ("hooks", Role.WRITER),
        ("import", Role.WRITER),
        ("correct", Role.CURATOR),
        ("retract", Role.CURATOR),
        ("pin", Role.CURATOR),
        ("refine_summary", Role.CURATOR),
        ("alias_project", Role.CURATOR),
        ("label_topic", Role.CURATOR),
        ("split_project", Role.CURATOR),
        ("exclude", Role.CURATOR),
        ("pause_capture", Role.CURATOR),
        ("forget", Role.ADMIN),
        ("backup", Role.ADMIN),
        ("run_job", Role.ADMIN),
        ("config", Role.ADMIN),
    ],
)
def test_each_role_may_do_what_those_before_it_may(request_name: str, lowest: Role) -> None:
    for role in ROLES:
        if role.rank >= lowest.rank:
            check_request(principal(role), TEAM, request_name)
        else:
            refused = f"PERMISSION_DENIED: the role {lowest.value} is needed for {request_name} in this space"
            assert refused in said(principal(role), TEAM, request_name)


def test_the_lower_of_role_and_scope_decides() -> None:
    for role in ROLES:
        for at_most in [*ROLES, None]:
            who = principal(role, at_most)
            allowed = {act for act in Act if is_allowed(who, TEAM, act)}
            rank = -1 if at_most is None else min(role.rank, at_most.rank)
            assert allowed == {act for act in Act if LOWEST_ROLES[act].rank <= rank}


def test_a_role_that_would_do_asks_for_the_scope() -> None:
    with pytest.raises(InsufficientScope) as raised:
        check_request(principal(Role.ADMIN, Role.READER), TEAM, "forget")
    assert raised.value.scope == "memory:admin"
    with pytest.raises(PermissionDenied) as denied:
        check_request(principal(Role.WRITER, Role.ADMIN), TEAM, "forget")
    assert not isinstance(denied.value, InsufficientScope)


@pytest.mark.parametrize("request_name", ["intelligent_search", "forget", "no_such_request"])
def test_a_foreign_space_is_one_that_is_not_there(request_name: str) -> None:
    """Whatever is asked, and whether anybody has such a space, in the same words."""
    answers = {said(principal(Role.ADMIN), space, request_name) for space in (OTHER, 12345, 0, -1)}
    assert answers == {"NOT_FOUND: there is no such space. Ask for the spaces you may see."}


def test_a_foreign_name_is_one_that_is_not_there() -> None:
    who = principal()
    assert get_grant(who, "team").space == TEAM
    for name in ("theirs", "", "TEAM", "team "):
        with pytest.raises(NotFound, match="there is no"):
            get_grant(who, name)
    with pytest.raises(NotFound):
        get_grant(principal(at_most=None), "team")


def test_a_tenants_admin_sees_no_space_without_a_grant() -> None:
    admin = principal(is_tenant_admin=True)
    assert not is_allowed(admin, OTHER, Act.READ)


def test_a_request_that_the_table_does_not_name_is_refused_to_everybody() -> None:
    for name in NOT_OFFERED:
        assert "PERMISSION_DENIED" in said(principal(Role.ADMIN), TEAM, name)
    assert said(principal(Role.ADMIN), TEAM, "new_request").startswith("PERMISSION_DENIED: new_request is not offered")


def test_the_highest_scope_counts_and_others_are_no_matter() -> None:
    assert find_highest_role(["openid", "memory:read", "memory:curate"]) is Role.CURATOR
    assert find_highest_role(["openid", "memory:", "memory:root", "MEMORY:ADMIN", "memory:admin "]) is None
    assert find_highest_role([]) is None
    assert list(SCOPES.values()) == ROLES


def test_settings_and_the_table_name_the_same_roles() -> None:
    assert list(_ROLES) == [role.value for role in Role]
