"""Brings a file of an older schema up to schema.sql, step by step.

A test builds one file from schema.sql and one through every step, and compares them.
"""

from importlib import resources

import duckdb

#: Statements that lead to each version from the one before it. Never edited once released.
STEPS: dict[int, str] = {
    1: "0001_first.sql",
    2: "0002_usage.sql",
    3: "0003_spending.sql",
    4: "0004_topics.sql",
    5: "0005_projects.sql",
    6: "0006_trust.sql",
    7: "0007_names.sql",
    8: "0008_tool_runs.sql",
    9: "0009_hints.sql",
    10: "0010_hint_quotations.sql",
}
CURRENT = max(STEPS)


def sql(name: str) -> str:
    """Return the text of one SQL file of this package, by its path in it."""
    return resources.files("memory_mcp.storage.duckdb").joinpath(name).read_text(encoding="utf-8")


def read_version(con: duckdb.DuckDBPyConnection) -> int:
    """Return the schema version of an open file; 0 for one without a table `meta` or without a version in it."""
    try:
        # Whether there is the table is not asked first: a list of tables takes ten times as long.
        row = con.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchall()
    except duckdb.CatalogException:
        return 0
    return int(row[0][0]) if row else 0


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create today's tables in an empty file and store their version, inside the caller's transaction."""
    con.execute(sql("schema.sql"))
    con.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(CURRENT)])


def migrate_tables(con: duckdb.DuckDBPyConnection, have: int) -> None:
    """Run every step after version `have` and store today's version, inside the caller's transaction."""
    for step in range(have + 1, CURRENT + 1):
        con.execute(sql(f"steps/{STEPS[step]}"))
    con.execute("DELETE FROM meta WHERE name = 'schema_version'")
    con.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(CURRENT)])
