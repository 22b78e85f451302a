"""The stores that are asked: built once from messages, kept in a folder by what they were built from."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import memory_mcp
from bench.quality.corpora import Message, Payload
from memory_mcp import config
from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.service.client import spoolfile
from memory_mcp.tree.derive.derivation import ExecutionMode

_PACKAGE = Path(memory_mcp.__file__).parent
#: What decides what a store holds, and what its indexes hold.
_STORE_CODE = ("model", "base/text.py", "storage", "redact", "importers", "capture", "tree", "upkeep/jobs")
_INDEX_CODE = ("base/text.py", "indexes", "embed")
#: Settings that leave a tier.
TIERS: Mapping[int, Mapping[str, object]] = {
    2: {"topics.enabled": False},
    3: {"teleport.bm25.enabled": False},
    4: {"teleport.vector.enabled": False},
    5: {"teleport.enabled": False},
}
#: Bounds under which a list of ten is never cut by its size or by a busy machine.
ROOMY: Mapping[str, object] = {"retrieval.bounds.max_token_budget": 100_000, "retrieval.bounds.timeout_ms": 60_000}


def digest(parts: Sequence[str]) -> str:
    """A digest of the package's own code under these names; FileNotFoundError for one that is gone."""
    made = hashlib.sha256()
    for name in parts:
        path = _PACKAGE / name
        if not path.exists():
            raise FileNotFoundError(f"{path}: name in bench/quality/stores.py what now decides what a store holds")
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            made.update(file.read_bytes())
    return made.hexdigest()[:10]


class Stores:
    """Stores by name, in one folder."""

    def __init__(
        self,
        folder: Path,
        messages: Mapping[str, Sequence[Message]],
        derived: Mapping[str, object] = TIERS[5],
        payloads: Mapping[str, Sequence[Payload]] | None = None,
    ) -> None:
        """`derived`: the settings with which the stores are filled; `payloads`: what hooks reported afterwards."""
        self._folder = folder
        self._derived = derived
        self._messages = messages
        self._payloads = payloads or {}
        self._code, self._index_code = digest(_STORE_CODE), digest((*_STORE_CODE, *_INDEX_CODE))

    @contextmanager
    def opened(self, name: str, tier: int, more: Mapping[str, object]) -> Iterator[App]:
        """One store at a tier, its indexes complete."""
        app = App(self._settings(self._indexed(self._built(name)), {**TIERS[tier], **more}))
        try:
            app.accelerators.catch_up()
            yield app
        finally:
            app.close()

    def sessions(self, name: str) -> Mapping[str, str]:
        """The corpus's session of each message of a store."""
        return {message.id: message.session for message in self._messages[name]}

    def _settings(self, store: Path, more: Mapping[str, object]) -> config.Settings:
        base: dict[str, object] = {
            "storage.data_dir": str(store),
            "storage.timezone": "UTC",
            "server.profile": "full",
        }
        return config.load({}, base | dict(more), self._folder / "no-such-config.toml")

    def _indexed(self, store: Path) -> Path:
        """The copy of a store whose indexes are those of this code; they are built when it is opened."""
        copy = store.with_name(f"{store.name}-{self._index_code}")
        if not copy.exists():
            with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
                unready = Path(scratch) / "store"
                shutil.copytree(store, unready, ignore=shutil.ignore_patterns("indexes"))
                os.replace(unready, copy)
        return copy

    def _built(self, name: str) -> Path:
        """The folder of a store, built when it is not there."""
        lines = [json.dumps(m.event(), ensure_ascii=False) for m in self._messages[name]]
        text = "\n".join(lines) + "\n"
        settings = "" if self._derived is TIERS[5] else json.dumps(dict(self._derived), sort_keys=True)
        payloads = self._payloads.get(name, ())
        reported = "".join(f"{payload}\n" for payload in payloads)
        made_of = hashlib.sha256((text + settings + reported).encode()).hexdigest()[:10]
        store = self._folder / f"{name}-{made_of}-{self._code}"
        if not store.exists():
            began = time.monotonic()
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
                source = Path(scratch) / "events.jsonl"
                source.write_text(text, encoding="utf-8")
                unready = Path(scratch) / "store"
                self._fill(unready, source, payloads)
                os.replace(unready, store)
            print(f"  built {name}: {len(lines)} messages in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return store

    def _fill(self, store: Path, source: Path, payloads: Sequence[Payload]) -> None:
        """Import messages into an empty store, store what hooks reported, and derive its tree."""
        app = App(self._settings(store, self._derived))
        try:
            report = app.run_import("jsonl", source)
            if report.skipped:
                raise ValueError(f"{source}: messages were skipped: {report.skipped}")
            if payloads:
                spool_payloads(store, payloads)
                drained = app.drain()
                if drained.bad or not drained.new:
                    raise ValueError(f"{store}: payloads were not understood: {drained}")
            app.derivation.run(mode=ExecutionMode.SHARED)
        finally:
            app.close()


def spool_payloads(store: Path, payloads: Sequence[Payload]) -> None:
    """Write payloads into a store's spool, as a client's hook does at their time."""
    for number, payload in enumerate(payloads):
        name = f"{int(payload.at.timestamp()) * 1_000_000_000:020d}-{number:016x}-{payload.client}"
        spoolfile.write_payload(paths.spool_dir(str(store)), name, spoolfile.make_header(name, {}), payload.text.encode())
