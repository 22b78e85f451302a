"""The server that answers a team."""
