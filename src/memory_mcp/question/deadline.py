"""Find the deadline that a query sets for its own answer, and the words that state it. Pure.

A duration is a deadline only where the query speaks of its answer: in a clause that says nothing else ("max 1 second:"),
after a demand ("reply within 1s", "you have half a second"), or as a limit that opens or closes the query ("within 200 ms").
A duration that is measured, past or repeated ("took 200 ms", "the last 20 minutes", "every 5 s") is none.
"""

from collections.abc import Iterable, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.question.phrases import FoundPhrase
from memory_mcp.question.signal_tables import DeadlineTable
from memory_mcp.question.words import NUMBER, Word

#: What "quickly" allows, in ms (the design's number).
HURRY_MS = 500
#: A longer duration (ms) is no deadline: nobody waits that long for an answer.
_LONGEST_MS = 600_000
#: Most words of an amount: "a quarter of a", "two hundred and fifty".
_MOST_NUMBERS = 5
_MOST_BETWEEN = 6
#: Of so many words of a limit one may be of another kind: "the page freezes if this takes over 1 s".
_MOST_STRANGE = 3
#: How near a measured thing stands to its duration, in words.
_BESIDE = 3
#: Durations that are read at each end of a query; a text with more is a log.
_MOST_UNITS = 8
#: How far from a duration its clause is read, in words.
_FAR = 40


