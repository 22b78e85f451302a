"""The terminal of the README: the real program in a fresh home, recorded as asciicast v2 and drawn as one SVG file.

`python docs/cast.py` writes docs/terminal.cast and docs/terminal.svg; `--draw` draws the recording that is there again. The
history is the bundled sample of three invented projects. It needs a system with pseudo-terminals (Linux, macOS).

Invariants
1. What the program wrote is kept with its times. Changed is one thing: the temporary home is called /home/sam.
2. The picture stands alone: no script, no font and no address outside of it; without animation it shows the end.
"""

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

import memory_mcp.samples

COLUMNS, ROWS = 100, 34
HOME = "/home/sam"
#: GRIP stands for the first grip that was answered.
COMMANDS = ("memory-mcp setup --yes", 'memory-mcp ask --limit 2 "why did we keep the lock in postgres"', "memory-mcp show GRIP")
#: Clients that setup finds: what they leave in a home.
CLIENTS = (".claude", ".codex")
#: Seconds: a character typed, an answer read, and the longest wait that is shown as long as it was.
TYPED, READ, IDLE = 0.05, 3.0, 3.0
#: The day on which the sample's files are said to be written.
WRITTEN = 1_794_000_000

Event = tuple[float, str]


def record(folder: Path) -> list[Event]:
    """Seconds and text of everything that stood on the terminal, in a home made below `folder`."""
    home = folder / "home"
    for client in CLIENTS:
        (home / client).mkdir(parents=True)
    shutil.copytree(Path(memory_mcp.samples.__path__[0]) / "projects", home / ".claude" / "projects")
    for file in (home / ".claude").rglob("*"):
        os.utime(file, (WRITTEN, WRITTEN))
    env = {
        "HOME": str(home),
        "PATH": str(Path(sys.executable).parent),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # As a client in that folder would have it; the folder itself is an invented one.
        "MEMORY_MCP_PROJECT": f"{HOME}/code/harbor-api",
    }
    events: list[Event] = []
    try:
        for command in COMMANDS:
            grip = re.search(r"grip:(?:\d+:)?\w{16}", "".join(text for _, text in events[::-1]))
            words = command.replace("GRIP", grip[0] if grip else "GRIP")
            at = events[-1][0] + READ if events else 0.0
            events += _typed(words, at)
            at = events[-1][0]
            events += [(at + after, text) for after, text in _run(shlex.split(words), env, home)]
    finally:
        subprocess.run(["memory-mcp", "daemon", "stop"], env=env, cwd=home, capture_output=True, check=False)
    return events


def _typed(words: str, at: float) -> Iterator[Event]:
    yield at, "\x1b[32m$\x1b[0m "
    for i, char in enumerate(words, 1):
        yield at + 0.5 + i * TYPED, char
    yield at + 1.0 + len(words) * TYPED, "\r\n"


def _run(words: Sequence[str], env: dict[str, str], home: Path) -> Iterator[Event]:
    """What a command writes on a terminal of our size, with seconds since its start."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = shutil.which(words[0], path=env["PATH"]) or words[0]
    started = time.monotonic()
    process = subprocess.Popen(
        [program, *words[1:]], env=env, cwd=home, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    decoder, held = codecs.getincrementaldecoder("utf-8")(), ""
    while data := _read(ours):
        text = (held + decoder.decode(data)).replace(str(home), HOME)
        held = _begun(text, str(home))
        if shown := text[: len(text) - len(held)]:
            yield time.monotonic() - started, shown
    if held:
        yield time.monotonic() - started, held
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{shlex.join(words)} failed with status {process.returncode}")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # Linux ends a terminal whose last writer is gone with an error, other systems with nothing.
        return b""


def _begun(text: str, word: str) -> str:
    """The longest end of `text` with which `word` begins: the rest of it may come with the next reading."""
    return next((word[:n] for n in range(len(word) - 1, 0, -1) if text.endswith(word[:n])), "")


def cast(events: Sequence[Event]) -> str:
    """Asciicast v2: a header, then one event a line."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "idle_time_limit": IDLE, "title": "memory-mcp"}
    lines = [json.dumps(header), *(json.dumps([round(at, 3), "o", text], ensure_ascii=False) for at, text in events)]
    return "\n".join(lines) + "\n"


def events_of(text: str) -> list[Event]:
    """The events of a recording."""
    return [(at, said) for at, _, said in map(json.loads, text.splitlines()[1:])]


# drawing

_CONTROL = re.compile(r"(\n|\r|\x1b\[\??\d*[A-LSTfhl])")
#: Sizes in user units: a character is 0.6 of the font's size wide in the usual fonts, and made to be.
_FONT, _LINE, _EDGE = 14, 18, 14
_CHAR = _FONT * 0.6
_BACK, _FORE = "#16191f", "#d6dae0"
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


class Screen:
    """An endless screen: its rows as text with colours, and when each was changed. It knows what rich writes."""

    def __init__(self) -> None:
        self.rows = [""]
        #: By row: since when it says what.
        self.versions: dict[int, list[Event]] = {}
        self._row = 0
        self._anew = False

    def feed(self, at: float, text: str) -> None:
        """Take what was written at a time (seconds)."""
        before = list(self.rows)
        for part in filter(None, _CONTROL.split(text)):
            self._take(part)
        for row, said in enumerate(self.rows):
            if row >= len(before) or before[row] != said:
                self.versions.setdefault(row, []).append((at, said))

    def _take(self, part: str) -> None:
        if part == "\n":
            self._next()
        elif part == "\r":
            self._anew = True
        elif part.startswith("\x1b[") and part[-1] == "A":
            self._row -= int(part[2:-1] or 1)
        elif part.startswith("\x1b[") and part[-1] == "K":
            self.rows[self._row] = ""
        elif not _CONTROL.fullmatch(part):
            self.rows[self._row] = part if self._anew else self.rows[self._row] + part
            self._anew = False
            while cut := _beyond(self.rows[self._row]):
                self.rows[self._row], rest = self.rows[self._row][:cut], self.rows[self._row][cut:]
                self._next()
                self.rows[self._row] = rest

    def _next(self) -> None:
        self._row, self._anew = self._row + 1, False
        self.rows += [""] * (self._row + 1 - len(self.rows))


