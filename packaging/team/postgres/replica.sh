#!/bin/sh
# A streaming replica: a copy of the primary when its folder is empty, then the server itself, which follows from there.
set -eu
passwords=${TMPDIR:-/tmp}/passwords
(umask 077 && printf '%s:*:*:replicator:%s\n' "${PRIMARY_HOST:?}" "$(cat "${REPLICATOR_PASSWORD_FILE:?}")" > "$passwords")
export PGPASSFILE="$passwords"
if [ ! -s "${PGDATA:?}/PG_VERSION" ]; then
    # Begun anew each time: half a copy is none. The primary writes its checkpoint at once instead of spread over minutes; -R writes
    # how the primary is reached; the slot keeps what is not fetched yet.
    rm -rf "${PGDATA:?}"/*
    slot=$(hostname | tr 'A-Z' 'a-z' | tr -c 'a-z0-9\n' '_')
    until pg_basebackup -h "$PRIMARY_HOST" -p "${PRIMARY_PORT:-5432}" -U replicator -D "$PGDATA" -R -c fast -X stream -C -S "memory_$slot"; do
        rm -rf "${PGDATA:?}"/*
        # A copy that was broken off has left its slot.
        psql -h "$PRIMARY_HOST" -p "${PRIMARY_PORT:-5432}" -U replicator -d postgres -c "SELECT pg_drop_replication_slot('memory_$slot')" || true
        sleep 5
    done
    chmod 700 "$PGDATA"
fi
exec postgres "$@"
