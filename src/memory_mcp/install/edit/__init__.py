"""Edits another program's configuration file at one place, leaving the rest to the byte."""
