"""Statements that are no longer valid."""

from dataclasses import dataclass

from memory_mcp.model.ids import GripId

#: Takes the place of a successor's id for a statement that was retracted.
RETRACTED = "retracted"
#: Author and reason if the program itself noticed that a newer statement contradicts an older one.
CONTRADICTION, OTHERWISE = "contradiction", "a later statement says otherwise"


@dataclass(frozen=True, slots=True)
class Superseded:
    """`old` is no longer valid: `new` replaces it, or None if it was retracted."""

    old: GripId
    new: GripId | None
    #: UTC milliseconds.
    at_ms: int
    reason: str = ""
    #: `person`, an agent's name, or `contradiction` where the program noticed it.
    author: str = ""
    #: Of what the program noticed the words that hold no more, of which the quotation may hold others; "": all of it.
    words: str = ""

    def concerns(self, text: str) -> bool:
        """Return whether a text holds words that are no longer valid: those in `words`, or any text where `words` is ""."""
        return not self.words or self.words in text
