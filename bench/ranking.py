"""What each signal of the ranking layer finds, on judged queries, per tier: an ablation, and the presets beside it.

Candidates come from `App.ask`, the shipped path, once per query and tier: in the order of relevance, before anything is
folded. Every other setting is then tried on them by the same `rank` that ships, and what is said of the two presets is
asked for once more through the whole path (`--confirm`). Halves are those of `bench.judged`: weights were chosen by the
half "tune" alone. A query is asked a day after the last event of its corpus: asked in its own moment, a commit would be
found by taking the newest session, whatever it says.

    python -m bench.ranking --data DIR [--limit N] [--cache FILE] [--confirm] [--sweep]
"""

import argparse
import contextlib
import pickle
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.judged import Asked, corpora, interval, sources_of
from bench.locomo import to_jsonl
from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.layers.base import Hit, Query
from memory_mcp.policy.plan import How
from memory_mcp.policy.rank import POOL, RankingSettings, rank

#: What is switched off to make a tier of the machine's own.
TIERS: dict[str, dict[str, bool]] = {
    "hybrid": {},
    "semantic": {"teleport.bm25.enabled": False},
    "keyword": {"teleport.vector.enabled": False},
    "agentic": {"teleport.enabled": False},
}
#: Hits asked for, as many as the engine ranks (it asks for one more, to know whether there are others); five are judged.
_DEPTH = POOL - 1
_ROOMY = {"max_token_budget": 1_000_000, "max_nodes_visited": 1000, "timeout_ms": 60_000}
_DAY_MS = 86_400_000

#: In the order of relevance, with everything else a signal could do left to the replay.
PLAIN = RankingSettings(salience_weight=0, recency_weight=0, relevance_weight=1, usage_weight=0, collapse=False)
Lift = Callable[[Sequence[Hit]], list[Hit]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """One query at one tier: what was found, and what is right."""

    query: str
    kind: str
    half: str
    tier: str
    now_ms: int
    #: The query names a time or an identifier, so that recency does not count.
    settled: bool
    sessions: frozenset[str]
    turns: frozenset[str]
    hits: tuple[Hit, ...]
    #: The data's own id of each hit's event.
    sources: dict[str, str]


@dataclass(frozen=True, slots=True)
class Way:
    """One line of the table."""

    name: str
    settings: RankingSettings
    lift: Lift | None = None

    def order(self, found: Candidates) -> list[Hit]:
        """The hits as they would be shown."""
        hits = self.lift(found.hits) if self.lift else found.hits
        return rank(hits, self.settings, found.now_ms, names_time=found.settled, exact=False, usage={})


def weighed(salience: float = 0.0, recency: float = 0.0, days: float = 30.0, collapse: bool = False) -> RankingSettings:
    """Settings with these weights; what is left belongs to relevance."""
    return RankingSettings(
        half_life_days=days,
        salience_weight=salience,
        recency_weight=recency,
        relevance_weight=round(1 - salience - recency, 6),
        collapse=collapse,
    )


def session_lift(share: float) -> Lift:
    """A hit gains a share of the best other hit of its session."""

    def lift(hits: Sequence[Hit]) -> list[Hit]:
        best: dict[str, list[float]] = defaultdict(list)
        for hit in hits:
            best[hit.session_id].append(hit.score)
        lifted = []
        for hit in hits:
            others = sorted(best[hit.session_id], reverse=True)
            others.remove(hit.score)
            lifted.append(replace(hit, score=min(1.0, hit.score + share * others[0])) if others else hit)
        return lifted

    return lift


def neighbour_lift(share: float) -> Lift:
    """A hit gains a share of the better of the hits before and after it in its session."""

    def lift(hits: Sequence[Hit]) -> list[Hit]:
        rows: dict[str, list[Hit]] = defaultdict(list)
        for hit in sorted(hits, key=lambda h: h.timestamp):
            rows[hit.session_id].append(hit)
        near: dict[int, float] = {}
        for row in rows.values():
            for at, hit in enumerate(row):
                beside = [h.score for h in (*row[max(0, at - 1) : at], *row[at + 1 : at + 2])]
                near[id(hit)] = max(beside, default=0.0)
        return [replace(h, score=min(1.0, h.score + share * near[id(h)])) for h in hits]

    return lift


def ablation() -> list[Way]:
    """The lines of the table."""
    lines = [Way("relevance only", weighed())]
    lines += [Way(f"+ recency 0.1, half-life {d} d", weighed(recency=0.1, days=d)) for d in (7, 30, 90, 365)]
    lines += [Way(f"+ salience {w}", weighed(salience=w)) for w in (0.05, 0.1)]
    lines.append(Way("+ repetitions folded", weighed(collapse=True)))
    lines += [Way(f"+ session lift {s}", weighed(), session_lift(s)) for s in (0.05, 0.3)]
    lines.append(Way("+ neighbour lift 0.05", weighed(), neighbour_lift(0.05)))
    lines.append(Way("preset default", RankingSettings()))
    lines.append(Way("preset spec", RankingSettings(preset="spec")))
    lines.append(Way("preset spec, half-life 365 d", RankingSettings(preset="spec", half_life_days=365)))
    return lines


def sweep() -> list[Way]:
    """Weights to choose among, on the half that is for choosing."""
    ways = []
    for days in (7.0, 30.0, 90.0, 365.0):
        for recency in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2):
            for salience in (0.0, 0.01, 0.02, 0.05, 0.1):
                if recency or days == 30.0:
                    name = f"salience {salience} recency {recency} half-life {days:g} d"
                    ways.append(Way(name, weighed(salience, recency, days, collapse=True)))
    ways += [Way(f"session lift {s}", weighed(collapse=True), session_lift(s)) for s in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)]
    ways += [Way(f"neighbour lift {s}", weighed(collapse=True), neighbour_lift(s)) for s in (0.05, 0.1, 0.2, 0.3, 0.5)]
    return ways


