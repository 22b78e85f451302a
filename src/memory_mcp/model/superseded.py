"""Statements that hold no more."""

from dataclasses import dataclass

from memory_mcp.model.ids import GripId

#: What stands where a successor's id would, of a statement that was taken back.
RETRACTED = "retracted"


@dataclass(frozen=True, slots=True)
class Superseded:
    """`old` holds no more; `new` stands in its place, or nothing does (None: it was retracted)."""

    old: GripId
    new: GripId | None
    #: UTC milliseconds.
    at_ms: int
    reason: str = ""
    #: `person`, an agent's name, or `contradiction` where the program noticed it.
    author: str = ""
