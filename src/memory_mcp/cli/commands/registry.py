"""The commands, in the order help shows them. One line each."""

from memory_mcp.cli.commands import (
    admin,
    config,
    doctor,
    import_,
    ingest,
    navigate,
    query,
    retrieval,
    search,
    serve,
    timeline,
    try_,
)

COMMANDS = (
    try_,
    serve,
    import_,
    ingest,
    search,
    navigate,
    query,
    timeline,
    retrieval,
    admin,
    config,
    doctor,
)
