"""Read a phrase at a place of a text: a range, a bound, or a point in time."""

import re
from dataclasses import replace

from memory_mcp.model.calendar import TimeWindow
from memory_mcp.question.timehints.language import Language, compile_form, head_of
from memory_mcp.question.timehints.points import (
    BACK,
    INSIDE,
    PAIR_LEADS,
    PLAIN_LEADS,
    POSSESSIVES,
    RESOLVERS,
    FoundTime,
    PointResolver,
    Resolver,
)
from memory_mcp.question.timehints.windows import DAY, Windows

#: A window takes as long as trying so many forms, about 10 us.
RESOLVING = 15


class TimeReader(PointResolver):
    """Reads one language's phrases; a method returns None where there is none."""

    def __init__(self, text: str, windows: Windows, language: Language) -> None:
        super().__init__(text, windows, language)
        #: What reading cost so far: forms that were tried.
        self.effort = 0
        self._read: dict[tuple[int, str], FoundTime | None] = {}
        self._known: dict[int, list[tuple[Resolver, re.Match[str]]]] = {}

    def read_time(self, i: int, head: str) -> FoundTime | None:
        """Return a range, else a bound, else a point at this head."""
        if head not in self._words.openers and not self._match_forms(self._behind_article(i)):
            return None
        self.effort += 4  # pair, bound, lead and article
        return self._read_range(i) or self._read_bound(i) or self._read_led_point(i)

    def _read_led_point(self, i: int) -> FoundTime | None:
        m = self._words.lead.match(self._text, i)
        lead = self._words.leads[m[1].lower()] if m else ""
        begin, lead = m.end() if m else i, "" if lead == "between" else lead
        a = self.read_point(begin, lead)
        joint = self._words.conjunction.match(self._text, a.end) if a else None
        b = self.read_point(joint.end(), "of" if lead in PLAIN_LEADS else lead) if joint else None
        return (a and b and self._join_points(a, b, lead)) or a

    def _read_range(self, i: int) -> FoundTime | None:
        """Return the range of "between A and B" or "from A to B"."""
        m = self._words.pair.match(self._text, i)
        kind = self._words.pairs[m[1].lower()] if m else ""
        begin, lead = (m.end(), "between") if m else (i, "to")
        a = self.read_point(begin, lead)
        joint = (self._words.conjunction if kind == "between" else self._words.joint).match(self._text, a.end) if a else None
        b = self.read_point(joint.end(), lead) if joint else None
        if not a or not joint or not b or not (m or self.read_point(i, "") or self.read_point(joint.end(), "")):
            return None
        time_range = None if b.needs_day else self._join_points(a, b, lead)
        return replace(time_range, start=i) if time_range else None

    def _join_points(self, a: FoundTime, b: FoundTime, lead: str) -> FoundTime | None:
        """Return the range of two points; None if it is empty."""
        if a.floating and (lead in PAIR_LEADS or not b.floating):  # the Friday before that Monday, the January of that year
            a = TimeReader(self._text, self._on.seen_from(b.window.start_ms), self._words).read_point(a.start, lead) or a
        start, end = min(a.first_ms, b.first_ms), max(a.last_ms, b.last_ms)
        return FoundTime(TimeWindow(start, end), a.start, b.end) if start < end else None

    def _read_bound(self, i: int) -> FoundTime | None:
        """Return the time since, before, after or until a point."""
        m = self._words.bound.match(self._text, i)
        kind = self._words.bounds[" ".join(m[1].lower().split())] if m else ""
        if kind in {"before", "after"} and self._words.unit_before.search(self._text[max(0, i - BACK) : i]):
            return None  # "two days before yesterday"
        point = self.read_point(m.end(), kind) if m else None
        if not point:
            return None
        tomorrow = self._on.calendar.midnight_of(self._on.today + DAY)
        start = {"since": point.first_ms, "after": point.last_ms}.get(kind, 0)
        end = {"before": point.first_ms, "until": point.last_ms}.get(kind, tomorrow)
        return FoundTime(TimeWindow(start, end), i, point.end) if start < end else None

    def read_point(self, i: int, lead: str) -> FoundTime | None:
        """Return the time at a place after a leading word, read once."""
        if (i, lead) not in self._read:
            self._read[i, lead] = self._resolve_forms(i, lead)
        return self._read[i, lead]

    def _resolve_forms(self, i: int, lead: str) -> FoundTime | None:
        """Return the first time that a form at a place gives."""
        for resolve, m in self._match_forms(self._behind_article(i)):
            self.effort += 3
            try:
                point = resolve(self, m, lead)
            except (ValueError, OverflowError, OSError):
                continue
            if isinstance(point, TimeWindow):
                point = FoundTime(point, i, m.end(), m.groupdict("").get("fixed") == "")
            if point:
                self.effort += RESOLVING
                end = point.end + 2 * self._text.startswith(POSSESSIVES, point.end)
                return self._add_clock(replace(point, start=i, end=end)) if lead not in INSIDE else replace(point, start=i)
        return None

    def _match_forms(self, i: int) -> list[tuple[Resolver, re.Match[str]]]:
        matches_here = self._known.get(i)
        if matches_here is None:
            forms = self._words.forms.get(head_of(self._text, i), ())
            self.effort += len(forms)
            matches_here = self._known[i] = [
                (RESOLVERS[f.resolver], m) for f in forms if (m := compile_form(f.text)(self._text, i))
            ]
        return matches_here

    def _behind_article(self, i: int) -> int:
        article = self._words.articles.match(self._text, i)
        return article.end() if article else i
