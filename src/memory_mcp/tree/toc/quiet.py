"""Choose the children of a node to fold into one line, such as "14 short exchanges". Pure."""

from collections.abc import Collection, Sequence

from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId
from memory_mcp.model.toc import EXTRACTIVE, MemoryKind, TocNode

#: Most events of a short segment: a quarter of the segments of real coding sessions are short, and half have over 18.
SHORT = 8
#: Up to this many children are all shown; fewer short ones than this are not folded.
SHOWN, LEAST = 8, 3


def choose_folded(children: Sequence[TocNode], pinned: Collection[str] = ()) -> list[NodeId]:
    """Return the short segments to fold, in order.

    None unless there are more than 8 children, at least 3 to fold, and one left. What was pinned, or written
    by an agent or a language model, is never folded, nor is any period.
    """
    short_ids = [
        node.node_id
        for node in children
        if node.level is TocLevel.SEGMENT
        and node.event_count <= SHORT
        and node.kind is MemoryKind.OBSERVATION
        and node.author == EXTRACTIVE
        and node.node_id not in pinned
    ]
    return short_ids if LEAST <= len(short_ids) < len(children) and len(children) > SHOWN else []
