"""The audit trail: acts on the memory itself, without the text concerned."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Act:
    """One act: forget, correct, retract, refine, pin, unpin, label, alias, split, restore, merge, migrate, salvage, pause ..."""

    what: str
    #: UTC milliseconds.
    at_ms: int
    #: Who asked for it: `person` (typed on a terminal and confirmed), or an agent's name.
    author: str
    #: Ids or a kind of thing; never a forgotten text or value.
    subject: str = ""
    reason: str = ""
    #: How many of what: {"events": 3, "grips": 7}.
    counts: Mapping[str, int] = field(default_factory=dict)
