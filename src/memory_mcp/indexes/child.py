"""The child process that builds and merges parts of an index; it never opens the store."""

from collections.abc import Callable

from memory_mcp.indexes.maker import MakerSetup, ShardMaker


def begin(hello: MakerSetup) -> Callable[[object], object]:
    """Load the kind of index that `hello` names, with its engine; return the function that answers each message (see `Maker`)."""
    from memory_mcp.indexes.registry import KINDS

    return ShardMaker(KINDS[hello.kind](hello.options), hello).answer_request
