"""The processes beside a client: relay, hooks, forwarded commands, and their link to the daemon. Standard library only."""
