"""Find a model's folder by name: the bundled one, the user's own, or one downloaded before.

Invariants
1. Nothing here uses the network: a missing model is an error with the command that downloads it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memory_mcp.errors import InvalidQuery, LayerUnavailable

BUNDLED = "bundled"
#: Folder of downloaded models in a data directory.
FETCHED = "models"
#: Files of a model.
WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
FILES = (CONFIG, TOKENIZER, WEIGHTS)
_HUB_NAME = re.compile(r"(?!.*--)(?!\.)[\w.-]+/(?!\.)[\w.-]+", re.A)
_BARE_NAME = re.compile(r"(?![.~])[\w.-]+", re.A)
_BETWEEN = "--"


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A published model that is known to fit; dimensions, and megabytes to download (model cards)."""

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
    """A model by the name that settings and people use, and its folder, which may not exist."""

    name: str
    #: bundled, folder or hub.
    kind: str
    folder: Path

    @property
    def here(self) -> bool:
        """Whether all three of its files exist in its folder; they are not read."""
        return all((self.folder / name).is_file() for name in FILES)


def named(name: str, home: Path | None) -> Model:
    """Return the model of a setting; `home` is the data directory, None for a memory without one. Its folder may not exist.

    A name with a slash like OWNER/NAME, and the last part of a known one, is the hub's; other paths are
    folders. Raises InvalidQuery for what cannot be a model's name.
    """
    model_name = name.strip()
    if model_name == BUNDLED:
        return Model(BUNDLED, BUNDLED, Path(__file__).parent / BUNDLED)
    # The hub's own name, or the last part of a known one in any case.
    if hub := model_name if _HUB_NAME.fullmatch(model_name) else _BY_BARE_NAME.get(model_name.lower(), ""):
        owner, _, short = hub.partition("/")
        return Model(hub, "hub", (home or Path()) / FETCHED / f"{owner}{_BETWEEN}{short}")
    if not model_name or _BARE_NAME.fullmatch(model_name):
        known_names = ", ".join((BUNDLED, *(m.name.split("/")[1] for m in PRETRAINED)))
        raise InvalidQuery(
            f"no model is called {name!r}", f"Known are {known_names}; others by OWNER/NAME or by their folder's path."
        )
    try:
        folder = Path(model_name).expanduser().absolute()
    except RuntimeError:
        raise InvalidQuery(f"nobody's home directory is meant by {name!r}", "Name the folder by its whole path.") from None
    return _fetched(folder) or Model(str(folder), "folder", folder)


def located(name: str, home: Path | None) -> Model:
    """Return the model as `named` does; raises LayerUnavailable, with what to do, if a hub's model is not downloaded.

    Whether the files of the bundled one or of a folder exist is not checked. Raises InvalidQuery for what is no name.
    """
    model = named(name, home)
    if model.kind == "hub" and not model.here:
        folder_hint = f" Or if the folder is meant: ./{name}" if Path(name).is_dir() else ""
        hint = f"Fetch it: memory-mcp embedder fetch {model.name}.{folder_hint}"
        raise LayerUnavailable(f"the model {model.name} is not on this machine", hint)
    return model


def fetched(home: Path) -> Iterator[Model]:
    """Yield the complete models in the data directory `home`, sorted by folder name; those with missing files are left out."""
    for folder in sorted((home / FETCHED).glob(f"*{_BETWEEN}*")):
        model = _fetched(folder)
        if model is not None and model.here:
            yield model


def _fetched(folder: Path) -> Model | None:
    """Return the hub's model downloaded into a folder named `models/OWNER--NAME`, existing or not; None for another name."""
    owner, between, short = folder.name.partition(_BETWEEN)
    return Model(f"{owner}/{short}", "hub", folder) if between and folder.parent.name == FETCHED else None


def is_ours(folder: Path) -> bool:
    """Return whether only this program writes into this folder: it is the bundled model's, or named like a downloaded one's."""
    return folder == Path(__file__).parent / BUNDLED or _fetched(folder) is not None
