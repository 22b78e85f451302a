"""Groups in, what they are called out: how often a label shares a word with the human title, and sheets for a reader.

A group's human title is that of the reference that most of its segments belong to. Rivals name the same groups from the same
texts. BERTopic's label is the four words of the greatest class-based TF-IDF, of the ten that it keeps; its formula and its
vectorizer's tokens (words of two characters or more, none left out) are written here again, so that it need not be installed.
The terms of k-means are those whose TF-IDF is greatest in the group's middle, English stop words left out. Words are compared
by their stems, stop words left out.
"""

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.quality.corpora import corpora_in
from bench.topics.references import Reference, unjudged
from memory_mcp.base.text import terms
from memory_mcp.indexes.topics.base import TopicName
from memory_mcp.indexes.topics.grouping import group_segments
from memory_mcp.indexes.topics.naming import name_topics
from memory_mcp.indexes.topics.reading import SegmentText, TextUnits

#: Corpora without references that the sheet draws from.
UNJUDGED = ("locomo", "lifebench-en", "lifebench-zh")
#: Segments of a topic that a reader sees, and characters of each.
_SAMPLES, _WIDTH = 6, 200
_TOKEN = re.compile(r"(?u)\b\w\w+\b")

_TASK = (
    "Mark each label by the segments below it: 3 just what I would call it, 2 right but loose or for a part of them, "
    "1 related, 0 wrong or not readable."
)

Topics = Sequence[Sequence[int]]


def topics_of(found: NDArray[np.int32]) -> list[list[int]]:
    """The documents of each group, by its number."""
    members: dict[int, list[int]] = defaultdict(list)
    for n, group in enumerate(found.tolist()):
        if group >= 0:
            members[group].append(n)
    return [members[group] for group in sorted(members)]


def named(reference: Reference, topics: Topics) -> list[TopicName]:
    """What the program calls the topics of a store."""
    inside = {n for topic in topics for n in topic}
    docs = [SegmentText(d.node.title, tuple(b.text for b in d.node.bullets), d.node.keywords) for d in reference.documents]
    return name_topics(TextUnits(docs), topics, [n for n in range(len(docs)) if n not in inside])


def table(reference: Reference, topics: Topics) -> str:
    """For each way to name the topics: the share of labels with a word of the human title, and how many words a label has."""
    titles = [_title(reference, topic) for topic in topics]
    texts = [d.gist for d in reference.documents]
    ours = named(reference, topics)
    by_class, by_middle = _by_class(texts, topics), _by_middle(texts, topics)
    rows = {
        "ours, label": [name.label for name in ours],
        "BERTopic, label (4 words)": [" ".join(found[:4]) for found in by_class],
        "k-means, 4 terms": [" ".join(found[:4]) for found in by_middle],
        "BERTopic, 3 words, as many as ours": [" ".join(found[:3]) for found in by_class],
        "k-means, 3 terms, as many as ours": [" ".join(found[:3]) for found in by_middle],
        "ours, keywords": [" ".join(name.keywords) for name in ours],
        "BERTopic, 10 words": [" ".join(found) for found in by_class],
        "k-means, 10 terms": [" ".join(found) for found in by_middle],
    }
    known = [n for n, title in enumerate(titles) if title]
    lines = [f"  {'labels of ' + str(len(known)) + ' groups with a human title':42}{'share':>7}{'words':>7}"]
    for name, labels in rows.items():
        content = [set(terms(labels[n])) for n in known]
        share = sum(bool(words & set(terms(titles[n]))) for words, n in zip(content, known, strict=True)) / max(len(known), 1)
        lines.append(f"  {name:42}{share:7.3f}{sum(map(len, content)) / max(len(known), 1):7.1f}")
    return "\n".join(lines)


def sheet(corpora: Mapping[str, Sequence[Reference]], count: int, seed: int) -> str:
    """Topics in an order drawn by lot, as many of each corpus, each with its label and some of its segments."""
    drawn = random.Random(seed)
    turns = [[entry for reference in found for entry in _entries(reference)] for found in corpora.values()]
    for entries in turns:
        drawn.shuffle(entries)
    chosen = [entry for turn in zip_longest(*turns) for entry in turn if entry][:count]
    drawn.shuffle(chosen)
    return "\n".join([_TASK, *(f"{n}. ___ {entry}" for n, entry in enumerate(chosen, start=1))])


def _entries(reference: Reference) -> Iterable[str]:
    material = reference.material()
    topics = topics_of(group_segments(material.rows(), material.before))
    for name, topic in zip(named(reference, topics), topics, strict=True):
        shown = [reference.documents[n].node for n in topic[:: max(1, len(topic) // _SAMPLES)][:_SAMPLES]]
        samples = [f"     - {node.title} | {node.summary}"[:_WIDTH].replace("\n", " ") for node in shown]
        yield "\n".join([f"{name.label}   ({len(topic)} segments)", *samples])


def stores(data: Path, folder: Path) -> dict[str, list[Reference]]:
    """The stores of the corpora that have no references, built once in `folder`."""
    read = {corpus: corpora_in(data, [corpus]).stores for corpus in UNJUDGED}
    return {corpus: [unjudged(name, told, folder) for name, told in sorted(own.items())] for corpus, own in read.items()}


def _title(reference: Reference, topic: Sequence[int]) -> str:
    told = Counter(reference.documents[n].reference for n in topic)
    told.pop("", None)
    return reference.titles.get(max(sorted(told), key=told.__getitem__), "") if told else ""


def _by_class(texts: Sequence[str], topics: Topics) -> list[list[str]]:
    """BERTopic's words: how often each stands in the class, by the words of the class, times log(1 + mean class / all)."""
    classes = [Counter(_TOKEN.findall(" ".join(texts[n] for n in topic).lower())) for topic in topics]
    total = sum(classes, Counter[str]())
    mean = total.total() / max(len(classes), 1)
    return [_greatest({w: n / c.total() * math.log(1 + mean / total[w]) for w, n in c.items()}) for c in classes]


def _by_middle(texts: Sequence[str], topics: Topics) -> list[list[str]]:
    """The terms of the middle of each group's TF-IDF rows of length 1."""
    rows = [Counter(terms(text)) for text in texts]
    held = Counter(term for row in rows for term in row)
    rarity = {term: math.log((1 + len(rows)) / (1 + count)) + 1 for term, count in held.items()}
    middles = []
    for topic in topics:
        middle: dict[str, float] = defaultdict(float)
        for n in topic:
            row = {term: times * rarity[term] for term, times in rows[n].items()}
            length = math.hypot(*row.values()) or 1.0
            for term, value in row.items():
                middle[term] += value / length
        middles.append(_greatest(middle))
    return middles


def _greatest(values: Mapping[str, float]) -> list[str]:
    return sorted(values, key=lambda word: (-values[word], word))[:10]
