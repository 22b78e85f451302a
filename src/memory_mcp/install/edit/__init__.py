"""Somebody else's configuration file, changed at one place and nowhere else."""
