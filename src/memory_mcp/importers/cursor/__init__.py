"""Cursor's databases and agent transcripts: reader over conversations and transcripts over bubbles and workspaces."""
