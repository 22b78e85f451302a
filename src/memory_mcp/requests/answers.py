"""What intelligent_search answers: an answer of the policy, shaped to the detail and the tokens that were asked for.

Themes say what it is all about, each with a statement and the grip that proves it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.frozen import copy_with
from memory_mcp.model.ids import GripId, NodeId, parse_span_grip
from memory_mcp.model.tokens import max_bytes, tokens_in
from memory_mcp.requests import explaining
from memory_mcp.requests.excerpts import Excerpt, term_weights, words_typed
from memory_mcp.requests.explaining import Explanation, FullExplanation
from memory_mcp.requests.lean import LeanHits, Selection, select_hits
from memory_mcp.requests.limits import SEARCHED
from memory_mcp.requests.overviews import OVERVIEW_TOKENS, Asked, ProjectOverview, overview_of
from memory_mcp.requests.plain import find_fullest, size_of, tokens_of
from memory_mcp.requests.response import Recalled, offset_cursor
from memory_mcp.requests.results import QUOTED, FullResult, Lines, Quote, Result, Style, full_result
from memory_mcp.requests.scope import Caller, Scoped
from memory_mcp.requests.topic_shapes import list_renewal_notices
from memory_mcp.search.layers.base import Hit, LayerName, Query
from memory_mcp.search.layers.base import Theme as Found
from memory_mcp.search.policy.engine import Answer
from memory_mcp.search.policy.plan import How
from memory_mcp.search.policy.recent import QuestionTerms
from memory_mcp.search.policy.relevance import Confidence
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.vocabulary import keys_of

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Tokens of a lean response of up to `SEARCHED.default` results where the caller names no budget, and up to which quotations
#: grow: what is left after them is for lines of what else was found.
ANSWER_TOKENS, _AIM = 900, 700
_PER_RESULT = ANSWER_TOKENS // SEARCHED.default
#: Share of an answer's tokens that themes may use: of an overview, and of a question about something in particular.
_OVERVIEW, _PARTICULAR = 0.8, 0.5
_TOKEN_BOUND = "max_token_budget"
_TOO_SMALL = "the next result does not fit the token budget; raise token_budget to see it"
_NEAREST = "probably not in this memory: these are only the nearest"
_PARTIAL = "Timeout exceeded: these are partial results"
_KEYWORDS_OFF = "BM25 search is not enabled: used {}; enable with {}"
#: What is used instead of it, where it is not the layer's own name.
_INSTEAD = {"agentic": "TOC navigation", "scan": "a scan"}
#: Stands for a result while the size of everything else is measured.
_ANY = Result(when="")
#: How an overview is described to those who read the schema.
_BY_PROJECT = "In place of results, an overview: what was asked, done, decided, is open"
#: With full detail: results of which further quotations are shown, how many of each, and characters of one.
_QUOTED, _FURTHER, _WIDTH = 3, 2, 300
#: They are read only where so much of the time is left (ms).
_TO_QUOTE = 15
#: Characters of a statement, the fewest worth showing, and terms that tell what else a theme is about.
_QUOTE, _LEAST, _ABOUT = 140, 48, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What part of the memory is about."""

    theme: str
    #: Terms that its label lacks.
    about: str = ""
    #: The days on which it was talked about first and last, joined by "/" where they differ.
    when: str
    segments: int
    quote: str = ""
    #: Proves the quotation: `expand_grip` opens it.
    grip: str = ""
    topic: str


