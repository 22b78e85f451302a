"""Several layers' hits in, one list out: each segment once, by calibrated score. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_mcp.layers.base import Hit, LayerName

#: No layer is surer than this, either way.
_LEAST, _MOST = 0.005, 0.995


def identity(hit: Hit) -> str:
    """What makes two hits the same: the node, or the event of one that is not filed yet."""
    return hit.node_id or hit.event_id


def merge(found: Mapping[LayerName, Sequence[Hit]]) -> tuple[Hit, ...]:
    """One list, best first, ties by id. Alone, a layer's list is as it was.

    What several layers name comes before what one names as surely: the scores are shares of what was right, so a hit's
    lies half way between the best that a layer said of it and what independent layers would say together. Grips of the
    same segment are kept, three at most.
    """
    lists = {name: hits for name, hits in found.items() if hits}
    if len(lists) < 2:
        return tuple(next(iter(lists.values()), ()))
    best: dict[str, Hit] = {}
    given: dict[str, dict[LayerName, float]] = {}
    for name, hits in lists.items():
        for hit in hits:
            key = identity(hit)
            held = best.get(key)
            best[key] = hit if held is None else _joined(held, hit)
            given.setdefault(key, {})[name] = max(hit.score, given.get(key, {}).get(name, 0.0))
    scored = [replace(h, score=round(_pooled(given[k]), 6), parts=_parts(h, given[k])) for k, h in best.items()]
    return tuple(sorted(scored, key=lambda h: (-h.score, identity(h))))


def once(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Without hits whose words another before them shows already: a day quotes what one of its segments does."""
    shown: set[str] = set()
    kept = []
    for hit in hits:
        quoted = hit.grip_ids[0] if hit.grip_ids else identity(hit)
        if quoted not in shown:
            shown.add(quoted)
            kept.append(hit)
    return tuple(kept)


def _joined(one: Hit, other: Hit) -> Hit:
    """The better of two hits in the same place, with what else of it was found."""
    better, worse = (one, other) if one.score >= other.score else (other, one)
    grips = tuple(dict.fromkeys((*better.grip_ids, *worse.grip_ids)))[:3]
    return replace(better, grip_ids=grips)


def _pooled(given: Mapping[LayerName, float]) -> float:
    """At least the best single score; more where others agree."""
    miss = 1.0
    for score in given.values():
        miss *= 1.0 - min(max(score, _LEAST), _MOST)
    best = max(given.values())
    return max(best, (1.0 - miss + best) / 2)


def _parts(hit: Hit, given: Mapping[LayerName, float]) -> tuple[tuple[str, float], ...]:
    own = tuple(p for p in hit.parts if p[0] not in {n.value for n in given})
    return (*own, *((name.value, round(score, 6)) for name, score in given.items()))


def arbitration(found: Mapping[LayerName, Sequence[Hit]]) -> str:
    """What several layers found, and what was made of it, in words."""
    lists = {name: hits for name, hits in found.items() if hits}
    if len(lists) < 2:
        return ""
    named = [{identity(h) for h in hits} for hits in lists.values()]
    everything, shared = set.union(*named), sum(sum(k in n for n in named) > 1 for k in set.union(*named))
    told = ", ".join(f"{name} {len(hits)}" for name, hits in lists.items())
    rest = "what several name comes first" if shared else "they share nothing: the surer comes first"
    return f"merged {told}: {shared} of {len(everything)} in several; {rest}"
