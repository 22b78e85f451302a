"""Here is a client, make it use this memory, and undo that to the last byte: see base.py."""
