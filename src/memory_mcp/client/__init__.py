"""What runs beside a client: relay, hook, forwarded command, and the way to the daemon. Standard library only."""
