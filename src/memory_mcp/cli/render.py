"""Prints results as text or JSON: the only module of the package that prints.

Invariants
1. Stored text cannot steer a terminal: control characters never reach it.
2. What is recalled carries the mark of its origin as soon as something else than a person may read it, so that a
   transcript of the reading never becomes a memory of its own.
3. Results go to stdout, everything else to stderr.
"""

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
    """Return the stream of results: that of the caller's terminal, else standard output."""
    terminal = TERMINAL.get()
    return sys.stdout if terminal is None else terminal.out


def _err() -> TextIO:
    """Return the stream of everything else: that of the caller's terminal, else standard error."""
    terminal = TERMINAL.get()
    return sys.stderr if terminal is None else terminal.err


def _width() -> int | None:
    """Return the columns of the caller's terminal; None for this process's own, and where there is none."""
    terminal = TERMINAL.get()
    return terminal.columns or None if terminal is not None else None


def is_terminal() -> bool:
    """Whether the stream of results is a terminal: stdout, or the caller's where the command runs for another process."""
    return _out().isatty()


def draws_blocks() -> bool:
    """Whether stdout is a UTF-8 terminal whose owner wants more than plain text (NO_COLOR is not set)."""
    terminal = TERMINAL.get()
    plain = bool(os.environ.get("NO_COLOR")) if terminal is None else terminal.plain
    return _out().isatty() and not plain and _is_utf8()


def _is_utf8() -> bool:
    """Whether the stream of results is encoded as UTF-8."""
    return (getattr(_out(), "encoding", None) or "").lower().replace("-", "") == "utf8"


def prepare_streams() -> None:
    """Have stdout and stderr replace characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def safe(text: str) -> str:
    """Return a text with each control character, but line feed and tab, and each that turns writing, replaced by U+FFFD."""
    return text.translate(_CONTROLS)


def out(text: str = "") -> None:
    """Print a line to the stream of results, without control characters; nothing is fenced."""
    print(safe(text), file=_out())


def err(text: str) -> None:
    """Print a line to stderr at once (progress, notes, errors), without control characters or what looks like our fence."""
    from memory_mcp.model.fencing import neutralize

    print(neutralize(safe(text)), file=_err(), flush=True)


def flush() -> None:
    """Flush the stream of results."""
    _out().flush()


def trace() -> None:
    """Print the traceback of the exception being handled to the stream of errors."""
    import traceback

    traceback.print_exc(file=_err())


def emit(as_json: bool, data: Mapping[str, Any], lines: Iterable[str], recalled: bool = False) -> None:
    """Print a result to stdout: `data` as one JSON document where `as_json`, else the lines.

    `recalled`: it holds stored text. Its lines are then fenced where stdout is no terminal, its JSON marked by "origin".
    Other lines lose what looks like our fence.
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
    """Print lines, without control characters, as one text within the fence that marks recalled data."""
    from memory_mcp.model.fencing import fence_text

    out(fence_text(safe("\n".join(lines))))


def out_json(data: Mapping[str, Any], recalled: bool = False) -> None:
    """Print one JSON document, without what looks like our fence; `recalled`: it holds stored text, told by a field "origin"."""
    import json

    from memory_mcp.model.fencing import neutralize_json

    marked = {"origin": MARK, **neutralize_json(data)} if recalled else neutralize_json(data)
    print(json.dumps(marked, ensure_ascii=not _is_utf8(), indent=2, default=str).translate(_ESCAPES), file=_out())


def styled(lines: Iterable["Text"], recalled: bool = False) -> None:
    """Print lines with colours where the terminal has any, cut to its width; off a terminal as plain text.

    `recalled`: they hold stored text, and are fenced off a terminal. Control characters in the given lines are replaced
    in place where they are not fenced.
    """
    if recalled and not _out().isatty():
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
    """Whether a person can be asked something: stdin and stderr are this process's own terminal, not another process's."""
    return TERMINAL.get() is None and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def is_persons(argv: Sequence[str]) -> bool:
    """Ask a person at this terminal whether the words of the command `argv` are their own; return the answer.

    For another process's terminal it was asked there. False where nobody can be asked.
    """
    from memory_mcp.service.client.forward import question_of

    terminal = TERMINAL.get()
    if terminal is not None:
        return terminal.confirmed
    return can_ask() and agreed(question_of(argv))


