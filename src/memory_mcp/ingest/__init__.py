"""Here is someone else's file, give me Events."""
