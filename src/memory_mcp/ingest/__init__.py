"""Importers, hooks and the write path: read foreign files and payloads, clean them, store events."""
