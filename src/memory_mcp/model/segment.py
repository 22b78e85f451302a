"""Segment: a stretch of one stream's events. Cut points are append-only; only an end may grow."""

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import NodeId, segment_id, segment_key

#: Order of an event inside its stream: (timestamp, event id).
Position = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """One cut: the events between `start` and `end`, both included."""

    stream: int
    #: Counts the cuts of a stream in the order they were made, from 0.
    cut_no: int
    session_id: str
    project: str
    thread: str
    agent: str
    #: Local ISO date of the first event when the cut was made; fixed from then on.
    day: str
    start: Position
    end: Position
    events: int
    tokens: int
    #: Still growing: the last cut of its stream, not ended by a session's end.
    open: bool
    #: Tokenizer-independent rules that made the cut (see `segments.CUTTER_VERSION`).
    cutter: int

    @property
    def key(self) -> int:
        """60-bit hash of stream and cut number; stable when it grows."""
        return segment_key("segment", str(self.stream), str(self.cut_no))

    @property
    def is_begin(self) -> bool:
        """Whether it is the first of its stream."""
        return self.cut_no == 0

    @property
    def node_id(self) -> NodeId:
        """Id of its TOC node, which need not exist."""
        return segment_id(self.day, self.key)
