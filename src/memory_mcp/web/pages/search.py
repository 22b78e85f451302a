"""Search: results as cards, how they were found, and what would show a missing one."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp.model.toc import MemoryKind
from memory_mcp.requests.limits import BOUNDS, Bounds, Detail, parse_choice
from memory_mcp.requests.plain import NOT_HERE, unknown_line
from memory_mcp.requests.projects import ListAgents, ListProjects
from memory_mcp.requests.scope import ScopeName
from memory_mcp.requests.search import SearchRequest
from memory_mcp.requests.shapes import NO_NAME
from memory_mcp.web import pictures
from memory_mcp.web.asking import PageRequest, status_of
from memory_mcp.web.cards import by_conversation, cards_of
from memory_mcp.web.rendering import count

#: Projects that the form offers.
_PROJECTS = 200
#: The part below the field of every page's head.
_QUICK = "quick"
#: How sure an answer is, as people say it.
_SURE = {
    "strong": "These fit the question well.",
    "weak": "These fit only in part: read them before you rely on them.",
    "none": f"{NOT_HERE}. These are the nearest.",
}
#: The same of an answer without results.
_NOTHING = "Nothing here fits the question."
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


async def show_search(ask: PageRequest) -> Response:
    """Show the form with results, or the part `how` or `why`.

    A search that fails shows its error in the page, with the error's status; without a query there is only the form.
    """
    question = parse_question(ask)
    part_name = ask.argument("show")
    if part_name in _PARTS and question.query:
        return await _PARTS[part_name](ask, question)
    values: dict[str, Any] = {"question": question, "given": question.given}
    code = 200
    try:
        values |= await _find_results(ask, question)
    except MemoryMcpError as error:
        values["error"], code = error, status_of(error)
        values["told"] = "The search failed."
    if ask.part:
        return ask.render_template("part_quick.html" if ask.part == _QUICK else "part_results.html", code, **values)
    projects = (await ask.memory.ask(ListProjects(_PROJECTS)))["projects"]
    agents = (await ask.memory.ask(ListAgents()))["agents"]
    return ask.render_template(
        "search.html",
        code,
        **values,
        projects=_with_chosen(question.given["project"], [entry["project"] for entry in projects]),
        agents=_with_chosen(question.given["agent"], [entry["agent"] for entry in agents]),
        others={name: question.given[name] for name in OTHERS if question.given[name]},
        narrowed=any(question.given[name] for name in (*FILTERS, KIND)),
    )


async def _find_results(ask: PageRequest, question: Question) -> dict[str, Any]:
    """Search; if `why_not` is refused, search without it."""
    if not question.query:
        return {"told": ""}
    missing, refused = ask.argument("why_not"), None
    try:
        response = await ask.memory.ask(question.request(why_not=missing))
    except MemoryMcpError as error:
        if not missing:
            raise
        # A search that is refused itself is refused again.
        refused, response = error, await ask.memory.ask(question.request())
    kind, cards = question.given[KIND], cards_of(question.query, response)
    kind_cards = [card for card in cards if not kind or card.get("kind") == kind]
    count_text = f"{count(len(kind_cards), 'result')}{f' of this kind among {len(cards)}' if kind else ''}"
    conversations = by_conversation(kind_cards)
    if len(conversations) < len(kind_cards):
        count_text += f" in {count(len(conversations), 'conversation')}"
    if projects := response.get("projects", ()):
        count_text = count(len(projects), "project")
    why = response["explanation"].get("why_not") or {}
    if why:
        # The arguments of a link to the search that shows the item; none if no search would.
        why = {**why, "search": question.change_arguments(why["change"]) if why.get("change") else {}}
    return {
        "found": response,
        "cards": conversations,
        "told": f"{count_text}, more follow" if response.get("next_cursor") else count_text,
        "sure": _SURE[response["confidence"]] if cards else _NOTHING,
        "unknown": unknown_line(response),
        "missing": missing,
        "why_not": why,
        "refused": refused,
    }


def _with_chosen(chosen: str, names: list[str]) -> list[str]:
    return list(dict.fromkeys([*([chosen] if chosen else []), *(name for name in names if name != NO_NAME)]))


async def _how(ask: PageRequest, question: Question) -> Response:
    why = (await ask.memory.ask(question.request(Detail.FULL)))["explanation"]
    tried, skipped = why.get("tried", []), why.get("skipped", [])
    values = {
        "why": why,
        "tried": [{**layer, "took": pictures.milliseconds(layer.get("ms", 0))} for layer in tried],
        "bounds": {pictures.bound_name(name): usage for name, usage in why.get("bounds", {}).items()},
        "layers_picture": pictures.draw_layers(tried, skipped),
        "bounds_picture": pictures.draw_bounds(why.get("bounds", {}), why.get("bounds_hit", ())),
    }
    return ask.render_page("how", question=question, **values)


async def _why(ask: PageRequest, question: Question) -> Response:
    name = ask.argument("of")
    response = await ask.memory.ask(question.request(Detail.FULL))
    result: dict[str, Any] = next(
        (result for result in response["results"] if name in (result["id"], *result.get("grip_ids", ()))), {}
    )
    parts = result.get("score_parts", {})
    numbers = [(name.replace("_", " "), value) for name, value in parts.items()]
    return ask.render_page("why", question=question, one=result, numbers=numbers, picture=pictures.draw_reasons(parts))


_PARTS = {"how": _how, "why": _why}
