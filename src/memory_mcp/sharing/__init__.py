"""Chosen projects of this memory in a space of a team's server, and what others published there in this memory."""
