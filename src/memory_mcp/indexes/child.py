"""The child process that builds and merges parts of an index; it never opens the store."""

from collections.abc import Callable

from memory_mcp.indexes.maker import Hello, Maker


def begin(hello: Hello) -> Callable[[object], object]:
    """Load the engine of an index; return what answers each message."""
    from memory_mcp.indexes.registry import KINDS

    return Maker(KINDS[hello.kind](hello.options), hello).answer
