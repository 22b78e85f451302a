"""Makes clients use this memory, and reverts that to the byte: see base.py."""