@contextlib.contextmanager
def opened(store: Path, tier: str, ranking: RankingSettings) -> Iterator[App]:
    """The memory of a store at a tier, with its indexes up to date."""
    base = {"storage.data_dir": str(store), "storage.timezone": "UTC"}
    app = App(replace(load({}, base | TIERS[tier]), ranking=ranking))
    try:
        app.accelerators.settle()
        yield app
    finally:
        app.close()


def filled(units: list[dict[str, Any]], scratch: Path) -> Path:
    """A store of some units, derived."""
    source, store = scratch / "events.jsonl", scratch / "store"
    to_jsonl(units, source)
    with opened(store, "agentic", PLAIN) as app:
        app.run_import("jsonl", source)
        app.catch_up()
    return store


def asked_of(app: App, one: Asked, tier: str, now_ms: int, sources: dict[str, str]) -> Candidates:
    """One query through the shipped path."""
    found = app.ask(Query(one.query["query"], _DEPTH), How(bounds=_ROOMY, as_of=now_ms))
    return Candidates(
        query=one.query["id"],
        kind=one.kind,
        half=one.half,
        tier=tier,
        now_ms=now_ms,
        settled=any("rank" in (parts := dict(h.parts)) and "recency" not in parts for h in found.hits),
        sessions=frozenset(one.query["gold_sessions"]),
        turns=frozenset(one.query["gold"]),
        hits=found.hits,
        sources={h.event_id: sources.get(h.event_id, "") for h in found.hits},
    )


def collect(data: Path, limit: int | None, ranking: RankingSettings) -> list[Candidates]:
    """Every query of every corpus at every tier."""
    # A weight too small to move anything shows whether recency counts for a query.
    ranking = replace(ranking, recency_weight=ranking.recency_weight or 1e-9)
    everything = []
    for kind, units, asked in corpora(data, limit):
        if not asked:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            store = filled(units, Path(scratch))
            sources = sources_of(store)
            for tier in TIERS:
                with opened(store, tier, ranking) as app:
                    now_ms = (app.storage.stats(text=False).last_ms or 0) + _DAY_MS
                    everything += [asked_of(app, one, tier, now_ms, sources) for one in asked]
        print(f"  {kind} {units[0]['corpus']}: {len(asked)} queries at {len(TIERS)} tiers", file=sys.stderr)
    return everything


def shown_at(found: Candidates, hits: Sequence[Hit], depth: int, turns: bool = False) -> float:
    """Whether anything right is among the first sessions, or turns."""
    if turns:
        return float(bool(found.turns & {found.sources.get(h.event_id, "") for h in hits[:depth]}))
    sessions = list(dict.fromkeys(h.session_id for h in hits))
    return float(bool(found.sessions & set(sessions[:depth])))


def figures(chosen: Sequence[Candidates], orders: Sequence[Sequence[Hit]]) -> dict[str, list[float]]:
    """Query by query: the right session first, among five; the right turn among five, where turns are judged."""
    pairs = list(zip(chosen, orders, strict=True))
    judged = [(c, o) for c, o in pairs if c.turns]
    return {
        "session@1": [shown_at(c, o, 1) for c, o in pairs],
        "session@5": [shown_at(c, o, 5) for c, o in pairs],
        "turn@5": [shown_at(c, o, 5, turns=True) for c, o in judged],
    }


def mean(values: Sequence[float]) -> float:
    """In per cent; 0 for none."""
    return 100 * sum(values) / len(values) if values else 0.0


