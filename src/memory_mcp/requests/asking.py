"""Parses the arguments of intelligent_search into the query and the options that the policy takes."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.errors import DeadlineExceeded
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import ExcludedSession
from memory_mcp.question.intent import Intent
from memory_mcp.requests.cursors import offset_of
from memory_mcp.requests.limits import BOUNDS, SEARCHED, Bounds, Detail, choice, keyword_list, words
from memory_mcp.requests.people import role_of, speaker_of
from memory_mcp.requests.scope import Scoped
from memory_mcp.requests.times import Times, times_of
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import GONE
from memory_mcp.search.policy.plan import How, Mode
from memory_mcp.search.policy.why_not import UnderstoodCall


@dataclass(frozen=True, slots=True)
class ParsedSearch:
    """The parsed arguments of one call."""

    query: Query
    how: How
    scoped: Scoped
    calendar: Calendar
    #: What a cursor is bound to.
    question: tuple[str, ...]
    full: bool
    with_agents: bool = False


#: The project that a call's `project` and `scope` bind it to.
ScopeOf = Callable[[str, str], Scoped]


#: Arguments that make two calls different questions; a cursor belongs to its own.
_IDENTIFYING = ("query", "since", "until", "as_of", "tz", "agent", "role", "speaker", "intent", "mode")


def parse_search(
    app: App, scope_of: ScopeOf, given: Mapping[str, Any], excluded: frozenset[ExcludedSession] = frozenset()
) -> ParsedSearch:
    """Return the parsed arguments of a call; only `query` is required.

    `excluded` are the sessions that it leaves out. Raises InvalidQuery for any invalid argument: a time, an unknown name, a
    number out of range, an unknown speaker, or a cursor of another question; and what `scope_of` raises.
    """
    times = times_of(app, given.get("tz", ""), given.get("as_of", ""))
    scoped = scope_of(given.get("project", ""), given.get("scope", ""))
    keywords = keyword_list(given.get("keywords", ()))
    full = choice(Detail, "detail", given.get("detail", "")) is Detail.FULL
    question = (*(given.get(name, "") for name in _IDENTIFYING), scoped.words, *keywords)
    return ParsedSearch(
        query=Query(
            words(given["query"]),
            SEARCHED.check(given.get("limit", SEARCHED.default)),
            scoped.project,
            given.get("agent") or None,
            times.window(given.get("since", ""), given.get("until", "")),
            role_of(given.get("role", "")),
            speaker_of(app, given.get("speaker", ""), scoped),
            excluded=excluded,
            keywords=keywords,
        ),
        how=replace(_parse_options(given, times, offset_of(given.get("cursor", ""), *question)), keeps_all=full),
        scoped=scoped,
        calendar=times.calendar,
        question=question,
        full=full,
        with_agents=bool(given.get("with_agents")),
    )


def _parse_options(arguments: Mapping[str, Any], times: Times, offset: int) -> How:
    """Return the policy's options; raises InvalidQuery for an invalid one."""
    return search_options(
        times,
        arguments.get("intent", ""),
        arguments.get("mode", ""),
        Bounds(**arguments.get("bounds", {})),
        arguments.get("token_budget"),
        arguments.get("timeout_ms"),
        offset,
        bool(arguments.get("as_of")),
    )


def search_options(
    times: Times,
    intent: str = "",
    mode: str = "",
    bounds: Bounds | None = None,
    token_budget: int | None = None,
    timeout_ms: int | None = None,
    offset: int = 0,
    has_moment: bool = True,
) -> How:
    """Return the caller's options for the policy.

    `bounds` None sets none; `token_budget` and `timeout_ms` lower those of the same meaning, 0 and None do not;
    `has_moment` says that the call names a moment (`as_of`), without it the policy takes its own now. Raises
    InvalidQuery for an unknown intent or mode.
    """
    caller_bounds = bounds or Bounds()
    changes = dict(caller_bounds.stops())
    for name, short in (("max_token_budget", token_budget), ("timeout_ms", timeout_ms)):
        changes[name] = min((v for v in (changes[name], short or None) if v), default=None)
    return How(
        intent=choice(Intent, "intent", intent),
        mode=choice(Mode, "mode", mode),
        bounds=changes,
        min_confidence=caller_bounds.min_confidence,
        offset=offset,
        as_of=times.now_ms if has_moment else None,
        calendar=times.calendar,
    )


#: Longest time of trying what would show something: a few dozen searches of a large memory (milliseconds).
TRYING_MS = 30_000


class Trying:
    """Runs a call with changed arguments, as the `Door` of `why_not` requires.

    All changes together have a time of their own, `TRYING_MS`; each call has its own limit besides.
    """

    def __init__(
        self,
        app: App,
        scope_of: ScopeOf,
        shown: Callable[[ParsedSearch], Sequence[Collection[str]]],
        excluded: frozenset[ExcludedSession] = frozenset(),
    ) -> None:
        """Prepare trying out changes of one call.

        Args:
            app: The open memory.
            scope_of: Finds the project for a call's `project` and `scope`.
            shown: Runs a parsed call and returns for each of its results the ids that it names.
            excluded: The sessions that every call leaves out.

        """
        self._app = app
        self._scope_of = scope_of
        self._shown = shown
        self._excluded = excluded
        self._began = time.monotonic()

    def look(self, arguments: Mapping[str, Any]) -> UnderstoodCall:
        """Return how a call is understood, without searching.

        Raises InvalidQuery for an invalid argument.
        """
        parsed = parse_search(self._app, self._scope_of, arguments, self._excluded)
        plan = self._app.plan(parsed.query, parsed.how)
        return UnderstoodCall(
            project=parsed.scoped.project,
            agent=parsed.query.agent,
            window=plan.window,
            window_words=plan.window_words,
            text=plan.text,
            intent=plan.intent,
            mode=plan.mode,
            bounds={name: getattr(plan.bounds, name) for name in BOUNDS},
            limit=parsed.query.limit,
            offset=parsed.how.offset,
            floor=plan.floor,
        )

    def ask(self, arguments: Mapping[str, Any]) -> Sequence[Collection[str]]:
        """Run a call; return by result the ids that it names.

        Raises DeadlineExceeded when the time for trying is over or the caller has gone, InvalidQuery for an invalid argument.
        """
        gone = GONE.get()
        if 1000 * (time.monotonic() - self._began) > TRYING_MS or (gone is not None and gone.is_set()):
            raise DeadlineExceeded("Timeout exceeded", "Ask for less.")
        parsed = parse_search(self._app, self._scope_of, arguments, self._excluded)
        return self._shown(parsed)