def _beyond(row: str) -> int:
    """Where a row goes on in the next one; 0 where it fits. Colours, which are no wider than nothing, are not carried over."""
    width = 0
    for part in re.finditer(r"\x1b\[[\d;]*m|.", row):
        width += len(part[0]) == 1
        if width > COLUMNS:
            return part.start()
    return 0


def _played(events: Sequence[Event]) -> tuple[Screen, list[tuple[float, int]], float]:
    """The screen, how many rows are above the window since when, and when all was read; long waits are shortened."""
    screen, scrolled, end, last = Screen(), [(0.0, 0)], 0.0, 0.0
    for at, text in events:
        end, last = end + min(at - last, IDLE), at
        screen.feed(end, text)
        if (above := max(0, len(screen.rows) - ROWS)) != scrolled[-1][1]:
            scrolled.append((end, above))
    return screen, scrolled, end + 2 * READ


def draw(events: Sequence[Event]) -> str:
    """The recording as an SVG that plays by itself, again and again."""
    screen, scrolled, end = _played(events)
    styles: dict[str, str] = {}
    spans: dict[tuple[float, float], str] = {}
    drawn = [
        _row(row, said, spans.setdefault((at, until), f"k{len(spans)}"), until == end, styles)
        for row, versions in sorted(screen.versions.items())
        for (at, said), until in zip(versions, [*(at for at, _ in versions[1:]), end], strict=True)
        if said.strip()
    ]
    frames = [_shown(name, at, until, end) for (at, until), name in spans.items()]
    moves = "".join(f"{_percent(at, end)}{{transform:translateY({-above * _LINE}px)}}" for at, above in scrolled)
    width, height = round(COLUMNS * _CHAR + 2 * _EDGE), ROWS * _LINE + 2 * _EDGE
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
                "<title>memory-mcp on a terminal: set up, a question, and where its answer stands</title>",
                "<style>",
                f"text{{font:{_FONT}px {_FONTS};fill:{_FORE};white-space:pre}}",
                f".r,.s{{animation:{end:.2f}s step-end infinite}}",
                f".s{{animation-name:s;transform:translateY({-scrolled[-1][1] * _LINE}px)}}",
                f"@keyframes s{{{moves}}}",
                *(f".{name}{{{rule}}}" for rule, name in styles.items()),
                *frames,
                "@media (prefers-reduced-motion:reduce){.r,.s{animation:none}}",
                "</style>",
                f'<rect width="{width}" height="{height}" rx="8" fill="{_BACK}"/>',
                f'<svg x="{_EDGE}" y="{_EDGE}" width="{width - 2 * _EDGE}" height="{ROWS * _LINE}">',
                f'<g class="s" transform="translate(0 {-scrolled[-1][1] * _LINE})">',
                *drawn,
                "</g></svg></svg>",
            ]
        )
        + "\n"
    )


def _percent(at: float, end: float) -> str:
    return f"{100 * at / end:.2f}%"


def _shown(name: str, at: float, until: float, end: float) -> str:
    """When a row is seen; at the end of each round everything begins anew."""
    hidden = "" if until == end else f"{_percent(until, end)}{{visibility:hidden}}"
    first = "" if at == 0 else "0%{visibility:hidden}"
    return f".{name}{{animation-name:{name}}}@keyframes {name}{{{first}{_percent(at, end)}{{visibility:visible}}{hidden}}}"


def _row(row: int, said: str, name: str, stays: bool, styles: dict[str, str]) -> str:
    """One row as it was for a time; `styles` collects the classes of its colours."""
    text, plain = Text.from_ansi(said), Console()
    cells = [text.get_style_at_offset(plain, i) for i in range(len(text))]
    runs, column = [], 0
    for style, group in groupby(cells):
        width = len(list(group))
        words = text.plain[column : column + width]
        if words.strip():
            rule = _rule(style)
            kind = f' class="{styles.setdefault(rule, f"c{len(styles)}")}"' if rule else ""
            place = f'x="{column * _CHAR:g}" y="{row * _LINE + _FONT}" textLength="{width * _CHAR:g}"'
            runs.append(f"<text{kind} {place}>{escape(words, quote=False)}</text>")
        column += width
    hidden = "" if stays else ' visibility="hidden"'
    return f'<g class="r {name}"{hidden}>{"".join(runs)}</g>'


def _rule(style: Style) -> str:
    """A style as CSS; empty for plain text."""
    rules = []
    if style.color is not None and not style.color.is_default:
        rules.append(f"fill:{style.color.get_truecolor(DIMMED_MONOKAI).hex}")
    if style.bold:
        rules.append("font-weight:bold")
    if style.dim:
        rules.append("opacity:.6")
    return ";".join(rules)


def main() -> None:
    """Record and draw, or draw alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="draw the recording that is there")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent, help="folder of terminal.cast and terminal.svg")
    options = parser.parse_args()
    kept = options.to / "terminal.cast"
    if not options.draw:
        with tempfile.TemporaryDirectory() as folder:
            kept.write_text(cast(record(Path(folder))), encoding="utf-8")
    (options.to / "terminal.svg").write_text(draw(events_of(kept.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
