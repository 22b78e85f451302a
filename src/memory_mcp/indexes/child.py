"""The child process that builds and merges parts of an index; it never opens the store."""

from collections.abc import Callable
from typing import cast

from memory_mcp.children import answering
from memory_mcp.indexes.maker import Hello, Maker


def _begin(hello: object) -> Callable[[object], object]:
    from memory_mcp.indexes.registry import KINDS

    told = cast("Hello", hello)
    return Maker(KINDS[told.kind](told.options), told).answer


if __name__ == "__main__":
    answering(_begin)