@dataclass(frozen=True, slots=True)
class Deadline:
    """A deadline in milliseconds, and its words: `end` is the place after them."""

    ms: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Clause:
    """A duration with its clause's words around it; `last` is after the clause."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    first: int
    last: int


def find_deadline(text: str, query: Sequence[Word], hurry: Sequence[FoundPhrase], terms: DeadlineTable) -> Deadline | None:
    """Return the shortest deadline that a query sets, or None.

    One that would leave no other word to ask for is none. Of many durations the first and last 8 are read.
    """
    units = [i for i, word in enumerate(query) if word.key in terms.units]
    deadlines = [
        deadline
        for i in (*units[:_MOST_UNITS], *units[_MOST_UNITS:][-_MOST_UNITS:])
        for deadline in _read_limits_at(text, query, i, terms)
    ]
    for phrase in hurry:
        # At its last unbroken run of words: of "find ... quickly" the last word, the others belong to the demand.
        start = end = phrase.at[-1]
        while start - 1 in phrase.at:
            start -= 1
        deadlines.append(Deadline(HURRY_MS, start, end + 1))
    deadlines = [deadline for deadline in deadlines if deadline.end - deadline.start < len(query)]
    return min(deadlines, key=lambda d: d.ms, default=None)


def _read_limits_at(text: str, query: Sequence[Word], unit: int, terms: DeadlineTable) -> list[Deadline]:
    """Return [the deadline of this unit's duration]; [] for none.

    None for a duration without an amount, of 0, or of over 10 minutes, and for one that is all a closing question asks about.
    """
    start, amount = _read_amount(text, query, unit, terms)
    ms = round(amount * terms.units[query[unit].key]) if amount < _LONGEST_MS else 0
    if start == unit or not 0 < ms <= _LONGEST_MS:
        return []
    clause = _find_clause(query, start, unit + 1)
    if 0 < clause.first == start and unit + 1 == len(query) and "?" in text[query[unit].end :]:
        return []
    span = _find_span(query, clause, start, unit + 1, terms)
    return [Deadline(ms, *span)] if span else []


def _read_amount(text: str, query: Sequence[Word], unit: int, terms: DeadlineTable) -> tuple[int, float]:
    """Return where a unit's amount begins, and the amount.

    It is a number, or the product of up to 5 number words. The place is that of the unit itself where no amount is before it.
    """
    amount, start, i = 1.0, unit, unit - 1
    while i >= max(0, unit - _MOST_NUMBERS) and query[i].clause == query[unit].clause:
        word = query[i]
        if word.key == NUMBER:
            return i, amount * _parse_number(text[word.start : word.end])
        factor = terms.numbers.get(word.key)
        if factor is None:
            break
        if factor > 0:
            amount, start = amount * factor, i
        i -= 1
    return start, amount


def _parse_number(digits: str) -> float:
    """Return the number of 1.5, 1,5 or 1,500.

    A comma before three digits separates thousands. Infinity for a text with more points or commas than a number has.
    """
    integer, comma, part = digits.partition(",")
    try:
        return float(integer + part if comma and len(part) == 3 and integer != "0" else digits.replace(",", "."))
    except ValueError:
        return float("inf")


def _find_clause(query: Sequence[Word], start: int, end: int) -> _Clause:
    number, first, last = query[start].clause, start, end
    while first > max(0, start - _FAR) and query[first - 1].clause == number:
        first -= 1
    while last < min(len(query), end + _FAR) and query[last].clause == number:
        last += 1
    keys = [word.key for word in query[first:last]]
    return _Clause(tuple(keys[: start - first]), tuple(keys[end - first :]), first, last)


def _find_span(query: Sequence[Word], clause: _Clause, start: int, end: int, terms: DeadlineTable) -> tuple[int, int] | None:
    """Return a deadline's first place and the one after its last.

    None if the duration sets none. It includes the demand or limit that sets it: a demand to reply, a clause of its own, a
    granted time, an added limit, or a limit at the query's edge. None for durations that are past, a minimum, known already, or
    asked about by yes or no.
    """
    words_before, after = clause.before, clause.after
    if after and after[0] in terms.ago:
        return None
    if terms.over & {*words_before[-_BESIDE:]} and not terms.denied & {*words_before}:  # a least: "tests that need more than 5 s"
        return None
    reply = _find_reply_demand(words_before, terms)
    run_length = _run(after, terms)
    tight = start - _run(reversed(words_before), terms), end + run_length
    if reply is not None:
        while reply > 0 and words_before[reply - 1] in terms.joins:
            reply -= 1
        return clause.first + reply, tight[1]
    if _says_nothing_else(query, clause, terms) or _leads_sentence(query, clause, terms):
        return clause.first, clause.last
    words_after_run = after[run_length:]
    is_over = not words_after_run or after[0] in terms.next or words_after_run[0] in terms.next | terms.joins | terms.asks
    if is_over and terms.has & {*words_before} and {*words_before} <= terms.limits | terms.company:  # "you have half a second"
        is_own = len(query) > clause.last - clause.first and not {*after} & (terms.replies | terms.asks)
        return clause.first, (clause.last if is_own else tight[1])
    if words_before[-1:] and words_before[-1] in terms.past | terms.known:
        return None
    if query[0].key in terms.polar and {*words_before[:1]} <= terms.polar and not terms.you & {*words_before[:2]}:
        return None
    added = _find_added_limit(query, clause, terms)
    if added is not None:
        return clause.first + added, clause.last
    return tight if _is_edge(query, clause, tight[0], terms) or _is_parenthesis(clause, tight, terms) else None


def _find_added_limit(query: Sequence[Word], clause: _Clause, terms: DeadlineTable) -> int | None:
    """Return where a limit added to a demand begins; None without.

    It is in the words before a duration, in the same clause. As in "list the threads but stop after 1 s". None for none; the
    number of these words for a limit behind the duration.
    """
    words_before, usual = clause.before, terms.limits | terms.company
    if clause.last != len(query) or not {*clause.after} <= usual | terms.next:
        return None
    first = len(words_before)
    while first > 1 and words_before[first - 1] in usual:
        first -= 1
    for at in range(first, len(words_before)):
        limit_words = {*words_before[at:], *clause.after}
        is_limit = bool(limit_words & (terms.limits | terms.has | terms.replies)) or bool(terms.bounds & {*clause.after})
        if words_before[at] in terms.adds and is_limit:
            return at if _is_demand(query, words_before[:at], terms) else None
    is_bare = not words_before[-1:] or words_before[-1] not in terms.limits | terms.inside
    return len(words_before) if is_bare and terms.limits & {*clause.after} and _is_demand(query, words_before, terms) else None


def _opening(query: Sequence[Word], demand_words: tuple[str, ...], terms: DeadlineTable) -> set[str]:
    is_polite = bool(terms.polar & {*demand_words[:1]} and terms.you & {*demand_words[1:2]})
    return {query[0].key, *demand_words[:1], *(demand_words[2:3] if is_polite else ())}


def _is_demand(query: Sequence[Word], demand_words: tuple[str, ...], terms: DeadlineTable) -> bool:
    """No demand is "find the query that takes 2 s"."""
    opening = _opening(query, demand_words, terms)
    if opening & terms.asks:
        return not terms.measured & {*demand_words[-2:]}
    return bool(opening & terms.questions and not terms.measured & {*demand_words})


def _is_parenthesis(clause: _Clause, tight: tuple[int, int], terms: DeadlineTable) -> bool:
    """As in "tell me in 2 s which port it is"."""
    demand_words = {*clause.before[: tight[0] - clause.first]}
    limits = {*clause.before[tight[0] - clause.first :]}
    usual = terms.limits | terms.company | terms.asks
    following = clause.after[tight[1] - clause.last + len(clause.after) :]
    is_told = demand_words <= usual and bool({*demand_words, *following[:1]} & terms.asks)
    return bool(demand_words and following) and is_told and bool(limits & (terms.bounds | terms.limits))


def _run(keys: Iterable[str], terms: DeadlineTable) -> int:
    count = 0
    for key in keys:
        if key not in terms.limits and key not in terms.inside and key not in terms.next:
            break
        count += 1
    return count


def _find_reply_demand(words_before: tuple[str, ...], terms: DeadlineTable) -> int | None:
    """Up to 6 words, all usual beside limits, may follow the demand."""
    allowed = terms.limits | terms.company | terms.after
    for i in range(len(words_before) - 1, max(-1, len(words_before) - 2 - _MOST_BETWEEN), -1):
        if words_before[i] in terms.replies and (i == 0 or words_before[i - 1] in terms.joins):
            return i if i + 1 < len(words_before) else None
        if words_before[i] not in allowed:
            return None
    return None


def _says_nothing_else(query: Sequence[Word], clause: _Clause, terms: DeadlineTable) -> bool:
    """Return whether a duration's clause says nothing but a limit.

    As "max 1 second:" or "within 2 s please". A bare duration counts at the query's beginning or end, before a word such as
    "then", or after a clause of such words.
    """
    words, usual = {*clause.before, *clause.after}, terms.limits | terms.company
    following = query[clause.last].key if clause.last < len(query) else ""
    if clause.first == 0 and words and words <= terms.inside and following in terms.asks | terms.questions:
        return True
    if not words <= usual or (clause.before[:1] and clause.before[0] in terms.questions):
        return False
    if words:
        is_dropped = bool(words & terms.over and words & terms.denied)
        return is_dropped or bool(words & (terms.limits | terms.bounds | terms.replies))
    last = clause.first - 1
    words_of_clause = {w.key for w in query[max(0, last - _MOST_BETWEEN) : clause.first] if w.clause == query[last].clause}
    is_after_limit = last >= 0 and words_of_clause <= usual
    is_last = {word.key for word in query[clause.last :]} <= terms.company
    return clause.first == 0 or is_last or following in terms.then or is_after_limit


def _leads_sentence(query: Sequence[Word], clause: _Clause, terms: DeadlineTable) -> bool:
    """But for few words: "no longer than 1 s, ..."."""
    words_before, after = clause.before, clause.after
    usual = terms.limits | terms.company
    if (
        clause.first > 0
        or clause.last == len(query)
        or not words_before
        or words_before[0] not in usual
        or words_before[-1] in terms.past
    ):
        return False
    strange = [word for word in (*words_before, *after) if word not in usual]
    if len(strange) > max(1, len(words_before + after) // _MOST_STRANGE) or {*strange} & (terms.measured | terms.questions):
        return False
    is_asked = query[clause.last].key in terms.asks | terms.questions
    clause_words = {*words_before, *after}
    is_dropped = bool(clause_words & terms.over and clause_words & terms.denied)
    return is_dropped or bool(clause_words & terms.limits - terms.nouns) or (not strange and is_asked)


def _is_edge(query: Sequence[Word], clause: _Clause, start: int, terms: DeadlineTable) -> bool:
    """Return whether a limit opens or closes the query.

    When it closes it, it is not the length of something else. At the beginning something must be asked for next, or no measured
    thing follow; at the end the words before must be a demand or hold a word for a limit, and no measured thing.
    """
    words_before, after = clause.before, clause.after
    limits = words_before[start - clause.first :]
    if start == 0:
        run_length = _run(after, terms)
        limit_words = {*limits, *after[:run_length]}
        is_fact = bool(terms.measured & {*after[:_BESIDE], *after[run_length : run_length + _BESIDE]})
        is_asked = bool({*after[:2]} & (terms.asks | terms.questions))
        return is_asked or (not is_fact and bool(limit_words & terms.limits - terms.nouns))
    is_closing = clause.last == len(query) and {*after} <= terms.limits | terms.next
    if not is_closing or not {*limits} & terms.inside:
        return False
    demand_words = words_before[: start - clause.first]
    if _opening(query, demand_words, terms) & terms.asks:
        return not terms.measured & {*demand_words[-2:]}
    return bool({*limits} & terms.limits - terms.nouns) and not terms.measured & {*demand_words}
