"""Whether the database of `storage.engine = postgres` answers, and by which role it is used."""

from collections.abc import Iterator

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look


def checks(look: Look) -> Iterator[Check]:
    """Yield one line on the database of storage.url.

    FAIL if it does not answer, WARN if row-level security does not bind its role; nothing for another engine.
    """
    if look.settings is None or look.settings.storage.engine != "postgres":
        return
    from memory_mcp_team.postgres import migrations

    storage = look.settings.storage
    try:
        role = migrations.read_role(storage.url)
    except MemoryMcpError as error:
        yield Check(FAIL, "database", error.message, error.hint)
        return
    where = f"PostgreSQL {role.version} answers as {role.name}; tenant {storage.tenant}, space {storage.space}"
    if role.is_bound:
        yield Check(OK, "database", where)
    else:
        yield Check(WARN, "database", f"{where}; row-level security does not bind this role", migrations.ROLE_HINT)
