"""Ranges and defaults of what a request may ask for: numbers, texts, and names from a list.

Change here: a limit or a default of an argument.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Annotated, TypeVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Range:
    """The default, least and greatest value of a number."""

    default: int
    least: int = 1
    most: int = 100

    def check(self, value: int, name: str = "limit") -> int:
        """Return `value`. Raises InvalidQuery if it lies outside the range."""
        if value < self.least:
            raise InvalidQuery(f"{name} must be at least {self.least}")
        if value > self.most:
            raise InvalidQuery(f"{name} must be at most {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is written on the command line."""

    #: What stands for the value in the help; "" for one that is switched on.
    metavar: str
    help: str
    #: Such as "--also", where it is not called as the field is.
    name: str = ""
    #: Whether a list is written as one word with commas, not by naming the flag again.
    has_commas: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """What a tool says of a field, and what it may hold."""

    description: str = ""
    #: The only values; "" besides them where it is the field's default.
    values: tuple[str, ...] = ()
    range: Range | None = None
    #: Fewest and most characters of a text, or entries of a list.
    shortest: int | None = None
    longest: int | None = None
    #: Whether a number is taken for a text.
    takes_numbers: bool = False
    flag: Flag | None = None
    #: Whether tools have it too.
    is_for_tools: bool = True


#: Results of a question, and of a jump by an index.
SEARCHED, RESULTS = Range(5), Range(10)
#: Segments of evidence of a walk through the tree.
EVIDENCE = Range(5)
#: Children of a node, and events in order of time, on one page.
PAGE = Range(20, most=1000)
#: Tokens of a page of the tree, of the usual number of children.
PAGE_TOKENS = 900
#: Events before and after a quotation.
AROUND = Range(3, least=0, most=50)
#: Events before and after one that is named.
NEIGHBOURS = Range(0, least=0, most=200)
#: Characters of a text that are left out, and that are shown; 0 shows all.
CHARACTERS, TEXT = Range(0, least=0, most=1_000_000_000), Range(0, least=0, most=1_000_000)
#: Tokens of a response; 0 counts as not given.
TOKENS = Range(0, least=0, most=200_000)
#: Tokens of what an agent reads to refine a node; with fewer not even the node's own text has room.
MATERIAL = Range(3000, least=1000, most=200_000)
#: Milliseconds; 0 counts as not given.
TIMEOUT = Range(0, least=0, most=600_000)
#: Local days of a ledger.
DAYS = Range(7, most=3660)
#: Local days of an overview of activity, and at most of a timeline.
YEAR = Range(366, most=3660)
#: Projects of an overview.
PROJECTS = Range(8, most=20)
#: A share, or a similarity.
SHARE = Range(0, least=0, most=1)
#: Characters of a pattern of what is never recorded.
MAX_PATTERN = 500
#: Characters of a question.
MAX_QUERY = 4000
#: Keywords of a question, and characters of one.
MAX_KEYWORDS, MAX_KEYWORD = 8, 80


class Detail(StrEnum):
    """Level of detail of a response."""

    LEAN = "lean"
    FULL = "full"


def _bound(name: str, most: int = 1_000_000) -> Argument:
    return Argument(range=Range(1, most=most), flag=Flag("N", f"setting retrieval.bounds.{name}"))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits at which a search stops; None stands for the value of the settings."""

    max_depth: Annotated[int | None, _bound("max_depth")] = None
    max_nodes_visited: Annotated[int | None, _bound("max_nodes_visited")] = None
    max_rpc_calls: Annotated[int | None, _bound("max_rpc_calls")] = None
    max_token_budget: Annotated[int | None, _bound("max_token_budget")] = None
    timeout_ms: Annotated[int | None, _bound("timeout_ms")] = None
    beam_width: Annotated[int | None, _bound("beam_width", 5)] = None
    #: Least score of a result; 0 shows the nearest.
    min_confidence: Annotated[
        float | None, Argument(range=SHARE, flag=Flag("X", "least score of a result; 0 shows the nearest"))
    ] = None

    def __post_init__(self) -> None:
        """Raise InvalidQuery for bounds beyond 1,000,000 (beam_width: 5), a confidence beyond 1."""
        for name in BOUNDS:
            value = getattr(self, name)
            if value is not None:
                Range(1, most=5 if name == "beam_width" else 1_000_000).check(value, name)
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise InvalidQuery(f"min_confidence must be 0 to 1, not {self.min_confidence}")

    def stops(self) -> Mapping[str, int | None]:
        """Return the six bounds by name, None for the settings' value."""
        return {name: value for name, value in asdict(self).items() if name in BOUNDS}


#: The six bounds by their names in the settings.
BOUNDS = tuple(f.name for f in fields(Bounds) if f.name != "min_confidence")


def parse_choice(members: Iterable[E], name: str, text: str) -> E | None:
    """Return the member of `members` with this value, None for "".

    Raises InvalidQuery for any other text; the message names the argument `name` and the values.
    """
    if not text:
        return None
    known_members = list(members)
    match = next((member for member in known_members if member == text), None)
    if match is None:
        *first_members, last = [f"'{member}'" for member in known_members]
        raise InvalidQuery(f"{name} must be {', '.join(first_members)} or {last}")
    return match


def check_query(text: str) -> str:
    """Return a query unchanged; InvalidQuery if empty or longer than `MAX_QUERY` characters."""
    if not text.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    if len(text) > MAX_QUERY:
        raise InvalidQuery(f"query is too long: at most {MAX_QUERY}")
    return text


def keyword_list(texts: Iterable[str]) -> tuple[str, ...]:
    """Return keywords in order, without blanks and repetitions.

    Those that differ in case alone count as one. Raises InvalidQuery for more than `MAX_KEYWORDS` of them, or one longer than
    `MAX_KEYWORD` characters.
    """
    keywords = {" ".join(text.split()).casefold(): " ".join(text.split()) for text in reversed([*texts])}
    keywords.pop("", None)
    if len(keywords) > MAX_KEYWORDS:
        raise InvalidQuery(
            f"too many keywords: {len(keywords)}, at most {MAX_KEYWORDS}", "Keep those that the answer most likely contains."
        )
    if any(len(keyword) > MAX_KEYWORD for keyword in keywords.values()):
        raise InvalidQuery(f"a keyword is too long: at most {MAX_KEYWORD} characters", "Give words or short phrases.")
    return tuple(reversed(keywords.values()))
