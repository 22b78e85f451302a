"""Regular expressions that are compiled when they are first used: of those of its modules a process needs few."""

from __future__ import annotations

import re

#: Known to type checkers; importing `typing` for it would cost a hook a tenth of its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AnyStr

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn", "groups", "groupindex")


class _LazyPattern:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._given_flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._given_flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use.

    Compiling all at a start takes half a second. Call its methods: functions of `re` do not take it.
    """
    return _LazyPattern(pattern, flags)  # type: ignore[return-value]  # it has the methods of one
