"""One question, answered by the policy: how long it takes at each tier, and whether its bounds hold, through the real program.

    python -m bench.policy [--events 100000] [--questions 200] [--store DIR] [--tier 2 --tier 5] [--json]

A store is made of `--events` made-up ones, or a data directory at rest is taken as it is. Each tier is reached by switching
layers off in the settings of the running program; a client on stdio asks, one question at a time. Bars: p50 25 ms and p99
100 ms at every tier; with timeout_ms 20, 50 and 200 the client waits at most 10 ms longer at the 95th percentile.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import stdio_client

from bench import corpus
from bench.place import Place, quantile
from memory_mcp.model.tokens import estimate_tokens

#: Settings that leave a tier, and what its status then says.
TIERS: dict[int, dict[str, str]] = {
    1: {},
    2: {"MEMORY_MCP_TOPICS__ENABLED": "false"},
    3: {"MEMORY_MCP_TELEPORT__BM25__ENABLED": "false"},
    4: {"MEMORY_MCP_TELEPORT__VECTOR__ENABLED": "false"},
    5: {"MEMORY_MCP_TELEPORT__ENABLED": "false"},
}
DEADLINES = (20, 50, 200)
#: What p50, p99 and the time beyond a deadline (p95) may be, milliseconds.
P50, P99, OVER = 25.0, 100.0, 10.0
_SMALL = 300
_READY = 600.0


@dataclass
class Tier:
    """What was measured at one tier, milliseconds."""

    tier: int
    searches: list[float] = field(default_factory=list)
    #: By deadline: how long the client waited, and how many answers held results.
    waited: dict[int, list[float]] = field(default_factory=dict)
    answered: dict[int, int] = field(default_factory=dict)
    methods: Counter[str] = field(default_factory=Counter)
    #: Largest answer to a call with a small token budget, in tokens, and most results of one that asked for three.
    tokens: int = 0
    most: int = 0

    def summary(self) -> dict[str, Any]:
        """As numbers to compare."""
        over = {d: round(quantile(w, 0.95) - d, 1) for d, w in self.waited.items()}
        return {
            "tier": self.tier,
            "p50": round(quantile(self.searches, 0.5), 1),
            "p95": round(quantile(self.searches, 0.95), 1),
            "p99": round(quantile(self.searches, 0.99), 1),
            "over_deadline_p95": over,
            "answered": self.answered,
            "tokens_of_300": self.tokens,
            "most_of_3": self.most,
            "methods": dict(self.methods),
        }

    def kept(self) -> bool:
        """Whether every bar holds."""
        told = self.summary()
        return (
            told["p50"] <= P50
            and told["p99"] <= P99
            and all(over <= OVER for over in told["over_deadline_p95"].values())
            and self.tokens <= _SMALL
            and self.most <= 3
        )


def questions(count: int, seed: int = 7) -> list[str]:
    """Questions out of what was said: three words of one message each, in the forms people ask."""
    forms = ("{}", "what did we decide about {}", "why does {} fail", "where is {}", "{} last week")
    found = []
    for place, event in enumerate(corpus.events(count, seed=seed)):
        words = str(event["text"]).replace(".", "").split()
        found.append(forms[place % len(forms)].format(" ".join(words[2:5])))
    return found


async def measured(place: Place, tier: int, asked: list[str]) -> Tier:
    """One tier, by one client."""
    found = Tier(tier)
    async with Client(stdio_client(place.server())) as client:
        await _until_ready(client, tier)
        for text in asked[:20]:
            await client.call_tool("intelligent_search", {"query": text, "scope": "all"})
        for text in asked:
            took, told = await _asked(client, query=text)
            found.searches.append(took)
            found.methods[told["explanation"]["method_used"]] += 1
        for deadline in DEADLINES:
            found.waited[deadline] = []
            found.answered[deadline] = 0
            for text in asked:
                took, told = await _asked(client, query=text, timeout_ms=deadline)
                found.waited[deadline].append(took)
                found.answered[deadline] += bool(told["results"])
        for text in asked[:50]:
            _, told = await _asked(client, query=text, token_budget=_SMALL)
            found.tokens = max(found.tokens, estimate_tokens(json.dumps(told, ensure_ascii=False, separators=(",", ":"))))
            _, told = await _asked(client, query=text, limit=3)
            found.most = max(found.most, len(told["results"]))
    return found


async def _asked(client: Client, **arguments: object) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    answer = await client.call_tool("intelligent_search", {"scope": "all", **arguments})
    took = 1000 * (time.perf_counter() - began)
    if answer.is_error or answer.structured_content is None:
        raise RuntimeError(f"{arguments}: {answer.content}")
    return took, dict(answer.structured_content)


async def _until_ready(client: Client, tier: int) -> None:
    """Wait until the indexes of the tier are whole and nothing is left to take in."""
    end = time.monotonic() + _READY
    while time.monotonic() < end:
        told = (await client.call_tool("get_retrieval_status", {})).structured_content or {}
        if told["tier"] == tier and not told["lag"].get("index_changes") and not told["lag"]["events"]:
            return
        await anyio.sleep(0.5)
    raise RuntimeError(f"tier {tier} was not reached: {told}")


def run(events: int, store: Path | None, tiers: list[int], count: int) -> list[Tier]:
    """Every tier, in a store of its own or in one that is there."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if store is None:
            with Place(root) as place:
                source = root / "history.jsonl"
                corpus.write(source, events)
                place.ok("import", "jsonl", str(source))
                place.stop()
        for tier in tiers:
            with Place(root, more=TIERS[tier]) as place:
                place.directory = store or place.directory
                place.settings["MEMORY_MCP_STORAGE__DATA_DIR"] = str(place.directory)
                found.append(anyio.run(measured, place, tier, questions(count)))
                place.stop()
    return found


def main() -> int:
    """Print what was measured; 1 when a bar does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--tier", type=int, action="append", choices=sorted(TIERS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = run(args.events, args.store, args.tier or sorted(TIERS), args.questions)
    for tier in found:
        print(json.dumps(asdict(tier) if args.json else tier.summary()))
    return 0 if all(tier.kept() for tier in found) else 1


if __name__ == "__main__":
    sys.exit(main())