def agreed(question: str) -> bool:
    """Ask a question on stderr and wait for a line of this process's stdin; return whether the answer is y or yes, in any case.

    The return key alone, and the end of the input, mean yes.
    """
    print(f"{safe(question)} [Y/n] ", end="", file=_err(), flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def one_line(text: str, width: int = 0) -> str:
    """Return a text on one line, cut to `width` characters (0: not cut) with an ellipsis, between words where that cuts few."""
    flat = " ".join(text.split())
    if not width or len(flat) <= width:
        return flat
    cut = flat[: width - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > width * 0.6 else cut).rstrip(" ,;:") + "…"


def wrapped(text: str, indent: str = "", first: str | None = None, width: int = WIDTH) -> list[str]:
    """Return a text wrapped to indented lines of at most `width` characters; its own line breaks stay.

    `first` is the indentation of the first line, where that is another. An empty text is one line.
    """
    import textwrap

    lines: list[str] = []
    for part in text.splitlines() or [""]:
        lead = (indent if first is None else first) if not lines else indent
        lines += textwrap.wrap(part, width, initial_indent=lead, subsequent_indent=indent) or [lead.rstrip()]
    return lines


def gist(title: str) -> str:
    """Return a node's title without its leading date or time, up to the first " · "; the whole title where none leads it."""
    head, dot, tail = title.partition(" · ")
    return tail if dot and any(c.isdigit() for c in head) else title


def minute(iso: str) -> str:
    """Return an ISO 8601 time up to its minute in the zone it has, with a space for the T: 2026-01-05 09:30."""
    return iso[:16].replace("T", " ")


def second(iso: str) -> str:
    """Return an ISO 8601 time up to its second in the zone it has, with a space for the T: 2026-01-05 09:30:07."""
    return iso[:19].replace("T", " ")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is 1: 1 file, 2,000 files, 3 queries, 4 days."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{count:,} {noun}s"


def activity(counts: Mapping[str, Any]) -> str:
    """Return the counts under `events` and `sessions` in words: 12 events in 3 sessions."""
    return f"{plural(counts['events'], 'event')} in {plural(counts['sessions'], 'session')}"


def project_name(project: str) -> str:
    """Return a project's shortest name that no other one has, by `PROJECT_NAMES`, on one line; else its whole name."""
    return one_line(safe(PROJECT_NAMES.get().get(project, project)))


def days(first: str, last: str) -> str:
    """Return the days of two ISO 8601 times: 2026-01-05 to 2026-01-07, or the one day where they are the same."""
    return " to ".join(dict.fromkeys((first[:10], last[:10])))


def size(count: int) -> str:
    """Return a number of bytes with a decimal unit, such as 4.2 MB; the largest is GB."""
    if count < 1000:
        return f"{count} B"
    value = count / 1000
    for unit in ("kB", "MB"):
        if value < 1000:
            return f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


class Progress:
    """Progress of long work on stderr: a bar on a terminal, else a plain line at most once a second."""

    def __init__(self, title: str) -> None:
        """Keep the title; nothing is shown before the block begins."""
        self._title = title
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._told = time.monotonic()

    def __enter__(self) -> "Progress":
        """Show the bar, if there is a terminal for it; return self."""
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
        """Show that `done` of `total` things are done: their share, and both numbers with the noun; as `at`."""
        self.at(done / max(total, 1), f"{done:,} of {total:,} {noun}")

    def at(self, fraction: float, note: str = "") -> None:
        """Show the fraction (0..1) that is done, with a note; without a bar at most one line a second, the first after one."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=fraction, note=safe(note))
        elif time.monotonic() - self._told >= 1:
            self._told = time.monotonic()
            err(f"{self._title}: {fraction:.0%} {note}".rstrip())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        """Take the bar away, if there is one; exceptions are passed on."""
        if self._bar is not None:
            self._bar.stop()
