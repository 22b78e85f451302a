"""Read the kind of a text as a whole: that of its most durable sentence."""

from functools import lru_cache

from memory_mcp.model.toc import KIND_SALIENCE, MemoryKind
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import find_spans

#: Characters of a quotation read for its kind: somewhat more than the longest stored grip.
_READ = 1200
#: Quotations whose kinds are cached, about 400 bytes each: successive questions find the same memories.
_CACHED = 2000
_KINDS = frozenset(k.value for k in MemoryKind)


@lru_cache(maxsize=_CACHED)
def read_kind(words: str, author_kind: str = "") -> str:
    """Return the most durable kind of `words`, or the author's.

    "" for an observation. The first 1200 characters are read.
    """
    if author_kind in _KINDS:
        return author_kind if author_kind != MemoryKind.OBSERVATION else ""
    text = words[:_READ]
    sentences = (text[s.start : s.end] for s in find_spans(text))
    # No cues are sought: but for a question mark a kind depends on none of them.
    kind = max((kind_of(s, cues_of(s, 0)) for s in sentences), key=KIND_SALIENCE.__getitem__, default=MemoryKind.OBSERVATION)
    return "" if kind is MemoryKind.OBSERVATION else kind.value
