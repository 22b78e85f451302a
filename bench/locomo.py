"""LoCoMo, session level: tier-5 intelligent_search asked through the real stdio server, beside plain BM25 in the same run.

Each conversation has a store of its own, filled by the JSONL importer with speakers; a hit counts by the session id of
a returned result alone. Queries without gold are left out. Halves are by a hash of the query id, so that what is tuned
on one half can be reported on the other.

    python -m bench.locomo --data DIR
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from bench.baseline import PlainBm25


def load(path: Path) -> list[dict[str, Any]]:
    """One JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def to_jsonl(units: list[dict[str, Any]], target: Path) -> None:
    """Units in the event form: the speaker keeps the name, roles alternate by who spoke first."""
    first = units[0]["role"]
    with target.open("w", encoding="utf-8") as out:
        for unit in units:
            event = {
                "session_id": unit["session"],
                "id": unit["id"],
                "timestamp": unit["ts"],
                "role": "user" if unit["role"] == first else "assistant",
                "speaker": unit["role"],
                "text": unit["text"],
            }
            out.write(json.dumps(event) + "\n")


async def ask(store: Path, queries: list[dict[str, Any]]) -> dict[str, tuple[list[str], float]]:
    """Session ids answered to each query, best first, with the milliseconds it took."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "memory_mcp", "serve"], env=environment(store))
    answers = {}
    async with Client(server) as client:
        for query in queries:
            started = time.perf_counter()
            arguments = {"query": query["query"], "limit": 10, "scope": "all", "token_budget": 20000, "detail": "full"}
            result = await client.call_tool("intelligent_search", arguments)
            took = (time.perf_counter() - started) * 1000
            found = (result.structured_content or {}).get("results", [])
            answers[query["id"]] = (list(dict.fromkeys(r["session_id"] for r in found)), took)
    return answers


def environment(store: Path) -> dict[str, str]:
    """The child's environment: this one, with a data directory of its own and without indexes (see `bench.judged`)."""
    own = {"STORAGE__DATA_DIR": str(store), "STORAGE__TIMEZONE": "UTC", "TELEPORT__ENABLED": "false"}
    return os.environ | {f"MEMORY_MCP_{name}": value for name, value in own.items()}


def half(query_id: str) -> str:
    """Which half a query belongs to."""
    return "tune" if zlib.crc32(query_id.encode()) % 2 else "held"


def run(data: Path, limit: int | None) -> None:
    """Ask every conversation's queries and print both systems' hit rates."""
    units, queries = defaultdict(list), defaultdict(list)
    for unit in load(data / "locomo" / "units.jsonl"):
        units[unit["corpus"]].append(unit)
    for query in load(data / "locomo" / "queries.jsonl"):
        if query["gold_sessions"] and not query["category"].startswith("5"):
            queries[query["corpus"]].append(query)
    rows: list[tuple[str, str, str, list[str], set[str]]] = []
    times: list[float] = []
    for corpus, own in sorted(units.items()):
        with tempfile.TemporaryDirectory() as scratch:
            source, store = Path(scratch) / "events.jsonl", Path(scratch) / "store"
            to_jsonl(own, source)
            command = [sys.executable, "-m", "memory_mcp", "import", "jsonl", str(source)]
            subprocess.run(command, env=environment(store), check=True, capture_output=True)
            chosen = queries[corpus][:limit]
            answers = asyncio.run(ask(store, chosen))
        sessions: dict[str, list[str]] = defaultdict(list)
        for unit in own:
            sessions[unit["session"]].append(unit["text"])
        plain = PlainBm25({k: " ".join(v) for k, v in sessions.items()})
        for query in chosen:
            gold = set(query["gold_sessions"])
            ids, took = answers[query["id"]]
            times.append(took)
            rows.append(("memory-mcp tier 5", corpus, half(query["id"]), ids, gold))
            rows.append(("plain BM25", corpus, half(query["id"]), plain.rank(query["query"], 10), gold))
    report(rows)
    times.sort()
    print(f"\nintelligent_search over stdio: p50 {times[len(times) // 2]:.1f} ms, p99 {times[int(len(times) * 0.99)]:.1f} ms")


def report(rows: list[tuple[str, str, str, list[str], set[str]]]) -> None:
    """Hit rates by system, for all queries, each half, and each conversation."""
    groups = ["all", "tune", "held", *sorted({r[1] for r in rows})]
    print(f"LoCoMo, session level, {len(rows) // 2} queries with gold (categories 1 to 4); unit: session\n")
    print(f"{'system':<20}{'queries of':<12}{'n':>6}{'hit@1':>9}{'hit@5':>9}")
    for group in groups:
        for system in ("memory-mcp tier 5", "plain BM25"):
            own = [r for r in rows if r[0] == system and group in ("all", r[1], r[2])]
            at1 = sum(bool(gold & set(ids[:1])) for *_, ids, gold in own) / len(own)
            at5 = sum(bool(gold & set(ids[:5])) for *_, ids, gold in own) / len(own)
            print(f"{system:<20}{group:<12}{len(own):>6}{at1:>9.3f}{at5:>9.3f}")


def main() -> None:
    """Run, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/units.jsonl and queries.jsonl")
    parser.add_argument("--limit", type=int, help="queries per conversation")
    arguments = parser.parse_args()
    if arguments.data is None or not (arguments.data / "locomo" / "units.jsonl").exists():
        print("skipped: --data DIR with locomo/units.jsonl is not there")
        return
    run(arguments.data, arguments.limit)


if __name__ == "__main__":
    main()
