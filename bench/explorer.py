"""How fast the pages of a large memory are in a real browser, and what they weigh and cost.

python -m bench.explorer --data DIR [--events 100000] [--store FOLDER] [--rounds 5] [--json]

A store of recombined real sessions (`bench.histories`) is served by the installed program, and Chromium looks at it: each page in
a profile of its own, so that nothing comes from a cache (start of the navigation until first content is painted, and until the
document is there; bytes of everything it loads), and each further act on a page (from the click or the key until the document
is as it stays; the wait of a script for the next key is part of it). Processor time is that of the background process and its
children meanwhile.
`--store` keeps the store for the next time. Bars: first content 1 s, an act 300 ms, a page 300 kB, at the worst of all rounds.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import histories
from bench.place import PROC, Place, wait_for
from memory_mcp.web.registry import PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIRST_MS, ACT_MS, BYTES = 1000.0, 300.0, 300_000
#: A document that has not changed for so long is settled; longer where a script waits for the next key.
_QUIET_MS, _TYPING_MS = 40, 600
_DAEMON = {"MEMORY_MCP_SERVER__DAEMON": "true"}
#: Resolves with the milliseconds until the document was as it stayed for a while; set before an act.
_WATCH = """quiet => { window.settled = new Promise(done => {
    let began = 0, last = 0, timer = 0;
    const end = () => { watch.disconnect(); done(last - began); };
    const seen = () => { if (!began) return; last = performance.now(); clearTimeout(timer);
        timer = setTimeout(() => document.querySelector('[aria-busy]') ? seen() : end(), quiet); };
    const watch = new MutationObserver(seen);
    watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    const start = () => { began = performance.now(); seen(); };
    for (const kind of ['click', 'input']) document.addEventListener(kind, start, {capture: true, once: true}); }); }"""


@dataclass
class Row:
    """Times of one page or act (milliseconds), and of a page what it weighs."""

    name: str
    first: list[float] = field(default_factory=list)
    loaded: list[float] = field(default_factory=list)
    bytes: int = 0
    #: Processor milliseconds of the background process, a round.
    cpu_ms: float = 0.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with real sessions (see bench.histories)")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--store", type=Path, help="folder to keep the store in")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None or not (options.data / "transcripts").is_dir():
        print(
            "skipped: Chromium is not installed" if chromium is None else f"skipped: there are no transcripts in {options.data}"
        )
        return
    with _store(options.store, options.data, options.events) as place:
        rows = measure(place, chromium, options.rounds)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(*table(rows), sep="\n")


@contextmanager
def _store(kept: Path | None, data: Path, events: int) -> Iterator[Place]:
    """A memory of so many events, whose indexes and topics are there."""
    with tempfile.TemporaryDirectory() as folder, Place(kept or Path(folder), idle=600, more=_DAEMON) as place:
        if not (place.directory / "memory.duckdb").exists():
            histories.write(Path(folder) / "made", data, events)
            place.ok("import", "claude-code", str(Path(folder) / "made" / "projects"))
            wait_for(lambda: place.run("admin", "rebuild-index", "--type", "topics").returncode == 0, 600)
        yield place


def measure(place: Place, chromium: str, rounds: int) -> list[Row]:
    """Look at every page and carry out every act, so many times."""
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        pages = _pages(place, browser)
        rows = [_page(place, browser, name, path, rounds) for name, path in pages.items()]
        rows += [_act(place, browser, name, pages[name.partition(":")[0]], act, rounds) for name, act in _acts().items()]
        browser.close()
    return rows


def _opened(place: Place, browser: "Browser") -> tuple["Page", str]:
    """A tab in a new profile that was let in, and the address of its pages."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(place.ok("open", "--print", "--port", "0").strip())
    page.wait_for_url(lambda url: "/ui/enter/" not in url and url.rstrip("/").count("/") > 4)
    return page, "/".join(page.url.split("/")[:5])


