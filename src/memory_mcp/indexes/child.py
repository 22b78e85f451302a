"""The child process that builds and merges parts of an index; it never opens the store."""

from collections.abc import Callable

from memory_mcp.indexes.maker import MakerSetup, ShardMaker


def begin(hello: MakerSetup) -> Callable[[object], object]:
    """Load the kind of index with its engine; return the message handler."""
    from memory_mcp.indexes.registry import KINDS

    return ShardMaker(KINDS[hello.kind](hello.options), hello).answer_request
