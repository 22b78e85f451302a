"""Retrieval quality on every corpus there is: see `python -m bench.quality --help`."""
