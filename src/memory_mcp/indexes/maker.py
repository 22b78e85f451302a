"""Write shards from units, in a child process or in the server; never opens the store."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from memory_mcp.base.dataclass import dataclass
from memory_mcp.indexes import merges
from memory_mcp.indexes.document import Source, Unit, unit_of
from memory_mcp.indexes.generation import ShardEntry
from memory_mcp.indexes.shard import IndexKind, LiveShard, Shard, build_shard, merge_shards, read_shard, write_shard
from memory_mcp.indexes.shard_store import BuiltShard

#: Share of a build's memory that the texts may fill before a part is written.
_WORDS = 0.25


@dataclass(frozen=True, slots=True)
class MakerSetup:
    """The first message to a child: what to build, where, with which settings."""

    kind: str
    #: Options of the kind, plain values.
    options: Mapping[str, Any]
    directory: str
    #: Prefix of the names of its parts.
    token: str
    #: Memory for collecting documents, MB.
    budget_mb: int
    cutoffs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishRequest:
    """The message after the last unit: merge the shards and return them."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The message to make one shard from several, or from one."""

    entries: tuple[ShardEntry, ...]
    #: Whether to write the form that is searched fastest.
    improve: bool = False


class ShardMaker:
    """Collects units, writes a shard whenever enough are collected."""

    def __init__(self, kind: IndexKind[Any], hello: MakerSetup) -> None:
        self._kind = kind
        self._parts = Path(hello.directory) / "parts"
        self._scratch = Path(hello.directory)
        self._token = hello.token
        self._character_limit = int(hello.budget_mb * 1_000_000 * _WORDS)
        self._cutoffs = hello.cutoffs
        self._units: list[Unit] = []
        self._prepared: list[Any] = []
        self._characters = 0
        self._entries: list[ShardEntry] = []
        self._count = 0

    def answer_request(self, request: object) -> object:
        """Handle a message and return its result.

        `FinishRequest` gives the list of `BuiltShard`, `MergeRequest` one `BuiltShard`, whose sources stay, a list of
        sources the number of documents added: units older than their level's cutoff are left out, and a shard is
        written once the texts exceed a quarter of the memory allowed, in characters. Raises IndexUnreadable for a shard
        that changed on disk, OSError.
        """
        if isinstance(request, FinishRequest):
            return self._finish_shards()
        if isinstance(request, MergeRequest):
            merged_shard = merge_shards(self._kind, [self._read_shard(e) for e in request.entries])
            better = self._kind.improve_body(merged_shard.body) if request.improve else None
            self._write_shard(merged_shard if better is None else replace(merged_shard, body=better))
            last_entry = self._entries.pop()
            return BuiltShard(last_entry.name, last_entry.files)
        units = [unit_of(s, self._kind.reads_words) for s in cast("Sequence[Source]", request)]
        units = [u for u in units if u.end_ms >= self._cutoffs.get(u.level.value, 0)]
        self._units += units
        self._prepared += map(self._kind.prepare_unit, units)
        self._characters += sum(len(t) for u in units for d in (*u.nodes, *u.grips) for t in d.words)
        if self._characters > self._character_limit:
            self._flush_units()
        return sum(u.size for u in units)

    def _flush_units(self) -> None:
        if self._units:
            self._write_shard(build_shard(self._kind, self._units, self._prepared))
            self._units, self._prepared, self._characters = [], [], 0

    def _write_shard(self, shard: Shard[Any]) -> None:
        """Raises OSError."""
        self._count += 1
        name = f"{self._token}-{self._count}"
        self._entries.append(ShardEntry(name, write_shard(self._kind, shard, self._parts / name)))

    def _finish_shards(self) -> list[BuiltShard]:
        self._flush_units()
        shards = [self._read_shard(e) for e in self._entries]
        while groups := merges.plan_merges([merges.ShardSize(p.size, p.shard.size) for p in shards]):
            group = [shards[i] for i in groups[0]]
            self._write_shard(merge_shards(self._kind, group))
            shards = [p for i, p in enumerate(shards) if i not in groups[0]] + [self._read_shard(self._entries[-1])]
            for merged_away in group:
                shutil.rmtree(self._parts / merged_away.shard.name, ignore_errors=True)
        self._entries = []
        return [BuiltShard(p.shard.name, p.shard.files or {}) for p in shards]

    def _read_shard(self, entry: ShardEntry) -> LiveShard[Any]:
        """Raises IndexUnreadable."""
        shard = read_shard(self._kind, self._parts / entry.name, dict(entry.files), self._scratch)
        return LiveShard(shard).without_units(np.array(entry.dead, dtype=np.int64))
