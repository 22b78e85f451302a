"""What `bench.topics` says of labels: how often they share a word with a human title, and the sheet a reader marks."""

import numpy as np

from bench.topics.labels import sheet, table, topics_of
from bench.topics.references import Document, Reference
from memory_mcp.indexes.topics.documents import hash_term
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import segment_id
from memory_mcp.model.toc import TocNode


def _document(n: int, theme: str) -> Document:
    node = TocNode(segment_id("2025-01-01", n), TocLevel.SEGMENT, n, n, f"About the {theme} again", f"The {theme}", (), (theme,))
    return Document(n, node, f"About the {theme} again", frozenset({hash_term(theme)}), "session", theme, "held")


DOCUMENTS = tuple(_document(n, theme) for n, theme in enumerate(["cellar"] * 4 + ["orchard"] * 4))
STORE = Reference("made", DOCUMENTS, np.eye(8, dtype=np.float32), {"cellar": "The cellar", "orchard": "Fruit"}, "")


def test_a_label_hits_where_it_shares_a_word_with_the_title_of_most_of_its_segments() -> None:
    rows = {line[:44].strip(): line.split()[-2:] for line in table(STORE, topics_of(np.array([0] * 4 + [1] * 4))).splitlines()}
    assert rows["ours, label"] == ["0.500", "1.0"]
    assert rows["k-means, 4 terms"] == ["0.500", "1.0"]


def test_a_document_in_no_group_is_in_no_topic() -> None:
    assert topics_of(np.array([1, -1, 0, 1])) == [[2], [0, 3]]


def test_a_sheet_has_a_place_for_a_mark_a_label_and_samples_and_is_drawn_by_its_seed() -> None:
    text = sheet({"made": [STORE]}, 10, seed=1)
    assert text == sheet({"made": [STORE]}, 10, seed=1)
    assert "1. ___ " in text
    assert "cellar   (" in text
    assert "     - About the orchard again | The orchard" in text
