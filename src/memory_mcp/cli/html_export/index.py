"""The inverted index inside an HTML file: from texts of numbered segments to JSON safe within a script element. Pure."""

import json
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

from memory_mcp.base.text import STOPWORDS
from memory_mcp.cli.html_export.words import terms

#: Words that tell no text from another, as terms.
_STOP = frozenset().union(*map(terms, STOPWORDS))
#: Terms on one line of the file.
_TERMS_A_LINE = 200
#: What ends a script, a comment or a line in HTML or JavaScript, as JSON may write it.
_MEANS = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


class Index:
    """Postings: the numbers of the segments that contain each term, in order of time."""

    def __init__(self) -> None:
        """Begin without postings."""
        self._places: dict[str, array[int]] = {}

    def add(self, number: int, text: str) -> None:
        """Add the terms of a text to the postings of segment `number`, but stop words; numbers must never decrease."""
        for term in terms(text):
            if term in _STOP:
                continue
            found = self._places.get(term)
            if found is None:
                self._places[term] = array("I", [number])
            elif found[-1] != number:
                found.append(number)

    def lines(self, segments: Sequence[str]) -> Iterator[str]:
        """Yield the index as one JSON object, in pieces; `segments` are the segment ids by their numbers.

        Its fields: of (the root's id), segments, stop (stop words), and terms, by term the number of
        its first segment and the difference of each further one to the one before, terms sorted.
        """
        yield f'{{"of":"toc:root","segments":{as_data(list(segments))},\n"stop":{as_data(sorted(_STOP))},\n"terms":{{\n'
        names = sorted(self._places)
        for start in range(0, len(names), _TERMS_A_LINE):
            row = []
            for name in names[start : start + _TERMS_A_LINE]:
                places = self._places[name]
                steps = [places[0], *(after - before for before, after in pairwise(places))]
                row.append(f"{as_data(name)}:{as_data(steps)}")
            yield ",".join(row) + (",\n" if start + _TERMS_A_LINE < len(names) else "\n")
        yield "}}"


def as_data(value: object) -> str:
    """Return JSON for a script element that holds data: nothing in it ends the element or begins a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_MEANS)
