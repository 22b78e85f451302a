"""Makes clients use this memory by edits of their configuration files, and reverts the edits to the byte: see base.py."""
