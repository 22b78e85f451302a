"""The commands, in the order help shows them. One line each."""

from memory_mcp.cli.commands import (
    admin,
    config,
    daemon,
    doctor,
    hook,
    import_,
    ingest,
    navigate,
    query,
    retrieval,
    scheduler,
    search,
    serve,
    teleport,
    timeline,
    try_,
)

COMMANDS = (
    try_,
    serve,
    daemon,
    import_,
    ingest,
    hook,
    search,
    navigate,
    query,
    timeline,
    teleport,
    retrieval,
    scheduler,
    admin,
    config,
    doctor,
)
