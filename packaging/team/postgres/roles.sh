#!/bin/sh
# The roles and the database of a memory, made once, when the database's folder is empty. `memory` is no superuser and does not
# bypass row-level security, and so is bound by it although the tables are its own: POSTGRES_USER would not be.
set -eu
psql -v ON_ERROR_STOP=1 -U "${POSTGRES_USER:-postgres}" -d postgres \
    -v memory="$(cat "${MEMORY_PASSWORD_FILE:?}")" -v replicator="$(cat "${REPLICATOR_PASSWORD_FILE:?}")" <<'SQL'
CREATE ROLE memory LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE PASSWORD :'memory';
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'replicator';
CREATE DATABASE memory OWNER memory ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8' TEMPLATE template0;
REVOKE ALL ON DATABASE memory FROM PUBLIC;
\connect memory
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO memory;
SQL
