"""Child process of `workers`: reads frames of segments and writes what was derived, until its input ends."""

from collections.abc import Callable, Sequence
from typing import cast

from memory_mcp.children import answering
from memory_mcp.derive.build import Work, derive
from memory_mcp.model.calendar import Calendar
from memory_mcp.summarize.base import Summarizer


def _begin(hello: object) -> Callable[[object], object]:
    calendar, summarizer = cast("tuple[Calendar, Summarizer]", hello)
    return lambda part: derive(cast("Sequence[Work]", part), calendar, summarizer)


if __name__ == "__main__":
    answering(_begin)
