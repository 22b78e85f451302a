#!/bin/sh
# The container's own process: the HTTP door while it runs, and, when the container is stopped, an end in order of the daemon
# behind it. As process 1 Python would not end on SIGTERM at all, and the daemon would be killed ten seconds later.
memory-mcp serve --http --host 0.0.0.0 "$@" &
door=$!
# The door first: it would start another daemon.
trap 'kill "$door"; memory-mcp daemon stop; exit 0' TERM INT
wait "$door"
