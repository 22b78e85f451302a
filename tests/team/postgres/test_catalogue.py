"""What the catalogue of a real database says of the tables: nothing in it keeps a tenant from being moved to another machine."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from tests.postgres import Cluster

Raw = psycopg.Connection[Any]

#: Tables whose rows belong to no tenant, or say which tenants there are.
_ABOUT_NOBODY = {"schema_version", "tenant"}
#: Hash partitions are made of tables that grow with what is recorded.
_LARGE = {"event", "segment_cut", "node", "node_parent", "bullet", "bullet_grip", "grip", "term_delta", "tool_run", "outbox"}
_COLUMNS = """SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition GROUP BY c.relname"""
_INDEXES = """SELECT t.relname, i.relname, x.indisunique, array_agg(a.attname::text ORDER BY k.place)
  FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
  CROSS JOIN LATERAL unnest(x.indkey) WITH ORDINALITY k(number, place)
  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.number
  WHERE t.relnamespace = 'public'::regnamespace GROUP BY 1, 2, 3"""
_SECURED = """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  AND NOT relispartition AND relrowsecurity AND relforcerowsecurity"""
_POLICIES = "SELECT tablename, policyname, permissive, cmd FROM pg_policies WHERE schemaname = 'public'"
_PARTITIONS = """SELECT p.relname, pg_get_partkeydef(p.oid), count(i.inhrelid)
  FROM pg_class p JOIN pg_inherits i ON i.inhparent = p.oid WHERE p.relkind = 'p' GROUP BY p.oid, p.relname"""
_FOREIGN = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace"
_DERIVED = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm', 'f')"
_CODE = """SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal"""


@pytest.fixture(scope="module")
def catalogue(cluster: Cluster) -> Iterator[Raw]:
    """A connection to a database in which the tables were made by the program's own role."""
    url = cluster.create()
    database = Database(url)
    migrations.migrate_schema(database)
    database.close()
    with psycopg.connect(url, autocommit=True) as raw:
        yield raw


def columns(raw: Raw) -> dict[str, list[str]]:
    return {str(table): list(names) for table, names in raw.execute(_COLUMNS)}


def test_every_table_but_the_list_of_tenants_begins_with_the_tenant(catalogue: Raw) -> None:
    found = columns(catalogue)
    assert {table for table, names in found.items() if names[0] != "tenant"} == {"schema_version"}
    assert set(migrations.list_tables()) == set(found) - migrations.DIRECTORY - migrations.APART - {"schema_version"}
    assert [table for table in migrations.list_tables() if found[table][:2] != ["tenant", "space"]] == []


def test_every_unique_index_begins_with_the_tenant_and_every_one_of_a_memorys_table_with_its_space_too(catalogue: Raw) -> None:
    """Citus can spread a table over machines by a column that every unique key holds."""
    every, memories = catalogue.execute(_INDEXES).fetchall(), set(migrations.list_tables())
    unique = [(table, index, names[0]) for table, index, is_unique, names in every if is_unique and table not in _ABOUT_NOBODY]
    assert [(table, index) for table, index, first in unique if first != "tenant"] == []
    found = [(index, names) for table, index, _, names in every if table in memories]
    assert len(found) >= len(memories)
    assert [index for index, names in found if names[:2] != ["tenant", "space"]] == []


def test_row_level_security_binds_every_memorys_table_its_owner_and_the_programs_role(catalogue: Raw) -> None:
    memories = set(migrations.list_tables())
    assert memories <= {table for (table,) in catalogue.execute(_SECURED)}
    told = {(table, name, permissive, command) for table, name, permissive, command in catalogue.execute(_POLICIES)}
    for table in memories:
        assert (table, "reading", "PERMISSIVE", "SELECT") in told
        assert (table, "writing", "PERMISSIVE", "ALL") in told
    row = catalogue.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row == (False, False)


