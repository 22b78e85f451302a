#!/bin/sh
# Make the secrets that compose.yaml reads, beside it, unless they are there: passwords of the database, the servers' settings file
# with the database's address, and a certificate signed by itself, which is to be replaced by one that callers trust.
#
#   sh packaging/team/secrets.sh HOST
set -eu
host=${1:?name the host that callers will use, such as memory.example.com}
folder=$(cd "$(dirname "$0")" && pwd)/secrets
umask 077
mkdir -p "$folder"
for name in postgres_password memory_password replicator_password; do
    [ -s "$folder/$name" ] || openssl rand -hex 24 | tr -d '\n' > "$folder/$name"
done
[ -s "$folder/memory.toml" ] || cat > "$folder/memory.toml" <<SETTINGS
[storage]
engine = "postgres"
url = "postgresql://memory:$(cat "$folder/memory_password")@db/memory"
SETTINGS
[ -s "$folder/tls.key" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 \
    -subj "/CN=$host" -addext "subjectAltName=DNS:$host" -keyout "$folder/tls.key" -out "$folder/tls.crt" 2> /dev/null
# Compose shows files with the owner they have here: the servers' user must be able to read theirs, the database's its own.
# The folder keeps everybody else out.
chmod 644 "$folder"/*
