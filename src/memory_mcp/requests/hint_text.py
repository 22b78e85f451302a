"""The words of a hint, with its citation, within its length."""

from memory_mcp.model.fencing import break_citations
from memory_mcp.model.hint import HintKind
from memory_mcp.model.ids import hash_parts
from memory_mcp.tree.summarize.sentences import shorten

#: Bytes of a hint without its fence; characters of a call and of an error in it.
MOST_BYTES, SUBJECT_WIDTH, ERROR_WIDTH = 345, 80, 70
#: Characters of a quotation, at most and at least.
_QUOTED, _LEAST_QUOTED = 150, 20


def cite(before: str, quoted: str, after: str, grip: str) -> str:
    """Return a text with its citation; the quotation in it is shortened to fit `MOST_BYTES`, as far as that goes."""
    width = min(len(quoted), _QUOTED)
    while True:
        cited = f"{break_citations(before + shorten(quoted, width) + after)} [{grip}]"
        if len(cited.encode()) <= MOST_BYTES or width <= _LEAST_QUOTED:
            return cited
        width -= 10


def hash_topic(kind: HintKind, *words: str) -> int:
    """Return a number that is equal for hints that say the same of the same."""
    return hash_parts("hint", kind, *words, bits=60)
