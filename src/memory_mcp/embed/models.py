"""Find a model's folder by name: the bundled one, the user's own, or a fetched one.

Nothing here uses the network: a missing model is an error with the command that downloads it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, LayerUnavailable

BUNDLED = "bundled"
#: Folder of downloaded models in a data directory.
FETCHED_FOLDER = "models"
#: Files of a model.
WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
FILES = (CONFIG, TOKENIZER, WEIGHTS)
_HUB_NAME = re.compile(r"(?!.*--)(?!\.)[\w.-]+/(?!\.)[\w.-]+", re.A)
_BARE_NAME = re.compile(r"(?![.~])[\w.-]+", re.A)
_OWNER_SEPARATOR = "--"


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A published model that fits; download size from its model card."""

    name: str
    dimensions: int
    megabytes: int
    good_for: str


#: Static models of Minish Lab (MIT licence).
PRETRAINED = (
    Pretrained("minishlab/potion-base-2M", 64, 8, "the smallest"),
    Pretrained("minishlab/potion-base-4M", 128, 15, "small"),
    Pretrained("minishlab/potion-base-8M", 256, 30, "English in general"),
    Pretrained("minishlab/potion-base-32M", 512, 130, "English in general, larger"),
    Pretrained("minishlab/potion-retrieval-32M", 512, 130, "English, questions and passages"),
    Pretrained("minishlab/potion-multilingual-128M", 256, 512, "101 languages"),
)
_BY_BARE_NAME = {m.name.split("/")[1].lower(): m.name for m in PRETRAINED}


@dataclass(frozen=True, slots=True)
class Model:
    """A model by name, and its folder, which may not exist."""

    name: str
    #: bundled, folder or hub.
    kind: str
    folder: Path

    @property
    def is_complete(self) -> bool:
        """Whether all of its files exist in its folder, unread."""
        return all((self.folder / name).is_file() for name in FILES)


def resolve_model(name: str, home: Path | None) -> Model:
    """Return the model that a setting names; its folder may not exist.

    A name like OWNER/NAME, and the last part of a known one, is the hub's; other paths are folders. `home` is the data
    directory, None for a memory without one. Raises InvalidQuery for what cannot be a model's name.
    """
    model_name = name.strip()
    if model_name == BUNDLED:
        return Model(BUNDLED, BUNDLED, Path(__file__).parent / BUNDLED)
    # The hub's own name, or the last part of a known one in any case.
    if hub := model_name if _HUB_NAME.fullmatch(model_name) else _BY_BARE_NAME.get(model_name.lower(), ""):
        owner, _, short = hub.partition("/")
        return Model(hub, "hub", (home or Path()) / FETCHED_FOLDER / f"{owner}{_OWNER_SEPARATOR}{short}")
    if not model_name or _BARE_NAME.fullmatch(model_name):
        known_names = ", ".join((BUNDLED, *(m.name.split("/")[1] for m in PRETRAINED)))
        raise InvalidQuery(
            f"no model is called {name!r}", f"Known are {known_names}; others by OWNER/NAME or by their folder's path."
        )
    try:
        folder = Path(model_name).expanduser().absolute()
    except RuntimeError:
        raise InvalidQuery(f"unknown home directory in {name!r}", "Name the folder by its whole path.") from None
    return _fetched_model(folder) or Model(str(folder), "folder", folder)


def locate_model(name: str, home: Path | None) -> Model:
    """Resolve a model; raises LayerUnavailable if it is not downloaded.

    Whether the files of the bundled one or of a folder exist is not checked. Raises InvalidQuery for what is no name.
    """
    model = resolve_model(name, home)
    if model.kind == "hub" and not model.is_complete:
        folder_hint = f" Or if the folder is meant: ./{name}" if Path(name).is_dir() else ""
        hint = f"Fetch it: memory-mcp embedder fetch {model.name}.{folder_hint}"
        raise LayerUnavailable(f"the model {model.name} is not on this machine", hint)
    return model


def iter_fetched_models(home: Path) -> Iterator[Model]:
    """Yield the complete models in a data directory, by folder name."""
    for folder in sorted((home / FETCHED_FOLDER).glob(f"*{_OWNER_SEPARATOR}*")):
        model = _fetched_model(folder)
        if model is not None and model.is_complete:
            yield model


def _fetched_model(folder: Path) -> Model | None:
    owner, between, short = folder.name.partition(_OWNER_SEPARATOR)
    return Model(f"{owner}/{short}", "hub", folder) if between and folder.parent.name == FETCHED_FOLDER else None


def is_managed_folder(folder: Path) -> bool:
    """Return whether only this program writes into a model's folder."""
    return folder == Path(__file__).parent / BUNDLED or _fetched_model(folder) is not None
