"""What interfaces say of the fields of a request, and which values those may hold: tools, flags and the reference read it.

A field of a request is an argument of its tool where its type is `Annotated[..., Argument(...)]`, and a flag of its command
where the argument names one. Optional texts are "" when not given.

Change here: the description of an argument that several requests share.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from memory_mcp.requests.limits import MAX_QUERY, TIMEOUT, TOKENS, Argument, Flag, Range

DETAIL = ("lean", "full")
LEVELS = ("year", "month", "week", "day", "segment")
KINDS = ("procedure", "decision", "constraint", "definition", "preference", "observation")

Query = Annotated[str, Argument("What to look for", longest=MAX_QUERY)]
Words = Annotated[str, Argument("Words to look for; one match is enough", longest=MAX_QUERY)]
NodeId = Annotated[str, Argument("e.g. toc:month:2026-01, 2026-W05, last week; empty: root", longest=300)]
GripId = Annotated[str, Argument("As results carry it: grip:<ms>:<id>", longest=300)]
Timeout = Annotated[int | None, Argument("Hard limit; makes it time_boxed", range=TIMEOUT)]
Cursor = Annotated[
    str,
    Argument(
        "next_cursor of the page before", longest=200, flag=Flag("C", "go on behind this place, as the last answer gave it")
    ),
]
#: Of a list.
NextCursor = Annotated[
    str, Argument("next_cursor of the page before", longest=200, flag=Flag("C", "next_cursor of the page before"))
]
Since = Annotated[
    str,
    Argument(
        "ISO time or date, or a phrase: last week",
        longest=60,
        takes_numbers=True,
        flag=Flag("TIME", "from then on: 2026-01-30, 2026-01-30T14:00, yesterday, 'last week'"),
    ),
]
Until = Annotated[
    str, Argument("As since; a date is included", longest=60, takes_numbers=True, flag=Flag("TIME", "up to the end of then"))
]
AsOf = Annotated[
    str, Argument("Now, for time words", longest=60, takes_numbers=True, flag=Flag("TIME", "now, for time words in the question"))
]
Zone = Annotated[
    str, Argument("Zone of times, e.g. Europe/Berlin", longest=60, flag=Flag("ZONE", "zone of times, such as Europe/Berlin"))
]
Project = Annotated[str, Argument("Only this project", longest=500)]
Scope = Annotated[str, Argument("Default: the caller's project when known; all: every project", values=("project", "all"))]
Agent = Annotated[str, Argument("Only this agent's sessions", longest=500, flag=Flag("A", "only this agent's sessions"))]
Speaker = Annotated[str, Argument(longest=300, flag=Flag("S", "only what this person said"))]
Role = Annotated[
    str,
    Argument(
        "Only what this role said",
        values=("user", "assistant", "tool"),
        flag=Flag("R", "only what this role said: user, assistant or tool"),
    ),
]
Field = Annotated[str, Argument(values=("title", "summary", "bullets", "keywords"))]
Kind = Annotated[str, Argument(values=KINDS)]
Intent = Annotated[
    str,
    Argument(
        "Default: read from the query",
        values=("explore", "answer", "locate", "time_boxed"),
        flag=Flag("I", "take the question for this: explore, answer, locate or time_boxed"),
    ),
]
Mode = Annotated[
    str,
    Argument(
        "How layers run; default sequential",
        values=("sequential", "parallel", "hybrid"),
        flag=Flag("M", "how layers are run: sequential, parallel or hybrid"),
    ),
]
Current = Annotated[
    bool, Argument("Also this running session, left out by default", flag=Flag("", "also the session that runs this command"))
]
#: Their number and length are checked by the request, which says what to do.
KEYWORDS = Argument(
    flag=Flag("WORD", "a word or phrase that the answer likely contains; repeatable, counts less than the query", name="--also")
)
Keywords = Annotated[tuple[str, ...], KEYWORDS]
FlagKeywords = Annotated[tuple[str, ...], replace(KEYWORDS, is_for_tools=False)]
#: The same statement under the same key is stored once.
Key = Annotated[str, Argument("Same key: stored once", longest=200)]


def most(what: str, bounds: Range) -> Argument:
    """Describe how many of what a response holds at most."""
    return Argument(range=bounds, flag=Flag("N", f"most {what} ({bounds.default})"))


def most_tokens(of: str) -> Argument:
    """Describe the token budget of a response; 0 counts as not given."""
    return Argument("Most tokens in the answer", range=TOKENS, flag=Flag("N", f"most tokens of {of}"))


def detail(description: str, flag_help: str) -> Argument:
    """Describe the detail of a response, lean or full."""
    return Argument(description, values=DETAIL, flag=Flag("D", flag_help))


def list_arguments(request: type[Any]) -> Iterator[tuple[str, type[Any], Argument]]:
    """Yield the name, the kind of value (str, int, float, bool, tuple or a dataclass) and the argument of a request's fields."""
    for name, hint in get_type_hints(request, include_extras=True).items():
        if get_origin(hint) is Annotated:
            value_type, argument = get_args(hint)
            kind = get_args(value_type)[0] if get_origin(value_type) is UnionType else get_origin(value_type) or value_type
            yield name, kind, argument
