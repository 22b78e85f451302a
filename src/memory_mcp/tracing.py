"""Spans around the steps of a search, for whoever has set up OpenTelemetry in this process; for others next to nothing.

The library is not imported here before somebody else has (27 ms): a process without it has nobody to tell. Without a
configured SDK a span costs 7 µs.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_LIBRARY = "opentelemetry.trace"
_NOTHING: AbstractContextManager[Any] = nullcontext()


def span(name: str) -> AbstractContextManager[Any]:
    """A span inside the one that is open in this thread or task."""
    if _LIBRARY not in sys.modules:
        return _NOTHING
    from opentelemetry import trace

    return trace.get_tracer("memory_mcp").start_as_current_span(name)