def fit_themes(candidates: Sequence[Found], calendar: Calendar, fits: Callable[[tuple[Theme, ...]], bool]) -> tuple[Theme, ...]:
    """Return as many themes as fit, with statements as they fit.

    The first have a legible statement each. A third of the themes gives up its statements before another theme is left out; ()
    where not even one fits.
    """
    all_themes = []
    for candidate in candidates:
        first, last = calendar.format_iso(candidate.first_ms)[:10], calendar.format_iso(candidate.last_ms)[:10]
        label_keys = keys_of(candidate.label)
        theme = Theme(
            theme=candidate.label,
            about=", ".join(islice((term for term in candidate.about if not keys_of(term) <= label_keys), _ABOUT)),
            when=first if first == last else f"{first}/{last}",
            segments=candidate.segments,
            quote=candidate.quote,
            grip=candidate.grip_id,
            topic=candidate.topic_id,
        )
        all_themes.append(theme)
    for count in range(len(all_themes), 0, -1):
        for quoted_count in dict.fromkeys((count, -(-2 * count // 3))):
            themes = (*all_themes[:quoted_count], *(replace(t, quote="", grip="") for t in all_themes[quoted_count:count]))
            fitted = find_fullest(functools.partial(_cut_quotes, themes), fits, _LEAST, _QUOTE)
            if fitted is not None:
                return fitted
    return ()


def _cut_quotes(themes: Sequence[Theme], width: int) -> tuple[Theme, ...]:
    return tuple(replace(t, quote=shorten(t.quote, width)) for t in themes)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse(Recalled):
    """What was found, how sure that is, and how it was searched."""

    projects: Annotated[tuple[ProjectOverview, ...], _BY_PROJECT] = ()
    #: The most important first: of a question that explores.
    themes: Annotated[tuple[Theme, ...], "What it is all about"] = ()
    results: tuple[Result, ...] | tuple[FullResult, ...]
    confidence: Annotated[str, "strong, weak or none"]
    #: With full detail: how likely one of the first results holds the answer, 0 to 1.
    probability: float | None = None
    missing: Annotated[tuple[str, ...], "Words that occur nowhere here"] = ()
    complete: Annotated[bool, "false: something ran out before all was searched"] = True
    #: On a page as objects.
    also: Annotated[Lines, "Next ones, a line each"] = ()
    next_cursor: str = ""
    #: With full detail: where to go on from the best result.
    next: str = ""
    explanation: Explanation | FullExplanation


class AnswerShaper:
    """An answer of the policy, brought into the shape and size that was asked for."""

    def __init__(self, app: "App", answer: Answer, parsed: ParsedSearch) -> None:
        """Fix the token budget and cut the themes to their share of it.

        A lean answer without a budget of its own has `_PER_RESULT` tokens for each result wanted, of at least
        `SEARCHED.default`.
        """
        self._app = app
        self._found = answer
        self._asked = parsed
        self._factor = app.settings.retrieval.token_factor
        bound, is_named = answer.why.limits[_TOKEN_BOUND], parsed.how.bounds.get(_TOKEN_BOUND) is not None
        usual = _PER_RESULT * max(parsed.query.limit, SEARCHED.default)
        self._budget = bound if is_named or parsed.full else min(bound, usual)
        self._aim = self._budget if is_named or parsed.with_agents else self._budget * _AIM // ANSWER_TOKENS
        self._short_names = app.tree.short_names()
        query, segments = parsed.query, app.tree.tally(parsed.query.project).segments
        weights = term_weights(query.text, app.tree.frequencies(), segments, query.project, query.keywords)
        #: What the question looks for in a text.
        self.terms = QuestionTerms(weights, words_typed(query.text, query.keywords))
        share = _OVERVIEW if answer.overview else _PARTICULAR
        most = int(share * self._budget)
        themes = answer.themes if answer.overview else answer.themes[: parsed.query.limit]
        self._missing = _mark_missing(app, parsed, answer.missing)
        self._themes = fit_themes(
            themes, parsed.calendar, lambda themes: tokens_in(_field_size("themes", themes), self._factor) <= most
        )

    def shape_response(self) -> tuple[SearchResponse, Sequence[Hit]]:
        """Return the response and the hits that its results are of."""
        return self._shape_full() if self._asked.full else self._shape_lean()

    def _shape_lean(self) -> tuple[SearchResponse, Sequence[Hit]]:
        query, answer = self._asked.query, self._found
        for_page = self._asked.with_agents
        names, quoted = ({}, None) if for_page else (self._short_names, QUOTED)
        style = Style(self._asked.calendar, query.project, names, self.terms.words, quoted, for_page=for_page)
        chosen = (
            Selection(answer.hits, answer.further, len(answer.hits))
            if for_page
            else select_hits(answer.hits, answer.further, answer.confidence)
        )
        lean = LeanHits(chosen, self.terms.weights, style)
        room, aim = max_bytes(self._budget, self._factor), max_bytes(self._aim, self._factor)
        for hits in (chosen.hits, 0):
            # What a response says apart from its results, at most: with a cursor, and where results are left out.
            frame = size_of(self._make_response((_ANY,), hits)) - size_of(_ANY)
            page = lean.fit_page(room - frame, aim - frame)
            if page.hits >= hits:
                break
        hits_shown = [chosen.results[at] for at in lean.positions[: len(page.results)]]
        return self._make_response(page.results, page.hits, page.also), hits_shown

    def _shape_full(self) -> tuple[SearchResponse, Sequence[Hit]]:
        """The first that does not fit ends the list; explanations are not counted."""
        hits, results = self._found.hits, list[FullResult]()
        remaining = self._budget - tokens_in(_field_size("themes", self._themes), self._factor)
        for hit in hits:
            result = full_result(hit, self._asked.calendar)
            remaining -= tokens_of(result, self._factor)
            if remaining < 0:
                break
            results.append(result)
        if len(results) == len(hits):
            results = self._add_quotes(results, remaining)
        response = self._make_response(tuple(results), len(results))
        if best := next((cited for cited in results if cited.grip_ids), None):
            way = f"expand_grip {best.grip_ids[0]} for its context; browse_toc toc:day:{best.when[:10]} for its day"
            response = copy_with(response, next=way)
        return response, hits[: len(results)]

    def _add_quotes(self, results: Sequence[FullResult], remaining: int) -> list[FullResult]:
        """Further quotations only where `_TO_QUOTE` ms of the search's time are left."""
        why, hits = self._found.why, self._found.hits
        is_late = why.limits["timeout_ms"] - why.elapsed_ms < _TO_QUOTE
        further, extended = {} if is_late else _further_quotes(self._app, hits[:_QUOTED]), list(results)
        events = {hit.event_id for hit in hits}
        for position, hit in enumerate(hits):
            asides = [aside for aside in hit.asides if aside.event_id not in events]
            quotes = [Quote(aside.grip_id, Excerpt(aside.quote, {}).cut(_WIDTH)) for aside in asides]
            quotes += further.get(hit.node_id, ()) if position < _QUOTED else ()
            more = copy_with(extended[position], also=tuple({quote.grip_id: quote for quote in quotes}.values()))
            cost = tokens_of(more, self._factor) - tokens_of(extended[position], self._factor)
            if cost <= remaining:
                extended[position], remaining = more, remaining - cost
        return extended

    def _make_response(self, results: Sequence[Result] | Sequence[FullResult], hits: int, also: Lines = ()) -> SearchResponse:
        """It has a cursor where there is a result and more hits follow."""
        answer, parsed = self._found, self._asked
        more = bool(results) and (answer.has_more or hits < len(answer.hits))
        hit = self._found.why.bounds_hit
        cut = hits < len(self._found.hits) and _TOKEN_BOUND not in hit
        why = copy_with(answer.why, notices=self._list_notices(bool(results)), bounds_hit=(*hit, _TOKEN_BOUND) if cut else hit)
        full = explaining.full_explanation(why, parsed.query.text, parsed.calendar) if parsed.full else None
        return SearchResponse(
            themes=self._themes,
            results=tuple(results),  # type: ignore[arg-type]
            confidence=answer.confidence.value,
            probability=round(answer.probability, 3) if parsed.full else None,
            missing=self._missing,
            complete=answer.complete,
            also=also,
            next_cursor=offset_cursor(parsed.how.offset + hits, *parsed.question) if more else "",
            explanation=full or explaining.lean_explanation(why, self._describe_scope(), parsed.calendar),
        )

    def _describe_scope(self) -> str:
        """Return the default scope of an answer that is not strong."""
        scoped = self._asked.scoped
        if self._asked.with_agents:
            return scoped.words
        limited = scoped.project is not None and scoped.by_default and self._found.confidence is not Confidence.STRONG
        return self._short_names.get(scoped.words, scoped.words) if limited else ""

    def _list_notices(self, any_shown: bool) -> tuple[str, ...]:
        why, answer, parsed = self._found.why, self._found, self._asked
        notices = list(why.notices)
        if answer.confidence is Confidence.NONE and any_shown:
            notices.append(_NEAREST)
        if any(skipped.layer == LayerName.TOPICS for skipped in why.skipped):
            notices += list_renewal_notices(self._app)
        if "timeout_ms" in why.bounds_hit:
            notices.append(_PARTIAL)
        teleport = self._app.settings.teleport
        off = {"teleport.enabled": not teleport.enabled, "teleport.bm25.enabled": not teleport.bm25.enabled}
        if any(off.values()):
            enabling = ", ".join(f"{name} = true" for name, is_off in off.items() if is_off)
            used = why.method.removeprefix("topics+")  # they tell no results
            notices.append(_KEYWORDS_OFF.format(_INSTEAD.get(used, used), enabling))
        if not any_shown and (answer.hits or answer.has_more):
            notices.append(_TOO_SMALL)
        elif not parsed.how.offset:
            notices += parsed.scoped.notices(self._app, any_shown)
        return tuple(notices)


def _mark_missing(app: "App", parsed: ParsedSearch, words: Sequence[str]) -> tuple[str, ...]:
    project = parsed.query.project
    if project is None or parsed.scoped.locked:
        return tuple(words)
    resolve = app.storage.projects.names.resolve_alias
    marked: list[str] = []
    for word in words:
        other_projects = [other for other in app.engine.projects_with(word) if other and resolve(other) != resolve(project)]
        marked.append(f"{word} (occurs in project {resolve(other_projects[0])})" if other_projects else word)
    return tuple(marked)


def _field_size(name: str, values: Sequence[object]) -> int:
    return _sum_field(name, list(map(size_of, values)))


def _sum_field(name: str, sizes: Sequence[int]) -> int:
    return len(f',"{name}":[]') + sum(sizes) + len(sizes) - 1 if sizes else 0


def _further_quotes(app: "App", hits: Sequence[Hit]) -> Mapping[str, tuple[Quote, ...]]:
    stored = {h.node_id: [g for g in h.grip_ids[1:] if parse_span_grip(g) is None][:_FURTHER] for h in hits if h.node_id}
    grips = app.storage.grips.get_grips([g for several in stored.values() for g in several])
    quotes = app.evidence.read_quotes(list(grips.values()))
    own_quotes = {h.node_id: h.quote for h in hits}

    def has_new_words(node: NodeId, grip: GripId) -> bool:
        return bool(quotes.get(grip)) and quotes[grip] not in own_quotes[node]

    return {
        node: tuple(Quote(g, Excerpt(quotes[g], {}).cut(_WIDTH)) for g in several if has_new_words(node, g))
        for node, several in stored.items()
    }


def tell_by_project(app: "App", response: SearchResponse, answer: Answer, parsed: ParsedSearch, caller: Caller) -> SearchResponse:
    """Return an answer told by project, where the tree has one.

    Unchanged where the tree holds nothing of that time, or not even one fits. In a lean one nothing else is told: a period's
    title or a list of themes beside it would say the same again.
    """
    bare = response if parsed.full else copy_with(response, results=(), themes=(), also=(), next_cursor="")
    budget = min(answer.why.limits[_TOKEN_BOUND], OVERVIEW_TOKENS)
    factor = app.settings.retrieval.token_factor
    query = parsed.query
    overview_request = Asked(query.project, query.agent, answer.why.window, query.excluded, parsed.with_agents, caller.directory)
    base = 0 if parsed.full else size_of(bare)
    projects = overview_of(
        app,
        overview_request,
        parsed.calendar,
        lambda sizes: tokens_in(base + _sum_field("projects", sizes), factor) <= budget,
    )
    return copy_with(bare, projects=projects) if projects else response
