"""Calibration tables of the keyword, vector and hybrid layers, fitted to judged queries through the real tools.

LoCoMo (turns and sessions) and coding sessions (which session made this commit?). Each corpus has a store of its own,
filled by the JSONL importer and served over stdio. Halves are by a hash of the query id: tables are fitted to the half "tune",
and how far scores are off is told of the half "held". What the layers find is what `bench.quality` measures.

    python -m bench.judged --data DIR [--model NAME]
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from bench.locomo import half, load, to_jsonl
from memory_mcp.embed.models import BUNDLED

#: Tools asked, with what narrows them to one sort of document.
ASKED = {
    "bm25 turns": ("teleport_search", {"doc_type": "grip"}),
    "bm25 sessions": ("teleport_search", {"doc_type": "toc_node", "level": "segment"}),
    "vector turns": ("vector_teleport", {"doc_type": "grip"}),
    "vector sessions": ("vector_teleport", {"doc_type": "toc_node", "level": "segment"}),
    "hybrid turns": ("hybrid_search", {"doc_type": "grip"}),
    "hybrid sessions": ("hybrid_search", {"doc_type": "toc_node", "level": "segment"}),
}
_LIMIT = 20
_READY = 60.0


@dataclass(slots=True)
class Asked:
    """One query with everything that was answered to it: by name, (standing, score, id) of each, best first."""

    query: dict[str, Any]
    numbers: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)
    #: Of turns found by meaning: (similarity, id).
    similar: list[tuple[float, str]] = field(default_factory=list)

    @property
    def half(self) -> str:
        return half(self.query["id"])

    def gold(self, name: str) -> set[str]:
        return set(self.query["gold" if name.endswith("turns") else "gold_sessions"])


def environment(store: Path, model: str) -> dict[str, str]:
    own = {
        "MEMORY_MCP_STORAGE__DATA_DIR": str(store),
        "MEMORY_MCP_STORAGE__TIMEZONE": "UTC",
        "MEMORY_MCP_SERVER__DAEMON": "false",
        "MEMORY_MCP_SERVER__PROFILE": "full",
        "MEMORY_MCP_TELEPORT__ENABLED": "true",
        "MEMORY_MCP_RETRIEVAL__BOUNDS__MAX_TOKEN_BUDGET": "100000",
    }
    return os.environ | own | {"MEMORY_MCP_EMBEDDER__MODEL": model}


async def ready(client: Client, model: str) -> None:
    """Wait until the layers that can be are healthy."""
    end = time.monotonic() + _READY
    while time.monotonic() < end:
        status = (await client.call_tool("get_teleport_status", {})).structured_content or {}
        if status["bm25_healthy"] and (not model or status["vector_healthy"]):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"the indexes are not ready: {status}")


async def ask(store: Path, asked: list[Asked], names: Sequence[str], model: str, sources: dict[str, str]) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "memory_mcp", "serve"], env=environment(store, model))
    async with Client(server) as client:
        await ready(client, model)
        for one in asked:
            for name in names:
                tool, narrowed = ASKED[name]
                arguments = {"query": one.query["query"], "limit": _LIMIT, "scope": "all", "detail": "full", **narrowed}
                result = await client.call_tool(tool, arguments)
                found = (result.structured_content or {}).get("results", [])
                turns = name.endswith("turns")
                ids = [sources.get(r.get("event_id", ""), "") if turns else r["session_id"] for r in found]
                stands = [r.get("score_parts", {}).get("standing", r["score"]) for r in found]
                if name == "vector turns":
                    one.similar = [(r["similarity"], i) for r, i in zip(found, ids, strict=True)]
                one.numbers[name] = [(s, r["score"], i) for s, r, i in zip(stands, found, ids, strict=True)]


def sources_of(store: Path) -> dict[str, str]:
    """Source ids by event id: how a turn of the data is recognised in an answer."""
    from memory_mcp.storage.opening import OpenOptions
    from memory_mcp.storage.registry import ENGINES

    storage = ENGINES["duckdb"].open(OpenOptions(store, "UTC"))
    try:
        return {s.event.event_id: s.event.source_id for batch in storage.events.iter_all() for s in batch}
    finally:
        storage.close()


def corpora(data: Path, limit: int | None) -> Iterator[tuple[str, list[dict[str, Any]], list[Asked]]]:
    """Units and queries of each corpus."""
    for kind in ("locomo", "commits"):
        units, queries = defaultdict(list), defaultdict(list)
        for unit in load(data / kind / "units.jsonl"):
            units[unit["corpus"]].append(unit)
        for query in load(data / kind / "queries.jsonl"):
            if query["gold_sessions"] and not str(query.get("category", "")).startswith("5"):
                queries[query["corpus"]].append(Asked(query))
        for corpus, own in sorted(units.items()):
            yield kind, own, queries[corpus][:limit]


def run(data: Path, limit: int | None, model: str) -> list[Asked]:
    names = [n for n in ASKED if model or n.split()[0] not in ("vector", "hybrid")]
    everything: list[Asked] = []
    for kind, own, asked in corpora(data, limit):
        if not asked:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            source, store = Path(scratch) / "events.jsonl", Path(scratch) / "store"
            to_jsonl(own, source)
            command = [sys.executable, "-m", "memory_mcp", "import", "jsonl", str(source)]
            subprocess.run(command, env=environment(store, model), check=True, capture_output=True)
            chosen = [n for n in names if kind == "locomo" or not n.endswith("turns")]
            asyncio.run(ask(store, asked, chosen, model, sources_of(store)))
        everything += asked
        print(f"  {kind} {own[0]['corpus']}: {len(asked)} queries", file=sys.stderr)
    return everything


def points(asked: Sequence[Asked], name: str) -> list[tuple[float, float, bool]]:
    """(standing, score, relevant) of the first ten of each query."""
    found = [(s, v, i in a.gold(name)) for a in asked if name in a.numbers for s, v, i in a.numbers[name][:10]]
    return [(fused(s, name), v, right) for s, v, right in found] if name.startswith("hybrid") else found


def fused(score: float, name: str) -> float:
    """The number that a hybrid score was made of: its table read backwards."""
    import numpy as np

    from memory_mcp.indexes.base import DocType
    from memory_mcp.indexes.calibrate import HYBRID

    table = HYBRID[DocType.GRIP if name.endswith("turns") else DocType.NODE]
    return float(np.interp(score, [y for _, y in table], [x for x, _ in table]))


def error_of(pairs: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for value, right in pairs:
        bins[min(int(value * 10), 9)].append((value, right))
    return sum(abs(sum(v for v, _ in b) - sum(r for _, r in b)) for b in bins.values()) / max(len(pairs), 1)


def fitted(found: Sequence[tuple[float, float, bool]], knots: int = 12) -> tuple[tuple[float, float], ...]:
    """A rising table of (standing, share that was relevant): groups, pooled until they rise, and what no standing is worth."""
    ordered = sorted((s, r) for s, _, r in found)
    # Results stand close together where they are mostly wrong: groups get smaller towards the top.
    edges = [round(len(ordered) * (1 - (1 - i / knots) ** 2)) for i in range(knots + 1)]
    groups = [ordered[a:b] for a, b in itertools.pairwise(edges) if b > a]
    pooled: list[list[tuple[float, bool]]] = []
    for group in groups:
        pooled.append(list(group))
        while len(pooled) > 1 and _share(pooled[-2]) >= _share(pooled[-1]):
            last = pooled.pop()
            pooled[-1] += last
    table = [(round(sum(s for s, _ in g) / len(g), 4), round(_share(g), 3)) for g in pooled]
    return (0.0, round(table[0][1] / 2, 4)), *(knot for knot in table if knot[0] > 0)


def _share(group: Sequence[tuple[float, bool]]) -> float:
    return (sum(r for _, r in group) + 0.5) / (len(group) + 1)


def fit(everything: Sequence[Asked]) -> None:
    """Tables fitted on the tuning half, and how far scores are off on the other, as they are and as they would be."""
    import numpy as np

    similar = [(s, s, i in a.gold("turns")) for a in everything if a.half == "tune" for s, i in a.similar[:10]]
    if similar:
        print(f"\nsimilarity: {fitted(similar, knots=7)}")
    for name in ASKED:
        tune, held = ([a for a in everything if a.half == h and name in a.numbers] for h in ("tune", "held"))
        if not tune:
            continue
        table = fitted(points(tune, name))
        now = points(held, name)
        first = [(v, i in a.gold(name)) for a in held for _, v, i in a.numbers[name][:1]]
        knots, shares = [x for x, _ in table], [y for _, y in table]
        would = [(float(np.interp(s, knots, shares)), r) for s, _, r in now]
        print(f"\n{name}: error now {error_of([(v, r) for _, v, r in now]):.3f}", end="")
        print(f" (first results {error_of(first):.3f}), with the new table {error_of(would):.3f}\n  {table}")


def main() -> None:
    """Run, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/ and commits/")
    parser.add_argument("--model", default=BUNDLED, help="as embedder.model; empty: without the vector and hybrid layers")
    parser.add_argument("--limit", type=int, help="queries per corpus")
    arguments = parser.parse_args()
    if arguments.data is None or not (arguments.data / "locomo" / "units.jsonl").exists():
        print("skipped: --data DIR with locomo/units.jsonl is not there")
        return
    fit(run(arguments.data, arguments.limit, arguments.model))


if __name__ == "__main__":
    main()
