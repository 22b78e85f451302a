"""Child process of `readers`: reads tasks and returns their parts one by one, until its input ends."""

from collections.abc import Callable, Iterator
from typing import cast

from memory_mcp.children import answering
from memory_mcp.ingest.gate import Gate
from memory_mcp.ingest.readers import Hello, Numbered, Part, parts


def _begin(hello: object) -> Callable[[object], object]:
    told = cast("Hello", hello)
    gate = Gate(told.capture)
    under_way: Iterator[Part] = iter(())

    def answer(request: object) -> object:
        """The first part of a task, or with None the next one."""
        nonlocal under_way
        if request is not None:
            under_way = parts(told, cast("Numbered", request), gate)
        return next(under_way)

    return answer


if __name__ == "__main__":
    answering(_begin)
