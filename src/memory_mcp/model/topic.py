"""Data of topics that survives a rebuild of their index: identities, history, and labels given by people or models."""

from dataclasses import dataclass

from memory_mcp.model.ids import TopicId

#: Longest label of a topic, characters (layer 5 of the specification).
MAX_LABEL = 50


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that happened to a topic when the memory was grouped anew."""

    at_ms: int
    #: `found`, `split from`, `split off`, `merged into`, `took in`, `ended`. On disk: do not change them.
    what: str
    other: TopicId | None = None


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic that was found, as it was when the memory was last grouped."""

    topic_id: TopicId
    born_ms: int
    #: It holds other topics.
    is_area: bool = False
    #: Keys of its segments; none for one that is over.
    members: tuple[int, ...] = ()
    #: The topic that has most of its segments now, for one that is over; "" where none has.
    merged_into: TopicId | None = None
    is_over: bool = False
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicLabel:
    """A label given to a topic, for viewers of one project or of all (None)."""

    topic_id: TopicId
    project: str | None
    label: str
    #: `agent`, or a language model as `model.toc.llm_author` writes it.
    author: str
    at_ms: int