def test_a_connection_that_is_bound_to_nobody_sees_no_row_of_any_memory(catalogue: Raw) -> None:
    catalogue.execute("SELECT set_config('memory.tenant', '7', false), set_config('memory.member', '0', false)")
    catalogue.execute("INSERT INTO alias VALUES (7, 1, 'old', 'new')")
    assert catalogue.execute("SELECT count(*) FROM alias").fetchone() == (1,)
    catalogue.execute("SELECT set_config('memory.tenant', '', false), set_config('memory.member', '', false)")
    assert catalogue.execute("SELECT count(*) FROM alias").fetchone() == (0,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        catalogue.execute("INSERT INTO alias VALUES (7, 1, 'older', 'new')")


def test_large_tables_are_in_hash_partitions_by_tenant(catalogue: Raw) -> None:
    found = {str(table): (how, count) for table, how, count in catalogue.execute(_PARTITIONS)}
    assert set(found) >= _LARGE
    assert set(found.values()) == {("HASH (tenant)", migrations.PARTITIONS)}


def test_a_partition_that_is_asked_directly_shows_another_tenant_nothing(catalogue: Raw) -> None:
    """The policies of a partitioned table hold for statements that name it; its partitions must not be a way around them."""
    catalogue.execute("SELECT set_config('memory.tenant', '7', false), set_config('memory.member', '0', false)")
    catalogue.execute("INSERT INTO outbox SELECT 7, 1, 1, 'node', 'x'")
    catalogue.execute("SELECT set_config('memory.tenant', '8', false)")
    for number in range(migrations.PARTITIONS):
        assert catalogue.execute(f"SELECT count(*) FROM outbox_{number}".encode()).fetchone() == (0,)


def test_nothing_ties_tenants_together_and_no_extension_is_needed(catalogue: Raw) -> None:
    assert catalogue.execute(_FOREIGN).fetchall() == []
    assert catalogue.execute(_DERIVED).fetchall() == []
    assert catalogue.execute(_CODE).fetchall() == []
    assert catalogue.execute("SELECT extname FROM pg_extension").fetchall() == [("plpgsql",)]


def test_a_database_of_the_first_version_gets_what_it_lacks_for_every_memory(cluster: Cluster, catalogue: Raw) -> None:
    url = cluster.create()
    database = Database(url)
    migrations.migrate_schema(database)
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("DROP TABLE tool_run")
        raw.execute("UPDATE schema_version SET version = 1")
        for tenant in (7, 8):
            raw.execute("INSERT INTO tenant VALUES (%s, %s, 'standard', 0)", [tenant, f"t{tenant}"])
        for tenant in (7, 8):
            raw.execute("SELECT set_config('memory.tenant', %s, false), set_config('memory.member', '0', false)", [str(tenant)])
            cut = "INSERT INTO segment_cut SELECT %s, 1, 5, 6, 0, 's', 'p', '', '', '2026-01-12', 0, %s, 0, %s, 1, 1, true, 1"
            raw.execute(cut, [tenant, *[f"{1:032x}"] * 2])
    migrations.migrate_schema(database)
    database.close()
    with psycopg.connect(url, autocommit=True) as raw:
        assert columns(raw) == columns(catalogue)
        for told in (_INDEXES, _PARTITIONS, _POLICIES):
            assert set(map(str, raw.execute(told.encode()))) == set(map(str, catalogue.execute(told.encode())))
        for tenant in (7, 8):
            raw.execute("SELECT set_config('memory.tenant', %s, false), set_config('memory.member', '0', false)", [str(tenant)])
            assert raw.execute("SELECT name, value FROM checkpoint").fetchall() == [("missing_runs", "1")]


def test_a_database_without_partitions_has_the_same_tables(cluster: Cluster, catalogue: Raw) -> None:
    """With Citus, shards take the place of partitions."""
    url = cluster.create()
    database = Database(url)
    migrations.migrate_schema(database, partitions=0)
    database.close()
    with psycopg.connect(url, autocommit=True) as raw:
        assert columns(raw) == columns(catalogue)
        assert raw.execute(_PARTITIONS).fetchall() == []
        assert {table for (table,) in raw.execute(_SECURED)} >= set(migrations.list_tables())
