"""What interfaces say of the fields of a request, and which values those may hold: tools, flags and the reference read it.

A field of a request is an argument of its tool where its type is `Annotated[..., Argument(...)]`, and a flag of its command
where the argument names one. Optional texts are "" when not given.

Change here: the description of an argument that several requests share.
"""

from typing import Annotated

from memory_mcp.requests.limits import MAX_QUERY, NEIGHBOURS, PAGE, RESULTS, TIMEOUT, TOKENS, Argument

DETAIL = ("lean", "full")
LEVELS = ("year", "month", "week", "day", "segment")

Query = Annotated[str, Argument("What to look for", longest=MAX_QUERY)]
Words = Annotated[str, Argument("Words to look for; one match is enough", longest=MAX_QUERY)]
NodeId = Annotated[str, Argument("e.g. toc:month:2026-01, 2026-W05, last week; empty: root", longest=300)]
GripId = Annotated[str, Argument("As results carry it: grip:<ms>:<id>", longest=300)]
Limit = Annotated[int, Argument(range=RESULTS)]
Page = Annotated[int, Argument(range=PAGE)]
Neighbours = Annotated[int, Argument(range=NEIGHBOURS)]
Tokens = Annotated[int | None, Argument("Most tokens in the answer", range=TOKENS)]
Timeout = Annotated[int | None, Argument("Hard limit; makes it time_boxed", range=TIMEOUT)]
Cursor = Annotated[str, Argument("next_cursor of the page before", longest=200)]
Since = Annotated[str, Argument("ISO time or date, or a phrase: last week", longest=60, takes_numbers=True)]
Until = Annotated[str, Argument("As since; a date is included", longest=60, takes_numbers=True)]
AsOf = Annotated[str, Argument("Now, for time words", longest=60, takes_numbers=True)]
Zone = Annotated[str, Argument("Zone of times, e.g. Europe/Berlin", longest=60)]
Project = Annotated[str, Argument("Only this project", longest=500)]
Scope = Annotated[str, Argument("Default: the caller's project when known; all: every project", values=("project", "all"))]
Agent = Annotated[str, Argument("Only this agent's sessions", longest=500)]
Speaker = Annotated[str, Argument(longest=300)]
Role = Annotated[str, Argument("Only what this role said", values=("user", "assistant", "tool"))]
Level = Annotated[str, Argument(values=LEVELS)]
Field = Annotated[str, Argument(values=("title", "summary", "bullets", "keywords"))]
Kind = Annotated[str, Argument(values=("procedure", "decision", "constraint", "definition", "preference", "observation"))]
Intent = Annotated[str, Argument("Default: read from the query", values=("explore", "answer", "locate", "time_boxed"))]
Mode = Annotated[str, Argument("How layers run; default sequential", values=("sequential", "parallel", "hybrid"))]
Detailed = Annotated[str, Argument(values=DETAIL)]
Current = Annotated[bool, Argument("Also this running session, left out by default")]
#: Their number and length are checked by the request, which says what to do.
Keywords = Annotated[tuple[str, ...], Argument()]
#: The same statement under the same key is stored once.
Key = Annotated[str, Argument("Same key: stored once", longest=200)]
