"""Settings of embeddings."""

from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, InvalidQuery
from memory_mcp.embed.models import BUNDLED, resolve_model


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """Settings of `[embedder]`."""

    model: str = field(
        default=BUNDLED,
        metadata={
            "help": "bundled, the folder of a model2vec model, or one fetched before by its hub name, such as potion-base-8M; "
            "empty: none, and the vector layer stays off."
        },
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for what cannot be a model's name."""
        try:
            if self.model:
                resolve_model(self.model, None)
        except InvalidQuery as error:
            raise ConfigError(f"embedder.model: {error.message}", error.hint) from None
