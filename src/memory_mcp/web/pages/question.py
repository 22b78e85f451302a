"""Reads the arguments of a search page's address, and makes the request and the links that keep them."""

from collections.abc import Mapping
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.toc import MemoryKind
from memory_mcp.requests.limits import BOUNDS, Bounds, Detail, parse_choice
from memory_mcp.requests.scope import ScopeName
from memory_mcp.requests.search import SearchRequest
from memory_mcp.web.asking import PageRequest

#: Filters that the form shows, and arguments that only links carry: what `why_not` may say that a search lacks.
FILTERS = ("since", "until", "project", "role", "agent")
_WORDS = ("speaker", "intent", "mode", "as_of", "tz")
_NUMBERS = ("limit", "token_budget", *BOUNDS)
_FLOOR = "min_confidence"
OTHERS = (*_WORDS, *_NUMBERS, _FLOOR)
#: The kind of statement that is shown: picked out of the results, since no layer searches by it.
KIND = "kind"
#: Results of a page, and of one that shows a kind of them alone.
_RESULTS, _LOOKED_THROUGH = 10, 50


@dataclass(frozen=True, slots=True)
class Question:
    """The query and every argument of the URL; "" if absent."""

    ask: PageRequest
    query: str
    given: Mapping[str, str]
    cursor: str

    def request(self, detail: Detail = Detail.LEAN, why_not: str = "") -> SearchRequest:
        """Return the search request; InvalidQuery for an unreadable number.

        Of all projects where none is given; without a `limit` 10 results, or 50 where a kind is picked out of them.
        """
        numbers = {name: self.ask.int_argument(name, 0) or None for name in _NUMBERS}
        bounds = {name: numbers[name] for name in BOUNDS}
        arguments = self.given
        filters: dict[str, Any] = {name: arguments[name] for name in (*FILTERS, *_WORDS)}
        try:
            floor = float(arguments[_FLOOR]) if arguments[_FLOOR] else None
        except ValueError:
            raise InvalidQuery(f"{_FLOOR} must be 0 to 1, not {arguments[_FLOOR][:40]!r}") from None
        return SearchRequest(
            query=self.query,
            **filters,
            scope="" if arguments["project"] else ScopeName.ALL,
            limit=numbers["limit"] or (_LOOKED_THROUGH if arguments[KIND] else _RESULTS),
            token_budget=numbers["token_budget"],
            bounds=Bounds(**bounds, min_confidence=floor),
            cursor=self.cursor,
            detail=detail,
            why_not=why_not,
            with_agents=True,
        )

    def address(self, **more: object) -> dict[str, object]:
        """Return the arguments of a link to the same search.

        Without its cursor, with `more` added or replaced.
        """
        return {"q": self.query, **self.given, **more}

    def change_arguments(self, change: Mapping[str, Any]) -> dict[str, object]:
        """Return a link's arguments with a change that `why_not` names.

        `change` has arguments of the request, bounds nested under `bounds`; numbers become texts. A scope of all drops
        the project. The cursor stays unless the change has one.
        """
        flat = {**change, **change.get("bounds", {})}
        flat.pop("bounds", None)
        if flat.pop("scope", "") == ScopeName.ALL:
            flat["project"] = ""
        query = flat.pop("query", self.query)
        cursor = flat.pop("cursor", self.cursor)
        return {"q": query, **self.given, **{name: str(value) for name, value in flat.items()}, "cursor": cursor}

    @property
    def limit(self) -> str:
        """Number of results of a page, as a link says it."""
        return self.given["limit"] or str(_LOOKED_THROUGH if self.given[KIND] else _RESULTS)


def parse_question(ask: PageRequest) -> Question:
    """Return the question of an address.

    Raises InvalidQuery for an unknown kind of statement. Scope all drops the project.
    """
    arguments = {name: ask.argument(name) for name in (*FILTERS, KIND, *OTHERS)}
    parse_choice(MemoryKind, KIND, arguments[KIND])
    if ask.argument("scope") == ScopeName.ALL:
        arguments["project"] = ""
    return Question(ask, ask.argument("q"), arguments, ask.argument("cursor"))