def report(everything: Sequence[Candidates], ways: Sequence[Way], half: str) -> None:
    """A table for each corpus: a line for each way, the tiers beside each other."""
    for kind in dict.fromkeys(c.kind for c in everything):
        own = {t: [c for c in everything if (c.kind, c.half, c.tier) == (kind, half, t)] for t in TIERS}
        turns = any(c.turns for c in own["hybrid"])
        what = "right session first / among five" + (" / right turn among five" if turns else "")
        print(f"\n{kind}, half {half}, {len(own['hybrid'])} queries: {what}, %\n")
        print("| ranking | " + " | ".join(TIERS) + " |\n|---|" + "---|" * len(TIERS))
        base = {t: figures(c, [ways[0].order(one) for one in c]) for t, c in own.items()}
        gaps = []
        for way in ways:
            cells = []
            for tier, chosen in own.items():
                values = figures(chosen, [way.order(one) for one in chosen])
                cells.append(" / ".join(f"{mean(v):.1f}" for v in values.values() if v))
                gap, low, high = interval(values["session@1"], base[tier]["session@1"])
                gaps.append(f"  {way.name}, {tier}: {gap:+.1f} [{low:+.1f}, {high:+.1f}]")
            print(f"| {way.name} | " + " | ".join(cells) + " |")
        print(f"\nright session first, against {ways[0].name}, points [95 %]:", *gaps, sep="\n", file=sys.stderr)


def choose(everything: Sequence[Candidates], ways: Sequence[Way], most: int = 12) -> None:
    """The best on the half that is for choosing: every corpus and tier counts alike."""
    groups: dict[tuple[str, str], list[Candidates]] = defaultdict(list)
    for one in everything:
        if one.half == "tune":
            groups[one.kind, one.tier].append(one)
    rows = []
    for way in [Way("relevance only", weighed()), *ways]:
        each = {g: figures(c, [way.order(one) for one in c]) for g, c in groups.items()}
        first, five = (sum(mean(v[name]) for v in each.values()) / len(each) for name in ("session@1", "session@5"))
        rows.append((first + five, first, five, way.name, {g: round(mean(v["session@1"]), 1) for g, v in each.items()}))
    print("\nchosen by: mean over corpora and tiers of right session first and among five, half tune")
    for _, first, five, name, each in [rows[0], *sorted(rows[1:], key=lambda r: -r[0])[:most]]:
        print(f"{first:.2f} / {five:.2f}  {name}  {' '.join(f'{k}-{t} {v}' for (k, t), v in each.items())}")


def confirm(data: Path, limit: int | None, replayed: Sequence[Candidates]) -> None:
    """Both presets through the whole path, beside what the replay says of them."""
    for preset in ("default", "spec"):
        settings = RankingSettings(preset=preset)
        real = collect(data, limit, settings)
        way = Way(preset, settings)
        for kind in dict.fromkeys(c.kind for c in real):
            for tier in TIERS:
                own, same = ([c for c in all_ if (c.kind, c.tier) == (kind, tier)] for all_ in (real, replayed))
                shown = figures(own, [c.hits for c in own])
                tried = figures(same, [way.order(c) for c in same])
                words = ", ".join(f"{n} {mean(v):.1f} (replayed {mean(tried[n]):.1f})" for n, v in shown.items() if v)
                print(f"preset {preset}, {kind}, {tier}: {words}")


def main() -> None:
    """Run, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/ and commits/")
    parser.add_argument("--limit", type=int, help="queries per corpus")
    parser.add_argument("--cache", type=Path, help="keep the candidates in this file, or take them from it")
    parser.add_argument("--sweep", action="store_true", help="choose weights on the half tune instead of the table")
    parser.add_argument("--half", default="held", choices=("tune", "held"), help="half that the table is of (held)")
    parser.add_argument("--confirm", action="store_true", help="ask both presets through the whole path too")
    arguments = parser.parse_args()
    if arguments.data is None or not (arguments.data / "locomo" / "units.jsonl").exists():
        print("skipped: --data DIR with locomo/units.jsonl is not there")
        return
    cache: Path | None = arguments.cache
    if cache is not None and cache.exists():
        everything: list[Candidates] = pickle.loads(cache.read_bytes())
    else:
        everything = collect(arguments.data, arguments.limit, PLAIN)
        if cache is not None:
            cache.write_bytes(pickle.dumps(everything))
    if arguments.sweep:
        choose(everything, sweep())
    else:
        report(everything, ablation(), arguments.half)
    if arguments.confirm:
        confirm(arguments.data, arguments.limit, everything)


if __name__ == "__main__":
    main()
