"""Nouns that are stored, and the rules every room leans on; frozen, no I/O."""
