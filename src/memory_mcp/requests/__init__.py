"""Requests in, responses out: what both doors offer, with its times, scopes, cursors, limits and defaults."""
