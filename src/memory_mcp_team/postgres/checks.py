"""Whether the database of `storage.engine = postgres` answers, and by which role it is used."""

from collections.abc import Iterator

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look


def checks(look: Look) -> Iterator[Check]:
    """Yield one line on the database of storage.url.

    Nothing where the memory is in the data directory. FAIL where it does not answer, WARN where row-level
    security does not bind its role.
    """
    if look.settings is None or look.settings.storage.engine != "postgres":
        return
    from memory_mcp_team.postgres import roles

    storage = look.settings.storage
    try:
        role = roles.read_role(storage.url)
    except MemoryMcpError as error:
        yield Check(FAIL, "database", error.message, error.hint)
        return
    where = f"PostgreSQL {role.version} answers as {role.name}; tenant {storage.tenant}, space {storage.space}"
    if role.is_bound:
        yield Check(OK, "database", where)
    else:
        yield Check(WARN, "database", f"{where}; row-level security does not bind this role", roles.ANOTHER)
