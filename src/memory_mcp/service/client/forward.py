"""Has the daemon run a command, and shows its output. Standard library only, so that a question takes a tenth of a second."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from memory_mcp.service.client import link

#: Exit statuses of a command that was stopped, that cannot be answered now, and that was wrong.
_INTERRUPTED, _NOT_NOW, _ASKED_WRONGLY = 130, 3, 2
_OWN = "Record it as your own word, and not as an agent's?"
#: Commands that count as a person's own where one typed them at a terminal and says yes to this.
QUESTIONS = {
    ("correct",): _OWN,
    ("retract",): _OWN,
    ("open",): "Is what is corrected on these pages your own word, and not an agent's?",
    ("admin", "acknowledge-loss"): "Do you know what is missing (memory-mcp doctor names it), and is it to be told no more?",
}


def run(daemon: link.Wanted, argv: Sequence[str]) -> int | None:
    """Have the daemon run a command; return its status."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # what a terminal cannot show is no failure
    has_output = False
    is_confirmed = _ask_confirmation(argv)

    def hear(message: dict[str, Any]) -> None:
        nonlocal has_output
        has_output = True
        if "out" in message:
            sys.stdout.write(message["out"])
        if "err" in message:
            sys.stdout.flush()
            sys.stderr.write(message["err"])
            sys.stderr.flush()

    try:
        for _ in range(2):
            try:
                return _run_once(daemon, argv, hear, is_confirmed)
            except link.Unreachable:
                return None
            except (ConnectionError, TimeoutError) as error:
                # A daemon that ends meanwhile is followed by another; half an answer is not begun again.
                if has_output or isinstance(error, BrokenPipeError):
                    raise
        return None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return _INTERRUPTED
    except link.Refused as error:
        return _print_failure(f"{error.code}: ", str(error).removeprefix(f"{error.code}: "), argv, error.status)
    except OSError as error:
        return _print_failure("UNAVAILABLE: ", f"the daemon ended while it answered ({error}). A retry may help.", argv, _NOT_NOW)


def _print_failure(code: str, text: str, argv: Sequence[str], status: int) -> int:
    sys.stderr.write(f"{code if '--json' in argv else ''}{text}\n")
    return status


def _run_once(daemon: link.Wanted, argv: Sequence[str], hear: Any, is_confirmed: bool) -> int:
    """Run a command in the daemon and return its exit status.

    `hear` gets its output, notes go to stderr. Raises link.Refused for settings that cannot be used or an error of the daemon,
    link.Unreachable or another OSError.
    """
    line = link.reach_daemon(daemon, "rpc")
    if unusable := line.about.get("unusable"):
        line.close()
        raise link.Refused("INVALID_ARGUMENT", unusable, _ASKED_WRONGLY)
    for note in link.describe_daemon(line.about):
        sys.stderr.write(f"memory-mcp: {note}\n")
    try:
        params = {
            "argv": list(argv),
            "out_tty": sys.stdout.isatty(),
            "err_tty": sys.stderr.isatty(),
            "confirmed": is_confirmed,
            "columns": _terminal_columns(),
            "encoding": sys.stdout.encoding or "utf-8",
            "plain": bool(os.environ.get("NO_COLOR")),
        }
        answer = link.call_on_line(line, "cli/run", params, hear)
        sys.stdout.flush()
        return int(answer["status"])
    finally:
        line.close()


def _ask_confirmation(argv: Sequence[str]) -> bool:
    """Ask the person to confirm that the words are their own."""
    question = question_of(argv)
    if not question or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def question_of(argv: Sequence[str]) -> str:
    """Return the question that confirms a command, "" for none."""
    words = tuple(word for word in argv if not word.startswith("-"))
    return next((question for command, question in QUESTIONS.items() if words[: len(command)] == command), "")


def _terminal_columns() -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            continue
    return 0
