"""What one question finds at each tier, on judged queries: through the shipped path, with its own bounds and floor.

    python -m bench.tiers --data DIR [--limit N]

Halves are those of `bench.judged`: everything that was tuned was tuned on "tune". A query is asked a day after the last
event of its corpus. Printed per corpus, half and tier: the share of queries whose first result, and whose first five
sessions, hold a right one; the share that was answered by nothing; and for tier 5 what it would find without its bounds.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.judged import corpora
from bench.ranking import TIERS, filled, opened
from memory_mcp.app import App
from memory_mcp.layers.base import Query
from memory_mcp.policy.plan import How
from memory_mcp.policy.rank import RankingSettings

_DAY_MS = 86_400_000
#: Sessions looked at.
_DEPTH = 5
#: Bounds under which a walk of these stores is not cut short.
_UNBOUND = {"max_nodes_visited": 5000, "max_rpc_calls": 1000, "timeout_ms": 60_000, "max_token_budget": 1_000_000}


@dataclass(frozen=True, slots=True)
class Line:
    """Sums over some queries."""

    count: int = 0
    first: int = 0
    five: int = 0
    nothing: int = 0

    def plus(self, sessions: list[str], right: set[str]) -> "Line":
        """With one query more."""
        return Line(
            self.count + 1,
            self.first + bool(right & set(sessions[:1])),
            self.five + bool(right & set(sessions[:_DEPTH])),
            self.nothing + (not sessions),
        )

    def told(self) -> str:
        """As percentages."""
        return " / ".join(f"{100 * n / self.count:.1f}" for n in (self.first, self.five, self.nothing))


def asked(app: App, text: str, how: How) -> list[str]:
    """The sessions of the results, best first."""
    hits = app.ask(Query(text, 10), how).hits
    return list(dict.fromkeys(h.session_id for h in hits))


def measure(data: Path, limit: int | None) -> dict[tuple[str, str, str], Line]:
    """Every query at every tier."""
    found: dict[tuple[str, str, str], Line] = defaultdict(Line)
    for kind, units, questions in corpora(data, limit):
        if not questions:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            store = filled(units, Path(scratch))
            for tier in TIERS:
                with opened(store, tier, RankingSettings()) as app:
                    now = (app.storage.stats(text=False).last_ms or 0) + _DAY_MS
                    ways = {tier: How(bounds={"max_token_budget": 1_000_000}, as_of=now)}
                    if tier == "agentic":
                        ways["agentic, unbound"] = How(bounds=dict(_UNBOUND), as_of=now)
                    for name, how in ways.items():
                        for one in questions:
                            key = (kind, one.half, name)
                            right = set(one.query["gold_sessions"])
                            found[key] = found[key].plus(asked(app, one.query["query"], how), right)
        print(f"  {kind} {units[0]['corpus']}: {len(questions)} queries", file=sys.stderr)
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="queries per corpus")
    args = parser.parse_args()
    if not args.data.is_dir():
        print(f"{args.data} is not there: nothing was measured")
        return 0
    print("| corpus, half | tier | queries | first / among five / nothing, % |\n|---|---|---|---|")
    for (kind, half, tier), line in sorted(measure(args.data, args.limit).items()):
        print(f"| {kind}, {half} | {tier} | {line.count} | {line.told()} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
