"""A model's name in, its files on this machine: the only place of this program that fetches anything, and only when told to.

Invariants
1. A model is there whole or not at all: it is fetched beside its place, loaded once, and moved there by a rename.
2. Called by a command that somebody typed, never by a server.
"""

import errno
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory_mcp import paths
from memory_mcp.embed.models import FILES, Model
from memory_mcp.errors import InvalidQuery, LayerUnavailable

#: Called with bytes that are here and bytes there are.
Told = Callable[[int, int], None]

#: Whatever else lies in a repository (other formats of the same weights) stays there.
_WANTED = (*FILES, "README.md", "LICENSE*", "NOTICE*")
_PATIENCE = 15.0
#: While fewer bytes are known of, the weights, which nearly all are, are not among them.
_SMALL = 100_000
#: How folders of downloads under way are called, and after how many seconds one is given up.
_FETCHING, _OLD = ".fetching-", 86_400
#: What no network is to blame for.
_OWN_TROUBLE = frozenset({errno.ENOSPC, errno.EACCES, errno.EROFS})
_BY_HAND = "Nothing was changed. Without a network, copy the model's folder here and say: memory-mcp embedder use FOLDER"


def fetch(model: Model, told: Told = lambda _, __: None) -> int:
    """Fetch a hub's model into its folder; its size in bytes.

    LayerUnavailable when the hub cannot be reached, InvalidQuery when it has no such model or that is not of our kind.
    """
    if why := paths.foreign(str(model.folder.parent.parent)):
        raise InvalidQuery(why, "Name a new or an empty folder: --data-dir DIR, or MEMORY_MCP_DATA_DIR.")
    model.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(model.folder.parent)
    with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=model.folder.parent) as scratch:
        staged = Path(scratch) / "model"
        _download(model.name, staged, Path(scratch) / "cache", told)
        _check(model.name, staged)
        # What the library notes about a download is of no use afterwards.
        shutil.rmtree(staged / ".cache", ignore_errors=True)
        if not model.here:
            shutil.rmtree(model.folder, ignore_errors=True)
            os.replace(staged, model.folder)
    return sum(f.stat().st_size for f in model.folder.iterdir() if f.is_file())


def _sweep(folder: Path) -> None:
    """What killed downloads left, once it is too old to be one that goes on."""
    for left in folder.glob(f"{_FETCHING}*"):
        if time.time() - left.stat().st_mtime > _OLD:
            shutil.rmtree(left, ignore_errors=True)


def _download(name: str, staged: Path, cache: Path, told: Told) -> None:
    from huggingface_hub import errors, snapshot_download

    try:
        snapshot_download(
            name,
            local_dir=staged,
            cache_dir=cache,
            allow_patterns=list(_WANTED),
            etag_timeout=_PATIENCE,
            tqdm_class=_bar(told),
        )
    except (errors.RepositoryNotFoundError, errors.GatedRepoError, errors.HFValidationError) as error:
        hint = "Names are OWNER/NAME, as the hub shows them; memory-mcp embedder list names some that fit."
        raise InvalidQuery(f"the hub has no model {name} that it gives to everybody", hint) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OWN_TROUBLE:
            raise
        # The library hands on whatever its HTTP client raises; a network has many ways to be away.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LayerUnavailable(f"{name} could not be fetched: {reason}", _BY_HAND) from error


def _check(name: str, staged: Path) -> None:
    missing = [f for f in FILES if not (staged / f).is_file()]
    if missing:
        raise InvalidQuery(f"{name} is no model2vec model: it has no {' and no '.join(missing)}", "Nothing was changed.")
    from memory_mcp.embed.model2vec import Model2Vec

    Model2Vec(staged).embed(["a first word"])


def _bar(told: Told) -> Any:
    """What the library shows its progress on: bars of bytes are told, and nothing is drawn."""
    from tqdm import tqdm

    # One file after another becomes known, and two bars count the same bytes: what was told is not taken back.
    most = 0.0

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> None:
            nonlocal most
            super().update(n)
            if self.unit == "B" and self.total and self.n / self.total >= most and self.total > _SMALL:
                most = self.n / self.total
                told(int(self.n), int(self.total))

    return Bar
