"""What makes a request: its type, the function that handles it, and what interfaces say of it.

The docstring of the type describes its tool, and its fields describe their arguments (`arguments.py`).
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from memory_mcp.base.dataclass import dataclass
from memory_mcp.requests.scope import Caller

if TYPE_CHECKING:
    from memory_mcp.app import App

Handler = TypeVar("Handler", bound=Callable[["App", Any, Caller], Any])


#: Pages that clients show beside an answer (`server/apps.py`).
TIMELINE_PAGE, EVIDENCE_PAGE = "ui://memory/timeline.html", "ui://memory/evidence.html"


class Effect(Enum):
    """What a request does to the memory."""

    #: It reads; the same request again has the same response.
    READS = "reads"
    #: It adds and never takes away.
    ADDS = "adds"
    #: It writes; made again, it changes nothing more.
    SETS = "sets"


@dataclass(frozen=True, slots=True)
class Entry:
    """A request as interfaces know it."""

    name: str
    request: type[Any]
    #: Takes the open memory, the request and the caller.
    handle: Callable[..., Any]
    #: Of its MCP tool; "" for a request without one.
    title: str = ""
    effect: Effect = Effect.READS
    #: Address of a page that shows its responses; "" for none.
    page: str = ""

    @property
    def response(self) -> type[Any]:
        """The dataclass of its responses."""
        return self.handle.__annotations__["return"]  # type: ignore[no-any-return]


#: The requests whose modules are loaded, by name and by type.
ENTRIES: dict[str, Entry] = {}
BY_TYPE: dict[type[Any], Entry] = {}


def answers(
    name: str, request: type[Any], title: str = "", effect: Effect = Effect.READS, page: str = ""
) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function as what handles a request."""

    def register(handler: Handler) -> Handler:
        ENTRIES[name] = BY_TYPE[request] = Entry(name, request, handler, title, effect, page)
        return handler

    return register
