"""Groups of segments against what people said belongs together: see `python -m bench.topics --help`."""
