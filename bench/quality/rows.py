"""One line for each question and system: all that the tables are made from."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

#: Results among which sessions and messages are looked for.
FIVE, TEN = 5, 10


@dataclass(frozen=True, slots=True)
class Row:
    """What one system answered to one question."""

    corpus: str
    system: str
    half: str
    question: str
    kind: str
    #: Place of the first result of a right session, 0 for none.
    session_rank: int = 0
    #: Messages that answer, and how many of them the first ten results quote or name.
    gold: int = 0
    found: int = 0
    results: int = 0
    confidence: str = ""
    #: The layer that answered, where the system chooses one.
    method: str = ""
    tokens: int = 0
    ms: float = 0.0
    #: Of the messages that answer, how many the whole answer quotes in any form; None where that was not looked at.
    quoted: int | None = None
    #: How likely one of the results holds the answer, by the answer's own account.
    probability: float | None = None
    #: Position of the first result that is a recorded question's, 0 for none; None in a store without any.
    recorded_rank: int | None = None
    #: Of an agent's question: what had been read when the answer was shown (1 search, 2 opened, 3 asked again; 0 never),
    #: and the tokens of the first answer alone.
    right_at: int = 0
    first_tokens: int = 0


def write(path: Path, rows: Iterable[Row], more: bool = False) -> None:
    """Write rows, one JSON object a line, or add more to those that are there."""
    with path.open("a" if more else "w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


def read(path: Path) -> list[Row]:
    """Rows as they were written."""
    with path.open(encoding="utf-8") as lines:
        return [Row(**json.loads(line)) for line in lines]
