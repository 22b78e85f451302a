"""The pictures of the explorer: the real program over the bundled sample of three invented projects, in a real browser.

`python docs/screenshots.py` writes docs/screens/*.png; it needs Linux or macOS, Chromium and the package's `dev` extra. Each
page is taken in light, one more in dark and one as wide as a phone.

Invariants
1. What is shown is what the program serves, in a fresh home; nothing is changed in it.
2. Only pages of this server are loaded.
"""

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import memory_mcp.samples

#: What is asked.
QUESTION = "why did we keep the lock in postgres"
_TIME = re.compile(r'"timestamp": ?"([^"]+)"')
WIDTH, HEIGHT, PHONE = 1000, 700, 390


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its file's name, the page below the visit's address, and how it is looked at."""

    name: str
    page: str
    #: Selectors of what is clicked first, and of what is there in the end.
    clicks: tuple[str, ...] = ()
    shows: str = "main h1"
    dark: bool = False
    width: int = WIDTH
    height: int = HEIGHT


def pictures(grip: str, topic: str) -> list[Picture]:
    """Every picture, in the order of the pages."""
    question = f"search?q={QUESTION.replace(' ', '+')}"
    return [
        Picture("today", "today"),
        Picture("calendar", "calendar"),
        Picture("tree", "tree", tuple(f"main {'.branch ' * n}summary" for n in (1, 2, 3)), f"main {'.branch ' * 4}summary"),
        Picture("citation", f"grip/{grip}"),
        Picture("search", question),
        Picture("topics", "topics"),
        Picture("topic", f"topics/{topic}"),
        Picture("status", "status"),
        Picture("forget", "forget"),
        Picture("calendar-dark", "calendar", dark=True),
        Picture("today-phone", "today", width=PHONE, height=760),
    ]


def environment(home: Path) -> dict[str, str]:
    """What the program is started with: nothing of this machine's own settings."""
    return {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC"}


def run(home: Path, *words: str) -> str:
    """Return what a command of the program prints."""
    program = str(Path(sys.executable).with_name("memory-mcp"))
    done = subprocess.run([program, *words], env=environment(home), cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"memory-mcp {' '.join(words)} failed: {done.stderr}")
    return done.stdout


def bring_up_to_now(folder: Path) -> None:
    """Move sessions by whole weeks, so that the last of them was in the last seven days: Today shows what is recent."""
    files = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.jsonl")}
    last = max(dt.datetime.fromisoformat(at) for text in files.values() for at in _TIME.findall(text))
    weeks = dt.timedelta(weeks=(dt.datetime.now(dt.UTC) - last) // dt.timedelta(weeks=1))

    def moved(at: re.Match[str]) -> str:
        return f'"timestamp": "{(dt.datetime.fromisoformat(at[1]) + weeks).isoformat()}"'

    for path, text in files.items():
        path.write_text(_TIME.sub(moved, text), encoding="utf-8")


@contextmanager
def memory(folder: Path) -> Iterator[Path]:
    """A home with a memory of the sample; its background process ends with the block."""
    home = folder / "home"
    shutil.copytree(Path(memory_mcp.samples.__path__[0]) / "projects", home / ".claude" / "projects")
    bring_up_to_now(home / ".claude" / "projects")
    try:
        run(home, "import", "claude-code", str(home / ".claude" / "projects"))
        run(home, "admin", "rebuild-index", "--type", "topics")
        yield home
    finally:
        run(home, "daemon", "stop")


def found(home: Path) -> tuple[str, str]:
    """A citation that answers the question, and a topic."""
    answer = json.loads(run(home, "ask", QUESTION, "--all", "--json"))
    grip = re.findall(r"grip:[\w:]+", json.dumps(answer))[0]
    topics = re.findall(r"topic:\w+", run(home, "topics", "top", "--all", "--json"))
    if not topics:
        raise SystemExit("the sample gave no topic")
    return grip, topics[0]


def take(home: Path, to: Path) -> list[Path]:
    """Take every picture of a memory; the files."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("Chromium is not installed")
    made = []
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if root else [])
        for picture in pictures(*found(home)):
            size: Any = {"width": picture.width, "height": picture.height}
            context = browser.new_context(viewport=size, color_scheme="dark" if picture.dark else "light", locale="en-GB")
            page = context.new_page()
            page.goto(run(home, "open", "--print", "--port", "0").strip())
            page.wait_for_url(re.compile(r"/ui/(?!enter/)[^/]+/."))
            base = "/".join(page.url.split("/")[:5])
            page.goto(f"{base}/{picture.page}")
            for selector in picture.clicks:
                page.locator(selector).first.click()
            page.wait_for_selector(picture.shows)
            page.wait_for_selector("[aria-busy]", state="detached")
            page.mouse.move(0, 0)
            page.evaluate("scrollTo(0, 0)")
            file = to / f"{picture.name}.png"
            page.screenshot(path=file)
            made.append(file)
            context.close()
        browser.close()
    return made


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "screens", help="folder of the pictures")
    options = parser.parse_args()
    options.to.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, memory(Path(folder)) as home:
        take(home, options.to)


if __name__ == "__main__":
    main()
