"""Download an embedding model on request; no other module of this program downloads one.

Invariants
1. A model is complete or absent: it is downloaded next to its folder, loaded once, then renamed into place.
2. Only a command of the user calls this, never a server.
"""

import errno
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from memory_mcp.base import machine, ownership
from memory_mcp.base.errors import InvalidQuery, LayerUnavailable
from memory_mcp.embed.models import FILES, Model

#: Called with the bytes downloaded so far and in total.
OnProgress = Callable[[int, int], None]

#: Files to download; a repository may have other formats of the same weights.
_FILE_PATTERNS = (*FILES, "README.md", "LICENSE*", "NOTICE*")
_TIMEOUT_SECS = 15.0
#: A total of fewer bytes does not include the weights yet.
_LEAST_TOTAL = 100_000
#: Prefix of folders of running downloads, and the age in seconds of one that was aborted.
_FETCH_PREFIX, _STALE_SECS = ".fetching-", 86_400
#: Errors that are not the network's.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EACCES, errno.EROFS})
_OFFLINE_HINT = "Nothing was changed. Without a network, copy the model's folder here and say: memory-mcp embedder use FOLDER"


def fetch_model(model: Model, on_progress: OnProgress | None = None) -> int:
    """Download a model into its folder; return the folder's bytes.

    A complete folder stays as it is (the download is made all the same); an incomplete one is replaced. Raises LayerUnavailable
    when the hub cannot be reached or the model cannot be loaded, InvalidQuery when the hub has no such model or one of another
    kind, or the data directory belongs to something else; OSError when the disk is full or refuses writing.
    """
    if why := ownership.unfit(str(model.folder.parent.parent)):
        raise InvalidQuery(why, "Name a new or an empty folder: --data-dir DIR, or MEMORY_MCP_DATA_DIR.")
    model.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for leftover in model.folder.parent.glob(f"{_FETCH_PREFIX}*"):
        # Another download may end meanwhile and remove its own.
        with suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > _STALE_SECS:
                shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FETCH_PREFIX, dir=model.folder.parent) as scratch:
        staged = Path(scratch) / "model"
        _download_files(model.name, staged, Path(scratch) / "cache", on_progress)
        missing = [f for f in FILES if not (staged / f).is_file()]
        if missing:
            raise InvalidQuery(
                f"{model.name} is not a model2vec model: it has no {' and no '.join(missing)}", "Nothing was changed."
            )
        from memory_mcp.embed.model2vec import Model2Vec

        Model2Vec(staged).embed(["a first word"])
        # The library's notes about a download.
        shutil.rmtree(staged / ".cache", ignore_errors=True)
        if not model.is_complete:
            shutil.rmtree(model.folder, ignore_errors=True)
            os.replace(staged, model.folder)
    return machine.size_of(model.folder)


def _download_files(name: str, staged: Path, cache: Path, on_progress: OnProgress | None) -> None:
    """Raises InvalidQuery if not public, OSError of the disk, else LayerUnavailable."""
    from huggingface_hub import errors, snapshot_download

    try:
        snapshot_download(
            name,
            local_dir=staged,
            cache_dir=cache,
            allow_patterns=list(_FILE_PATTERNS),
            etag_timeout=_TIMEOUT_SECS,
            tqdm_class=_progress_class(on_progress),
        )
    except (errors.RepositoryNotFoundError, errors.GatedRepoError, errors.HFValidationError) as error:
        hint = "Names are OWNER/NAME, as the hub shows them; memory-mcp embedder list names some that fit."
        raise InvalidQuery(f"the hub has no public model {name}", hint) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            raise
        # The library passes on all kinds of errors of its HTTP client.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LayerUnavailable(f"{name} could not be fetched: {reason}", _OFFLINE_HINT) from error


def _progress_class(on_progress: OnProgress | None) -> Any:
    """Return a tqdm class that only calls `on_progress`.

    Only once the total is above 100,000 bytes, and never with a smaller share than before.
    """
    from tqdm import tqdm

    # The total grows with each file, and two bars count the same bytes: progress never goes back.
    most = 0.0

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        """A bar that draws nothing and reports its bytes."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> None:
            nonlocal most
            super().update(n)
            if on_progress and self.unit == "B" and self.total and self.n / self.total >= most and self.total > _LEAST_TOTAL:
                most = self.n / self.total
                on_progress(int(self.n), int(self.total))

    return Bar
