"""Readers of foreign files: each makes event drafts of what a client, an export or a person wrote."""
