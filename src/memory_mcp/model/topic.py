"""Topic data that survives a rebuild of the index: identities, history, labels."""

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import TopicId

#: Longest label of a topic, characters (layer 5 of the specification).
MAX_LABEL = 50


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A change of a topic when the memory was grouped again."""

    at_ms: int
    #: `found`, `split from`, `split off`, `merged into`, `took in`, `ended`. On disk: do not change them.
    kind: str
    other: TopicId | None = None


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic as it was when the memory was last grouped."""

    topic_id: TopicId
    born_ms: int
    #: It holds other topics.
    is_area: bool = False
    #: Keys of its segments; none for one that is over.
    members: tuple[int, ...] = ()
    #: The topic that has most of its segments now, for one that is over; "" where none has.
    merged_into: TopicId | None = None
    is_over: bool = False
    changes: tuple[TopicChange, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicLabel:
    """A label of a topic, for readers of one project or all."""

    topic_id: TopicId
    project: str | None
    label: str
    #: `agent`, or a language model as `model.toc.make_llm_author` writes it.
    author: str
    at_ms: int
