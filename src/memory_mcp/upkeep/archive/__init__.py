"""Copies of a memory: backups in a folder, moves to another engine, and the exchange of events between machines."""
