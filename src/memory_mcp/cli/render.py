"""Prints results as text or JSON: the only module of the package that prints.

Invariants
1. Stored text cannot steer a terminal: control characters never reach it.
2. What is recalled carries the mark of its origin as soon as something else than a person may read it, so that a
   transcript of the reading never becomes a memory of its own.
3. Results go to stdout, everything else to stderr.
"""

import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from memory_mcp.model.sentinel import MARK

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.text import Text

#: Widest text that is wrapped for reading.
WIDTH = 100
#: What steers a terminal, and what turns the direction of writing, so that words stand elsewhere than they were said.
_CONTROLS = {
    c: "\ufffd" for c in (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)) if chr(c) not in "\n\t"
}
#: The same as JSON writes it; what lies below is escaped there already.
_ESCAPES = {c: f"\\u{c:04x}" for c in _CONTROLS if c >= 127}


class Terminal(NamedTuple):
    """The terminal of another process that a command writes to."""

    out: TextIO
    err: TextIO
    #: Columns of the terminal; 0 when it is none.
    columns: int = 0
    #: Whether its owner wants neither colours nor pictures (NO_COLOR).
    plain: bool = False
    #: Whether a person there confirmed that the command's words are their own.
    confirmed: bool = False


#: Set while a command runs for the terminal of another process.
TERMINAL: ContextVar[Terminal | None] = ContextVar("terminal", default=None)
#: Short names of the projects of this command's memory, by their whole names.
PROJECT_NAMES: ContextVar[Mapping[str, str]] = ContextVar("project_names", default={})  # noqa: B039 - never written to


def _out() -> TextIO:
    terminal = TERMINAL.get()
    return sys.stdout if terminal is None else terminal.out


def _err() -> TextIO:
    terminal = TERMINAL.get()
    return sys.stderr if terminal is None else terminal.err


def _width() -> int | None:
    terminal = TERMINAL.get()
    return terminal.columns or None if terminal is not None else None


def is_terminal() -> bool:
    """Whether the stream of results is a terminal."""
    return _out().isatty()


def draws_blocks() -> bool:
    """Whether the terminal shows UTF-8 and colours are wanted."""
    terminal = TERMINAL.get()
    plain = bool(os.environ.get("NO_COLOR")) if terminal is None else terminal.plain
    return _out().isatty() and not plain and _is_utf8()


def _is_utf8() -> bool:
    return (getattr(_out(), "encoding", None) or "").lower().replace("-", "") == "utf8"


def prepare_streams() -> None:
    """Have stdout and stderr replace characters they cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def safe(text: str) -> str:
    """Return a text with characters that steer a terminal replaced.

    Each control character, but line feed and tab, and each that turns writing, becomes U+FFFD.
    """
    return text.translate(_CONTROLS)


def out(text: str = "") -> None:
    """Print a line to the stream of results, without a fence."""
    print(safe(text), file=_out())


def err(text: str) -> None:
    """Print a line to stderr at once."""
    from memory_mcp.model.fencing import neutralize

    print(neutralize(safe(text)), file=_err(), flush=True)


def flush() -> None:
    """Flush the stream of results."""
    _out().flush()


def trace() -> None:
    """Print the traceback of the exception being handled."""
    import traceback

    traceback.print_exc(file=_err())


def emit(as_json: bool, data: Mapping[str, Any], lines: Iterable[str], recalled: bool = False) -> None:
    """Print a result: `data` as JSON, or the lines.

    `recalled`: it contains stored text. Its lines are then fenced where stdout is no terminal, its JSON marked by "origin".
    """
    if as_json:
        out_json(data, recalled)
        return
    if recalled and not _out().isatty():
        _print_fenced(lines)
        return
    from memory_mcp.model.fencing import neutralize

    if _out().isatty():
        for line in lines:
            out(neutralize(line))
    elif all_lines := list(lines):
        # Off a terminal our fence is looked for in all lines together.
        out(neutralize("\n".join(all_lines)))


def _print_fenced(lines: Iterable[str]) -> None:
    from memory_mcp.model.fencing import fence_text

    out(fence_text(safe("\n".join(lines))))


def out_json(data: Mapping[str, Any], recalled: bool = False) -> None:
    """Print one JSON document; `recalled` adds the field "origin"."""
    import json

    from memory_mcp.model.fencing import neutralize_json

    marked = {"origin": MARK, **neutralize_json(data)} if recalled else neutralize_json(data)
    print(json.dumps(marked, ensure_ascii=not _is_utf8(), indent=2, default=str).translate(_ESCAPES), file=_out())


def print_styled(lines: Iterable["Text"]) -> None:
    """Print lines with stored text in colours, cut to the terminal's width; off a terminal fenced, as plain text."""
    if not _out().isatty():
        _print_fenced(line.plain for line in lines)
        return
    from rich.console import Console

    terminal = TERMINAL.get()
    # Of this process's own terminal the library finds out itself.
    plain = None if terminal is None else terminal.plain
    console = Console(file=_out(), width=_width(), highlight=False, no_color=plain)
    for line in lines:
        # Each character is replaced by one, so that colours stay where they are.
        line.plain = safe(line.plain)
        if console.is_terminal:
            console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            console.print(line, soft_wrap=True)


