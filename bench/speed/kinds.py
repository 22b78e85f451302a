"""Rows about kinds of questions, asked for the first time and again, and about the calls that follow an answer."""

import os
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.place import Place
from bench.speed.reads import systems
from bench.speed.run import EMPTY, Line, Run, Times, Tool, in_turns, stopped
from bench.speed.seen import Texts
from bench.speed.table import Row, spread

#: Milliseconds by the wall.
_BARS = {"p50": 14.0, "p95": 30.0, "p99": 60.0}
_CALL_BARS = {"expand_grip": {"p50": 4.0, "p95": 6.0, "p99": 10.0}, "browse_toc": {"p50": 5.0, "p95": 7.0, "p99": 10.0}}
_WORD = re.compile(r"[a-z]{5,}")
#: Texts that hold a rare word, and the share of texts that holds a common one.
_RARE, _COMMON = range(2, 6), (0.02, 0.3)
#: Words of a text that is meant literally.
_QUOTED = 5
_OVERVIEWS = (
    "what are the main topics",
    "give me an overview of everything",
    "which projects did we work on",
    "summarize the work",
)


async def kinds(run: Run) -> list[Row]:
    """Each kind right after a start, with no file in the page cache but what the start read, and the same questions again."""
    said, texts = run.said, Texts(run.place)
    # Read before, perhaps: the store is open again since then.
    stopped(run.place)
    rows: list[Row] = []
    asked = made(said, texts.days(), max(4, run.options.questions // 8))
    evict(run.place)
    async with systems(run, run.place, said if run.paired else []) as found:
        del found["teleport_search"]
        ours = found["intelligent_search"]
        for kind, questions in asked.items():
            times: list[Times] = []
            for _ in ("first time", "again"):
                for system in found.values():
                    system.times = Times()
                await in_turns(questions, list(found.values()))
                times.append(ours.times)
            others = {name: system.times for name, system in found.items() if system is not ours}
            beside = {name: spread("", "", taken.wall).values["p50"] for name, taken in others.items()}
            worked = {name: spread("", "", taken.worked).values["p50"] for name, taken in others.items()}
            rows.append(spread(f"{kind}, first time", "ms", times[0].wall, beside=beside))
            rows.append(spread(f"{kind}, again", "ms", times[1].wall, bars=_BARS, beside=beside))
            rows.append(spread(f"{kind}, again, CPU of daemon and pump", "ms", times[1].worked, beside=worked))
    stopped(run.place)
    return rows


def made(said: Sequence[tuple[str, str]], days: Sequence[str], count: int) -> dict[str, list[str]]:
    """So many questions of each kind, of what these texts hold and of their days."""
    rng = random.Random(9)
    texts = [text for _, text in said if len(text.split()) > 2 * _QUOTED] or [text for _, text in said]
    held = Counter(word for text in texts for word in set(_WORD.findall(text.lower())))
    rare = sorted(word for word, times in held.items() if times in _RARE) or sorted(held)
    least, most = (share * len(texts) for share in _COMMON)
    common = sorted(word for word, times in held.items() if least <= times <= most) or sorted(held)
    return {
        "a text meant literally": [f'"{_piece(rng.choice(texts), rng)}"' for _ in range(count)],
        "a question about a time": [f"what did we do on {day}" for day in rng.choices(days, k=count)],
        "an overview": [f"{rng.choice(_OVERVIEWS)} in {day[:7]}" for day in rng.choices(days, k=count)],
        "a rare word": rng.choices(rare, k=count),
        "a common word": rng.choices(common, k=count),
        "rare and common words": [f"{rng.choice(rare)} {rng.choice(common)} {rng.choice(common)}" for _ in range(count)],
    }


def _piece(text: str, rng: random.Random) -> str:
    words = text.replace('"', " ").split()
    first = rng.randrange(max(1, len(words) - _QUOTED))
    return " ".join(words[first : first + _QUOTED])


def evict(place: Place) -> None:
    """Stop the daemon, and have the system forget what it read of the files."""
    stopped(place)
    for path in place.directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def calls(run: Run) -> list[Row]:
    """What follows an answer: opening a quotation of it, and walking the tree."""
    count = run.options.questions
    async with run.client() as line, run.other("-c", EMPTY) as other:
        await line.at_rest(run.options.still)
        grips: dict[str, None] = {}
        for text in run.asked(count, count):
            answer = await line.call("intelligent_search", query=text, scope="all")
            grips |= {one["grip"]: None for one in answer["results"] if one.get("grip")}
        asked: Mapping[str, tuple[str, list[str]]] = {
            "expand_grip": ("grip_id", random.Random(3).sample([*grips], min(count, len(grips)))),
            "browse_toc": ("node_id", await _nodes(line, count)),
        }
        rows: list[Row] = []
        for name, (takes, ids) in asked.items():
            ours, empty = Tool(line, name, takes=takes), Tool(other, "nothing")
            await in_turns(ids, [ours, empty], ids[:2])
            beside = {"empty server": spread("", "", empty.times.wall).values["p50"]}
            rows.append(spread(name, "ms", ours.times.wall, bars=_CALL_BARS[name], beside=beside))
            rows.append(spread(f"{name}, CPU of daemon and pump", "ms", ours.times.worked))
    return rows


async def _nodes(line: Line, count: int) -> list[str]:
    """So many nodes of all levels, parents before their children."""
    found: dict[str, None] = {"": None}
    waiting = [""]
    while waiting and len(found) <= count:
        answer = await line.call("browse_toc", node_id=waiting.pop(0))
        children = [one["node_id"] for one in answer.get("children", ())]
        found |= dict.fromkeys(children)
        waiting += children[:: max(1, len(children) // 4)]
    return [*found][1 : count + 1]
