"""Team servers as real processes over a real PostgreSQL, and callers with keys."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.place import Place
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.permissions import Role
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from tests.daemon.http_client import Caller
from tests.daemon.test_serve_http import serve, told
from tests.waiting import PATIENCE


@dataclass
class Team:
    """A database with its tenants, and who may do what in it."""

    url: str
    database: Database = field(init=False)
    admin: Administration = field(init=False)

    def __post_init__(self) -> None:
        self.database = Database(self.url, 4)
        migrations.migrate_schema(self.database, partitions=2)
        self.admin = Administration(self.database, "tests")

    def member(self, tenant: str, name: str, scopes: tuple[str, ...] = ("memory:admin",), **spaces: Role) -> str:
        """The key of a member of a tenant, with roles in spaces; what is missing is made."""
        number = self.admin.add_tenant(tenant).tenant
        self.admin.add_member(number, name, name)
        for space, role in spaces.items():
            if space not in [known.name for known in self.admin.directory.list_spaces(number)]:
                kind = space.partition("_")[0]
                self.admin.add_space(number, space, kind if kind in ("project", "private") else "team", owner=name)
            self.admin.grant_role(number, name, space, role)
        return str(self.admin.make_key(number, "tests", name, scopes))

    def rows(self, tenant: str, statement: str) -> list[tuple[Any, ...]]:
        """What a statement gives, for the program itself in a tenant."""
        from memory_mcp_team.postgres.database import Binding, sql

        number = self.admin.get_tenant(tenant).tenant
        with self.database.lend_connection(Binding(number)) as raw:
            return raw.execute(sql(statement)).fetchall()

    def close(self) -> None:
        self.database.close()


@dataclass
class Server:
    """One process."""

    process: "subprocess.Popen[str]"
    url: str
    folder: Path
    #: What it wrote to its standard error, once it has ended.
    log: str = ""

    def caller(self, key: str, space: str = "", project: str = "") -> Caller:
        return Caller(self.url, key, project, more={"Memory-Space": space} if space else {})

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, body = Caller(self.url, "").send("GET", path, None, **headers)
        return status, body.decode()


Pair = tuple[Server, Server]
Begin = Callable[["subprocess.Popen[str]"], None]


@contextmanager
def serving(root: Path, url: str, more: Mapping[str, str] | None = None, begin: Begin = lambda _: None) -> Iterator[Server]:
    """`serve --http` with a data directory of its own, as the installed command, until the end of the block.

    `begin` is called with the process before its address is waited for.
    """
    settings = {
        "MEMORY_MCP_STORAGE__ENGINE": "postgres",
        "MEMORY_MCP_STORAGE__URL": url,
        "MEMORY_MCP_TEAM__AUTH": "keys",
        "MEMORY_MCP_TEAM__SERVER__NOTICE_SECS": "0",
        "MEMORY_MCP_TEAM__SERVER__DRAIN_SECS": "10",
    }
    with Place(root, more=settings | dict(more or {})) as place:
        process = serve(place, "--http", "--port", "0", "--json")
        try:
            begin(process)
            server = Server(process, told(process)["url"], place.directory)
            yield server
        finally:
            if process.poll() is None:
                process.terminate()
            _, log = process.communicate(timeout=PATIENCE)
        server.log = log
