"""What one server keeps open, whom it lends it to, and what row-level security alone keeps from a caller."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import NotFound
from memory_mcp.config import load
from memory_mcp.requests.notes import Note, store_note
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest, search
from memory_mcp_team.access.permissions import Grant, Principal, Role
from memory_mcp_team.errors import PermissionDenied
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Binding, sql
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.server import host as hosts
from memory_mcp_team.server.host import CALL, CallContext, TeamHost
from memory_mcp_team.server.open_memories import MEGABYTE, MemoryKey, OpenLimits, OpenMemories
from memory_mcp_team.server.run import TeamServer
from memory_mcp_team.settings import team_settings
from tests.team.servers import Team
from tests.waiting import until


@contextmanager
def server_of(team: Team, root: Path, more: Mapping[str, str] | None = None) -> Iterator[TeamServer]:
    """The parts of a server in this process, without its address and its workers."""
    own = {"storage.data_dir": str(root), "storage.engine": "postgres", "storage.url": team.url, "team.auth": "keys"}
    settings = load({}, {**own, **(more or {})})
    section = team_settings(settings.extensions)
    alone = replace(section, server=replace(section.server, workers=0))
    server = TeamServer(replace(settings, extensions={"team": alone}))
    try:
        yield server
    finally:
        server.close()


def principal(team: Team, tenant: str, name: str) -> Principal:
    number = team.admin.get_tenant(tenant).tenant
    found = team.admin.directory.find_principal(number, name, ["memory:admin"])
    assert found is not None
    return found


def as_caller(who: Principal, space: str) -> CallContext:
    return CallContext(who, who.find_grant(space))


def ask(host: TeamHost, caller: CallContext, text: str) -> list[str]:
    """The quotations that a search of a caller gives."""

    async def main() -> list[str]:
        CALL.set(caller)
        found = await host.read(lambda app: search(app, SearchRequest(query=text, scope="all"), Caller()))
        return [str(result.quote) for result in found.results]

    return asyncio.run(main())


def remember(host: TeamHost, caller: CallContext, text: str) -> None:
    async def main() -> None:
        CALL.set(caller)
        await host.write(lambda app: store_note(app, Note(text=text, agent="t", project="p", kind="", key="")))

    asyncio.run(main())


def test_no_more_is_kept_open_than_the_bounds_say_and_what_was_closed_is_found_again(tmp_path: Path, team: Team) -> None:
    spaces = [f"space{n}" for n in range(12)]
    team.member("acme", "ann", ("memory:admin",), **dict.fromkeys(spaces, Role.ADMIN))
    ann = principal(team, "acme", "ann")
    with server_of(team, tmp_path, {"team.server.open_spaces": "3"}) as server:
        for n, space in enumerate(spaces):
            remember(server.host, as_caller(ann, space), f"Fruit number {n} is a pomegranate.")
            assert len(server.opened.list_open()) <= 3
        for n, space in enumerate(spaces):
            assert ask(server.host, as_caller(ann, space), "pomegranate") == [f"Fruit number {n} is a pomegranate."]
            assert len(server.opened.list_open()) <= 3
        assert (server.opened.opened_total, server.opened.closed_total) == (24, 21)


def test_what_is_in_use_stays_open_beyond_the_bounds_and_is_closed_with_its_last_user(tmp_path: Path, team: Team) -> None:
    team.member("acme", "ann", a=Role.ADMIN, b=Role.ADMIN)
    tenant = team.admin.get_tenant("acme").tenant
    with (
        server_of(team, tmp_path, {"team.server.open_spaces": "1"}) as server,
        server.opened.lend_memory(MemoryKey(tenant, 1)) as first,
    ):
        with server.opened.lend_memory(MemoryKey(tenant, 2)) as second:
            server.opened.close_unused()
            assert [memory.key.space for memory in server.opened.list_open()] == [1, 2]
        assert [memory.key.space for memory in server.opened.list_open()] == [1]
        assert second is not first
        assert first.app.storage.events.last_seq() == 0


def test_folders_of_closed_memories_go_when_the_disk_holds_more_than_it_may(tmp_path: Path) -> None:
    class Kept:
        """As much of an App as is needed to be closed."""

        def __init__(self, folder: Path) -> None:
            (folder / "index").write_bytes(bytes(MEGABYTE))
            self.accelerators = self

        def close(self) -> None:
            pass

    opened = OpenMemories(lambda _, folder: Kept(folder), tmp_path / "cache", OpenLimits(count=2, disk_bytes=3 * MEGABYTE))  # type: ignore[arg-type, return-value]
    for space in range(1, 9):
        with opened.lend_memory(MemoryKey(1, space)):
            pass
    opened.close_unused()
    left = sorted(int(folder.name) for folder in (tmp_path / "cache" / "1").iterdir())
    assert left[-2:] == [7, 8]
    assert len(left) <= 3
    opened.close()


def test_several_callers_wait_for_one_opening(tmp_path: Path, team: Team) -> None:
    team.member("acme", "ann", a=Role.ADMIN)
    place = MemoryKey(team.admin.get_tenant("acme").tenant, 1)
    with server_of(team, tmp_path) as server:
        found: list[App] = []

        def lend() -> None:
            with server.opened.lend_memory(place) as memory:
                found.append(memory.app)

        threads = [threading.Thread(target=lend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len({id(app) for app in found}) == server.opened.opened_total == 1


def foreign(team: Team, space: str) -> tuple[Principal, Grant]:
    """Somebody without a grant, and the grant that a mistake of the program would take them for having."""
    return principal(team, "acme", "eve"), Grant(
        team.admin.get_space(team.admin.get_tenant("acme").tenant, space).space, space, "team", Role.ADMIN
    )


def test_without_the_programs_own_check_the_database_shows_a_caller_no_foreign_memory(
    tmp_path: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.member("acme", "ann", secrets=Role.ADMIN)
    team.member("acme", "eve", public=Role.ADMIN)
    ann, (eve, grant) = principal(team, "acme", "ann"), foreign(team, "secrets")
    with server_of(team, tmp_path) as server:
        remember(server.host, as_caller(ann, "secrets"), "The cellar holds the marzipan.")
        assert ask(server.host, as_caller(ann, "secrets"), "marzipan") == ["The cellar holds the marzipan."]
        with pytest.raises(NotFound):
            ask(server.host, CallContext(eve, grant), "marzipan")
        monkeypatch.setattr(hosts, "check_request", lambda *_: None)
        # The memory is open and warm; what is kept of it is not for her either.
        with pytest.raises(NotFound):
            ask(server.host, CallContext(eve, grant), "marzipan")
        with pytest.raises(NotFound):
            remember(server.host, CallContext(eve, grant), "Eve was here.")
        assert team.rows("acme", "SELECT count(*) FROM event") == [(1,)]
        # The same person with a grant, from the next call on.
        team.admin.grant_role(ann.tenant, "eve", "secrets", Role.READER)
        assert ask(server.host, CallContext(eve, grant), "marzipan") == ["The cellar holds the marzipan."]


def test_without_any_condition_of_the_statements_a_member_sees_the_rows_of_granted_spaces_alone(
    tmp_path: Path, team: Team
) -> None:
    team.member("acme", "ann", secrets=Role.ADMIN)
    team.member("acme", "eve", public=Role.ADMIN)
    team.member("other", "bob", secrets=Role.ADMIN)
    ann, eve, bob = (principal(team, *who) for who in (("acme", "ann"), ("acme", "eve"), ("other", "bob")))
    with server_of(team, tmp_path) as server:
        for who, space in ((ann, "secrets"), (eve, "public"), (bob, "secrets")):
            remember(server.host, as_caller(who, space), f"{who.name} keeps the marzipan.")
            with server.opened.lend_memory(MemoryKey(who.tenant, as_caller(who, space).space.space)) as memory:
                memory.app.derivation.run()
                assert isinstance(memory.app.storage, PostgresStorage)
        filled = 0
        for table in migrations.list_tables():
            with team.database.lend_connection(Binding(eve.tenant)) as raw:
                filled += raw.execute(sql(f"SELECT count(DISTINCT space) FROM {table}")).fetchall() == [(2,)]
            with team.database.lend_connection(Binding(eve.tenant, eve.member)) as raw:
                seen = raw.execute(sql(f"SELECT DISTINCT tenant, space FROM {table}")).fetchall()
            public = eve.find_grant("public")
            assert public is not None
            assert [row for row in seen if row != (eve.tenant, public.space)] == [], table
        # Events, cuts, nodes, bullets, grips, terms, outbox, heads: enough that the test would fail without the policies.
        assert filled >= 8


def test_a_role_is_held_to_whatever_the_door_lets_through(tmp_path: Path, team: Team) -> None:
    team.member("acme", "ann", shared=Role.ADMIN)
    team.member("acme", "bob", shared=Role.READER)
    bob = principal(team, "acme", "bob")
    with server_of(team, tmp_path) as server, pytest.raises(PermissionDenied):
        remember(server.host, as_caller(bob, "shared"), "A reader writes nothing.")


def test_what_another_process_commits_reaches_the_indexes_of_this_one(tmp_path: Path, team: Team) -> None:
    team.member("acme", "ann", shared=Role.ADMIN)
    ann = principal(team, "acme", "ann")
    with server_of(team, tmp_path / "a") as here, server_of(team, tmp_path / "b") as there:
        there.follower.start()
        assert ask(there.host, as_caller(ann, "shared"), "pomegranate") == []
        remember(here.host, as_caller(ann, "shared"), "The pomegranate is ripe.")
        with here.opened.lend_memory(MemoryKey(ann.tenant, 1)) as memory:
            memory.app.derivation.run()
        [memory] = there.opened.list_open()

        def counts() -> int:
            return memory.app.accelerators.index_statuses()["bm25"].counts["grip"]

        until(lambda: counts() == 1, "for the index of the other server")
