"""What the user may choose about embeddings."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """Settings of `[embedder]`."""

    model: str = field(default="", metadata={"help": "Folder of a model2vec model; empty: none, and the vector layer stays off."})