def _pages(place: Place, browser: "Browser") -> dict[str, str]:
    """The pages that are looked at: those of the menu, and below the tree the last one of each level."""
    page, base = _opened(place, browser)
    found = {name: name for name in ("today", "calendar", "tree", "topics", "status", "projects", "audit") if name in PAGES}
    if "search" in PAGES:
        found["search"] = "search?q=why+did+the+test+fail"
    path = "tree"
    for level in ("year", "month", "week", "day", "segment"):
        page.goto(f"{base}/{path}")
        links = page.locator(f"main a.own[href*='toc:{level}:']")
        if not links.count():
            break
        path = found[level] = str(links.first.get_attribute("href")).split("/", 3)[3]
    page.goto(f"{base}/{found[list(found)[-1]]}")
    for name in ("grip", "session"):
        href = page.locator(f"main a[href*='/{name}/']").first.get_attribute("href")
        found[name] = str(href).split("/", 3)[3].partition("#")[0]
    page.goto(f"{base}/topics")
    found["topic"] = str(page.locator("main a[href*='/topics/']").first.get_attribute("href")).split("/", 3)[3]
    page.context.close()
    return found


def _page(place: Place, browser: "Browser", name: str, path: str, rounds: int) -> Row:
    row = Row(name)
    for _ in range(rounds):
        page, base = _opened(place, browser)
        # The page that a visit begins with loaded the style sheet and the scripts already.
        page.context.new_cdp_session(page).send("Network.clearBrowserCache")
        before = _worked(place)
        page.goto(f"{base}/{path}", wait_until="load")
        told: dict[str, Any] = page.evaluate(
            """() => { const all = performance.getEntries(), n = all.find(e => e.entryType === 'navigation');
                const paint = all.find(e => e.name === 'first-contentful-paint');
                return {first: paint ? paint.startTime : n.domContentLoadedEventEnd, loaded: n.domContentLoadedEventEnd,
                    bytes: all.reduce((sum, e) => sum + (e.decodedBodySize || 0), 0)}; }"""
        )
        row.first.append(told["first"])
        row.loaded.append(told["loaded"])
        row.bytes = max(row.bytes, told["bytes"])
        row.cpu_ms += (_worked(place) - before) * 1000 / rounds
        page.context.close()
    return row


def _acts() -> dict[str, Callable[["Page"], None]]:
    """Acts on a page: its name, what is done, and in which a script puts something in its place."""

    def unfold(nth: int) -> Callable[["Page"], None]:
        return lambda page: page.locator("main details[data-src] > summary").nth(nth).click()

    def typed(page: "Page") -> None:
        page.locator("#find").fill("why is the import slow")

    acts = {"tree: unfold a year": unfold(0), "year: unfold its words": unfold(0), "day: unfold its words": unfold(0)}
    acts |= {"segment: unfold": unfold(0), "grip: unfold": unfold(0), "session: unfold": unfold(0)}
    return acts | ({"search: type": typed} if "search" in PAGES else {})


def _act(place: Place, browser: "Browser", name: str, path: str, act: Callable[["Page"], None], rounds: int) -> Row:
    row = Row(name)
    page, base = _opened(place, browser)
    for _ in range(rounds):
        page.goto(f"{base}/{path}", wait_until="load")
        if "unfold" in name and not page.locator("main details[data-src] > summary").count():
            break
        before = _worked(place)
        page.evaluate(_WATCH, _TYPING_MS if "type" in name else _QUIET_MS)
        act(page)
        row.loaded.append(page.evaluate("window.settled"))
        row.cpu_ms += (_worked(place) - before) * 1000 / rounds
    page.context.close()
    return row


def _worked(place: Place) -> float:
    """Processor seconds that the background process and its children have used."""
    total = 0.0
    for pid in place.processes():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def table(rows: list[Row]) -> list[str]:
    """The figures, and what misses its bar."""
    lines = [
        "| Page or act | first content, median / worst ms | there, median / worst ms | kB | CPU ms | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if not row.loaded:
            continue
        worst = max(row.first or row.loaded)
        over = worst > (FIRST_MS if row.first else ACT_MS) or row.bytes > BYTES
        first = f"{statistics.median(row.first):.0f} / {max(row.first):.0f}" if row.first else ""
        there = f"{statistics.median(row.loaded):.0f} / {max(row.loaded):.0f}"
        size = f"{row.bytes / 1000:.0f}" if row.bytes else ""
        lines.append(f"| {row.name} | {first} | {there} | {size} | {row.cpu_ms:.0f} | {'over its bar' if over else ''} |")
    return lines


if __name__ == "__main__":
    main()
