"""Search the events that no index holds yet, so that everything acknowledged can be found."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import probe, query_terms
from memory_mcp.indexes import keys
from memory_mcp.indexes.base import ArrivedMatches, Filters, IndexQuery, PendingMatch, Searcher
from memory_mcp.indexes.index_reader import MOST_WAITING, IndexReader
from memory_mcp.indexes.keywords import keyword_terms
from memory_mcp.model.event import Event, EventType
from memory_mcp.search.layers.base import LayerName
from memory_mcp.search.layers.sides import describe_gap
from memory_mcp.storage.arrivals import make_event_filter
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.tree.toc.tree import Tree

#: Newest events not indexed yet that are compared by meaning: each has to be embedded.
EMBEDDED = 64
#: When more than `MOST_WAITING` events wait, an import is running: so many of its newest events are searched one by one. A
#: question during an import takes 45 ms of CPU with 500 and 165 with 2,000 (measured on real histories).
BROUGHT = 500
#: Of the latest events of an import whose terms are not counted yet, so many are searched: each is counted for the question.
_UNCOUNTED = 100
#: Counted events that are read for a question.
_READ = 64
#: Types of events without words of their own.
_MARKS = frozenset({EventType.SESSION_START, EventType.SESSION_END})
#: A time after every event, UTC milliseconds.
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """Events that match, notices, and whether the tree has to be searched for others."""

    matches: tuple[PendingMatch, ...]
    notices: tuple[str, ...]
    is_partial: bool


class PendingSearch:
    """Searches what one index does not hold yet."""

    def __init__(self, name: LayerName, storage: Storage, tree: Tree, reader: IndexReader) -> None:
        self._by_words = name is LayerName.BM25
        self._storage = storage
        self._tree = tree
        self._reader = reader

    def search(self, searcher: Searcher, query: IndexQuery, done: int) -> PendingAnswer:
        """Return matches among events after number `done`.

        By words those are compared whose terms were counted during an import, and all others; by meaning the newest 64. Of more
        than 2000 others the newest 500 and the live ones are compared, and a notice tells. Raises IndexUnreadable.
        """
        filters = query.filters
        lacking = tuple(describe_gap(self._tree, filters, searcher.keeper.index.cutoffs))
        last = self._storage.events.last_seq()
        if last <= done or not filters.wants_grips or filters.kind is not None:
            return PendingAnswer((), lacking, bool(lacking))
        is_spoken = _make_spoken_filter(filters)
        counted = self._find_counted(query, is_spoken, done)
        # Where nobody counts any more, the others wait for their index: they are searched like those of no import.
        after, most = counted.reach, _UNCOUNTED if self._reader.is_counting and counted.reach > done else MOST_WAITING
        first = after if last - after <= most else last - min(most, BROUGHT)
        since = first if self._by_words else min(first, max(done, last - BROUGHT))
        others = self._list_uncounted(query, is_spoken, after, since, last)
        waiting = searcher.score_pending(query.text, others, query.keywords)
        matches = tuple(match for match in (*counted.best, *waiting) if match.raw >= query.min_score)
        notices = (*lacking, f"{first - after:,} events wait to be indexed") if first > after else lacking
        # A few others are counted within a second.
        is_partial = bool(lacking) or (first > after and last - after > MOST_WAITING)
        return PendingAnswer(matches, notices, is_partial)

    def _find_counted(self, query: IndexQuery, is_spoken: Callable[[Event], bool], done: int) -> ArrivedMatches:
        if not self._by_words:
            return ArrivedMatches((), self._reader.counted_to(done))
        in_scope = make_event_filter(_scope_of(query.filters))
        words = (query.text, query.keywords)
        return find_counted(self._storage, self._reader, *words, done, lambda event: is_spoken(event) and in_scope(event))

    def _list_uncounted(
        self, query: IndexQuery, is_spoken: Callable[[Event], bool], after: int, first: int, last: int
    ) -> Sequence[Event]:
        """Return the events behind number `first` that may match, and the live ones behind `after`; by meaning the newest 64."""
        scope, events = _scope_of(query.filters), self._storage.events
        probes = list(map(probe, list_query_terms(query))) if self._by_words else ()
        # Live events are not lost among those of a running import.
        live = events.list_arrivals(after, first, scope, probes, live=True)[-MOST_WAITING:] if first > after else []
        newest = events.list_arrivals(first, last, scope, probes) if first < last else []
        spoken = [event for event in (*live, *newest) if is_spoken(event)]
        return spoken if self._by_words else spoken[-EMBEDDED:]


def find_counted(
    storage: Storage, reader: IndexReader, text: str, keywords: Sequence[str], after: int, is_wanted: Callable[[Event], bool]
) -> ArrivedMatches:
    """Return the best events behind number `after` whose terms were counted, 64 at most, hidden repetitions left out.

    Without any that are counted, what was searched ends at `after`.
    """
    names = storage.projects.names

    def is_wanted_now(event: Event) -> bool:
        # A project may have got another name since its events were counted.
        recorded = event.project if event.recorded_project is None else event.recorded_project
        project = names.display_name(recorded, event.session_id)
        return is_wanted(event if project == event.project else replace(event, project=project, recorded_project=recorded))

    arrived = reader.search_arrived(text, keywords, after, is_wanted_now, _READ)
    if arrived is None:
        return ArrivedMatches((), after)
    ids = [match.event.event_id for match in arrived.best]
    events, hidden = storage.events.get_events(ids), storage.events.find_duplicates(ids)
    whole = (replace(m, event=events[i]) for i, m in zip(ids, arrived.best, strict=True) if i in events and i not in hidden)
    return replace(arrived, best=tuple(whole))


def list_query_terms(query: IndexQuery) -> frozenset[str]:
    """Return the terms of a query and of its keywords."""
    question_terms = query_terms(query.text)
    return frozenset((*question_terms, *keyword_terms(query.keywords, question_terms)))


def _scope_of(filters: Filters) -> Scope:
    return Scope(filters.project, filters.agent, filters.window)


def _make_spoken_filter(filters: Filters) -> Callable[[Event], bool]:
    """Return a function that tells whether an event has words of its own, and speaker, role and session pass."""
    excluded = dict(filters.excluded_sessions)

    def is_spoken(event: Event) -> bool:
        if excluded and event.timestamp >= excluded.get(keys.session_name(event.session_id), _NEVER):
            return False
        by_speaker = filters.speaker is None or event.speaker.casefold() == filters.speaker.casefold()
        return event.type not in _MARKS and by_speaker and filters.role in (None, event.role.value)

    return is_spoken