def can_ask() -> bool:
    """Whether a person can be asked something here."""
    return TERMINAL.get() is None and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def is_persons(argv: Sequence[str]) -> bool:
    """Ask a person whether a command's words are their own.

    For another process's terminal it was asked there. False where no person can be asked.
    """
    from memory_mcp.service.client.forward import question_of

    terminal = TERMINAL.get()
    if terminal is not None:
        return terminal.confirmed
    return can_ask() and ask_consent(question_of(argv))


def ask_consent(question: str) -> bool:
    """Ask a question on stderr; the return key alone means yes."""
    print(f"{safe(question)} [Y/n] ", end="", file=_err(), flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def one_line(text: str, width: int = 0) -> str:
    """Return a text on one line, cut to `width` characters."""
    flat = " ".join(text.split())
    if not width or len(flat) <= width:
        return flat
    cut = flat[: width - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > width * 0.6 else cut).rstrip(" ,;:") + "…"


def wrap_text(text: str, indent: str = "", first: str | None = None) -> list[str]:
    """Return a text wrapped to indented lines.

    Its own line breaks stay; an empty text is one line.
    """
    import textwrap

    lines: list[str] = []
    for part in text.splitlines() or [""]:
        lead = (indent if first is None else first) if not lines else indent
        lines += textwrap.wrap(part, WIDTH, initial_indent=lead, subsequent_indent=indent) or [lead.rstrip()]
    return lines


def gist(title: str) -> str:
    """Return a node's title without its leading date or time."""
    head, dot, tail = title.partition(" · ")
    return tail if dot and any(c.isdigit() for c in head) else title


def minute(iso: str) -> str:
    """Return an ISO 8601 time up to its minute: 2026-01-05 09:30."""
    return iso[:16].replace("T", " ")


def second(iso: str) -> str:
    """Return an ISO 8601 time up to its second."""
    return iso[:19].replace("T", " ")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 file, 2,000 files, 3 queries."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{count:,} {noun}s"


def activity(counts: Mapping[str, Any]) -> str:
    """Return counts in words: 12 events in 3 sessions."""
    return f"{plural(counts['events'], 'event')} in {plural(counts['sessions'], 'session')}"


def project_name(project: str) -> str:
    """Return a project's shortest name on one line."""
    return one_line(safe(PROJECT_NAMES.get().get(project, project)))


def days(first: str, last: str) -> str:
    """Return a range of days: 2026-01-05 to 2026-01-07."""
    return " to ".join(dict.fromkeys((first[:10], last[:10])))


def size(count: int) -> str:
    """Return bytes with a decimal unit, such as 4.2 MB."""
    if count < 1000:
        return f"{count} B"
    value = count / 1000
    for unit in ("kB", "MB"):
        if value < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


class Progress:
    """Progress of long work on stderr.

    A bar on a terminal, else a plain line at most once a second.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._told = time.monotonic()

    def __enter__(self) -> "Progress":
        if _err().isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn
            from rich.progress import Progress as RichProgress

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[note]}"))
            self._bar = RichProgress(*columns, console=Console(file=_err(), width=_width()), transient=True)
            self._task = self._bar.add_task(self._title, total=1.0, note="")
            self._bar.start()
        return self

    def count(self, done: int, total: int, noun: str) -> None:
        """Show that `done` of `total` things are done."""
        self.at(done / max(total, 1), f"{done:,} of {total:,} {noun}")

    def at(self, fraction: float, note: str = "") -> None:
        """Show the fraction (0..1) that is done, with a note."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=fraction, note=safe(note))
        elif time.monotonic() - self._told >= 1:
            self._told = time.monotonic()
            err(f"{self._title}: {fraction:.0%} {note}".rstrip())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


#: Nothing, then ever more.
BLOCKS, ASCII = "·░▒▓█", ".:+*#"
#: Columns, by eighths.
_HEIGHTS = "·▁▂▃▄▅▆▇█"
#: Parts of a bar, by eighths.
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def heat(counts: Sequence[int], blocks: bool) -> str:
    """Return one cell for each count, in one of four shades.

    By the root of its share of the largest; 0 has a cell of its own. `blocks` chooses block characters or ASCII.
    """
    shades = BLOCKS if blocks else ASCII
    most = max(counts, default=0)
    return "".join(shades[math.ceil((len(shades) - 1) * math.sqrt(count / most))] if count else shades[0] for count in counts)


def spark(counts: Sequence[int], blocks: bool) -> str:
    """Return one column for each count, visible above 0."""
    if not blocks:
        return heat(counts, blocks)
    most = max(counts, default=0)
    return "".join(_HEIGHTS[math.ceil(8 * count / most)] if count else _HEIGHTS[0] for count in counts)


def bar(count: int, most: int, width: int, blocks: bool) -> str:
    """Return a padded bar of count / most; visible above 0."""
    share = count / most if most else 0.0
    if not blocks:
        return ("#" * max(round(share * width), 1 if count else 0)).ljust(width)
    eighths = max(round(share * width * 8), 1 if count else 0)
    full_blocks, eighth = divmod(eighths, 8)
    return (_EIGHTHS[8] * full_blocks + (_EIGHTHS[eighth] if eighth else "")).ljust(width)


def ruler(names: Sequence[tuple[int, str]], width: int) -> str:
    """Return a line with each name (cell, name) at its cell.

    One that would touch the one before or pass `width` is left out.
    """
    line = ""
    for column, name in names:
        if column >= len(line) + bool(line) and column + len(name) <= width:
            line = line.ljust(column) + name
    return line
