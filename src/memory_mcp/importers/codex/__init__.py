"""Codex rollouts: reader over records over texts."""
