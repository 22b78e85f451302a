"""Requests in, responses out: what the MCP tools and the commands share."""
