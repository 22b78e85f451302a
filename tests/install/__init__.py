"""Clients are made to use this memory, and freed of it again."""
