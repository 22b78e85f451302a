"""Convert payloads of clients' hooks to events."""
