"""Forgetting: removing what was said from everything that is kept of it."""
