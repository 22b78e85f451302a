"""Tiny model2vec folders, and made-up units whose gists they know."""

import datetime as dt
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from memory_mcp.indexes.base import DocType, Position, Visibility
from memory_mcp.indexes.document import IndexDocument, Unit
from memory_mcp.indexes.keys import grip_doc, node_doc, node_of
from memory_mcp.indexes.shard import LiveShard, build_shard
from memory_mcp.indexes.snapshot import Snapshot
from memory_mcp.indexes.vector.kind import VectorBody, VectorKind
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import grip_id_from, node_key, segment_id

#: Words of the tiny models; "zyzzyva" and "qoph" are none of them.
WORDS = tuple(
    "login session token cache index query vector batch import parse deploy rollback release invoice payment refund tax price "
    "kitten garden sunrise painting river mountain harvest bread doctor travel music piano guitar concert ticket train plane "
    "please rename the handler a of to and fix bug test slow fast error timeout retry database schema migrate user said".split()
)
#: 2026-01-05T00:00:00Z.
START = 1_767_571_200_000


def static_model(folder: Path, seed: int = 0, dimensions: int = 32, words: Sequence[str] = WORDS) -> Path:
    """A folder with a model of one vector per word."""
    vocabulary = {"[UNK]": 0, **{w: i for i, w in enumerate(dict.fromkeys(words), start=1)}}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.random.default_rng(seed).standard_normal((len(vocabulary), dimensions)).astype(np.float32)
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return folder


def node(
    key: int, gist: str, start_ms: int, minutes: int = 30, project: str = "shop", speakers: Sequence[str] = ()
) -> IndexDocument:
    """A segment's document."""
    day = dt.datetime.fromtimestamp(start_ms / 1000, dt.UTC).date().isoformat()
    return IndexDocument(
        key=node_doc(segment_id(day, key)),
        doc_type=DocType.NODE,
        level=TocLevel.SEGMENT,
        start_ms=start_ms,
        end_ms=start_ms + minutes * 60_000,
        project=project,
        visible=Visibility.ALWAYS,
        agents=("claude-code",),
        speakers=tuple(speakers),
        kind="",
        words=(gist,),
        gist=gist,
    )


def grip(key: int, gist: str, at_ms: int, project: str = "shop", speaker: str = "") -> IndexDocument:
    """A grip's document; the key makes its id unique."""
    return IndexDocument(
        key=grip_doc(grip_id_from(at_ms << 80 | key)),
        doc_type=DocType.GRIP,
        level=TocLevel.SEGMENT,
        start_ms=at_ms,
        end_ms=at_ms,
        project=project,
        visible=Visibility.ALWAYS,
        agents=("claude-code",),
        speakers=(speaker,) if speaker else (),
        kind="",
        words=(gist,),
        gist=gist,
    )


def unit(key: int, gist: str, grips: Sequence[str] = (), project: str = "shop", start_ms: int | None = None) -> Unit:
    """A segment that is about `gist`, with grips a minute apart."""
    start = START + key * 3_600_000 if start_ms is None else start_ms
    segment = node(key, gist, start, project=project)
    quotes = tuple(grip(key << 16 | i, text, start + i * 60_000, project) for i, text in enumerate(grips))
    return Unit(_key(segment), TocLevel.SEGMENT, segment.end_ms, (segment,), quotes)


def _key(segment: IndexDocument) -> int:
    return node_key(node_of(*segment.key))


def made_up(count: int, seed: int = 0, words: int = 12, grips: int = 4, projects: Sequence[str] = ("shop", "site")) -> list[Unit]:
    """Units of random words."""
    rng = random.Random(seed)

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(1, words)))

    return [unit(i, text(), [text() for _ in range(rng.randint(0, grips))], rng.choice(projects)) for i in range(count)]


def live(kind: VectorKind, units: Sequence[Unit]) -> LiveShard[VectorBody]:
    """A part in memory."""
    return LiveShard(build_shard(kind, units, [kind.prepare_unit(u) for u in units]))


def snapshot(kind: VectorKind, *groups: Sequence[Unit]) -> Snapshot[VectorBody]:
    """One part per group."""
    return Snapshot.from_shards(tuple(live(kind, g) for g in groups if g), Position())
