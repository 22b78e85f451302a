"""Whether cutting our own output out of a text takes time in proportion to the text: processor seconds for n and 4n characters.

Each stretch is repeated behind an opening tag, before a closing one, between two answers, and inside of a structured answer that
does not end. In proportion the ratio is 4, for squares it would be 16; small numbers of seconds waver.

    python -m bench.ours [--characters N]
"""

import argparse
import time

from memory_mcp.importers.own_output import remove_own_output
from memory_mcp.model.fencing import fence_text
from memory_mcp.model.sentinel import CLOSE, MARK, OPEN

STRETCHES = {
    "line ends": "\n",
    "carriage returns": "\r\n",
    "blanks": " ",
    "brackets": "<",
    "escaped brackets": "&lt;",
    "ampersands": "&amp;",
    "backslashes": "\\",
    "escaped line ends": "\\n",
    "escaped quotes": '\\"',
    "escapes": "\\u003c",
    "breaks": "<br>",
    "braces": "{",
    "digits": "1",
    "marks": MARK,
    "opening tags": OPEN,
    "opening lines": f"{OPEN}\n",
    "closing tags": CLOSE,
    "closing lines": f"\n{CLOSE}",
    "escaped tags": f"&lt;{MARK}&gt;",
    "lines": "x\n",
    "quoted lines": "> \n",
    "unfinished answers": f'{{"origin": "{MARK}", "a": ',
    "answers in YAML": f"\norigin: {MARK}\na: b",
    "beginnings of ids": "grip:",
}
_ANSWER = fence_text("**1. 2026-01-20 10:00 \u00b7 user** grip: grip:1767603600000:35cs7r7vpdbmj55j\n> It is so.")


def seconds(stretch: str, characters: int) -> float:
    """Processor seconds for the slowest of the four places."""
    many = stretch * (characters // len(stretch))
    texts = (
        f"{OPEN}\n{many}",
        f"{many}\n{CLOSE}",
        f"{_ANSWER}{many}a{_ANSWER}",
        f'{{"origin": "{MARK}", "results": {many}',
    )
    return max(_cost(text) for text in texts)


def _cost(text: str) -> float:
    began = time.process_time()
    remove_own_output(text)
    return time.process_time() - began


def main() -> None:
    """Print one line for each stretch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--characters", type=int, default=500_000, help="n (default: %(default)s)")
    count = parser.parse_args().characters
    for name, stretch in STRETCHES.items():
        once, four = seconds(stretch, count), seconds(stretch, 4 * count)
        print(f"{name:20} {once:8.3f} s {four:8.3f} s  ratio {four / max(once, 1e-4):.1f}")


if __name__ == "__main__":
    main()
