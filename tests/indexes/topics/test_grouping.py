"""Groups of segments that are about the same, and where a new segment belongs."""

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from bench.topics.measures import measures
from memory_mcp.indexes.topics import grouping
from memory_mcp.indexes.topics.documents import hash_term, terms_of
from memory_mcp.indexes.topics.profiles import Profiles
from memory_mcp.indexes.topics.rows import Rows

#: What the segments of a theme name: eight of these each.
THEMES = ("billing", "garden", "engine", "novel")


def _named(theme: str, n: int) -> frozenset[str]:
    return frozenset(f"{theme}{(n * 3 + k) % 12}" for k in range(8)) | {"everywhere"}


def _store(themes: tuple[str, ...] = THEMES, each: int = 20) -> tuple[np.ndarray, list[frozenset[str]], list[str]]:
    """Segments of themes in turn: vectors near their theme's axis, terms of their theme, and which theme it is."""
    rng = np.random.default_rng(5)
    told = [theme for _ in range(each) for theme in themes]
    vectors = rng.normal(0, 0.15, (len(told), 32)).astype(np.float32)
    vectors[np.arange(len(told)), [themes.index(t) for t in told]] += 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, [_named(t, n // len(themes)) for n, t in enumerate(told)], told


def _rows(vectors: np.ndarray | None, named: Sequence[Collection[str]]) -> Rows:
    own = np.zeros((len(named), 0), dtype=np.float32) if vectors is None else vectors
    return Rows.of_terms([{hash_term(key) for key in keys} for keys in named], own)


def groups(vectors: np.ndarray | None, named: Sequence[Collection[str]], before: Sequence[int] | None = None) -> np.ndarray:
    return grouping.group_segments(_rows(vectors, named), before)


def profiles_of(vectors: np.ndarray | None, named: Sequence[Collection[str]], found: np.ndarray) -> Profiles:
    rows = _rows(vectors, named)
    return Profiles.from_rows(rows.with_topics(found, rows.relevance), int(found.max()) + 1)


def nearest(profiles: Profiles, vector: np.ndarray | None, named: Collection[str]) -> tuple[int, float] | None:
    topic, relevance = profiles.find_nearest(_rows(None if vector is None else vector[None, :], [named]))
    return (int(topic[0]), float(relevance[0])) if topic[0] >= 0 else None


def _mixed(found: np.ndarray, told: list[str]) -> set[int]:
    """Topics whose segments are of several themes."""
    return {t for t in set(found.tolist()) if t >= 0 and len({told[n] for n in np.flatnonzero(found == t)}) > 1}


@pytest.mark.parametrize("each", [6, 40])
def test_themes_are_told_apart(each: int) -> None:
    vectors, named, told = _store(each=each)
    found = groups(vectors, named)
    assert found.dtype == np.int32
    assert not _mixed(found, told)
    assert (found >= 0).all()
    sizes = np.bincount(found)
    assert sizes.min() >= 3
    assert (np.diff(sizes) <= 0).all(), "the largest is the first"


def test_terms_alone_are_enough() -> None:
    _, named, told = _store()
    found = groups(None, named)
    assert not _mixed(found, told)
    assert (found >= 0).all()


def test_meanings_alone_are_enough() -> None:
    vectors, named, told = _store()
    found = groups(vectors, _own_words(len(named)))
    assert not _mixed(found, told)
    assert (found >= 0).mean() > 0.9


def _own_words(count: int) -> list[frozenset[str]]:
    """A word for each segment that no other has."""
    return [frozenset({f"own{n}"}) for n in range(count)]


def test_the_same_segments_give_the_same_topics_however_they_are_written() -> None:
    vectors, named, _ = _store()
    again = groups(vectors.copy(), [frozenset(sorted(keys, reverse=True)) for keys in named])
    assert groups(vectors, named).tolist() == again.tolist()


def test_another_order_parts_themes_too() -> None:
    vectors, named, told = _store()
    order = np.random.default_rng(1).permutation(len(named))
    found = groups(vectors[order], [named[n] for n in order])
    assert not _mixed(found, [told[n] for n in order])


def test_texts_without_known_words_go_by_their_terms() -> None:
    vectors, named, told = _store()
    vectors[::5] = 0
    found = groups(vectors, named)
    assert not _mixed(found, told)
    assert (found >= 0).all()


def test_what_is_like_nothing_belongs_to_no_topic() -> None:
    vectors, named, told = _store(themes=THEMES[:2])
    vectors = np.concatenate([vectors, np.zeros((2, 32), dtype=np.float32)])
    found = groups(vectors, [*named, frozenset({"alone"}), frozenset()])
    assert found[-2:].tolist() == [-1, -1]
    assert not _mixed(found[:-2], told)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_a_topic_needs_are_none(count: int) -> None:
    assert groups(None, [frozenset({"same", "terms"})] * count).tolist() == [-1] * count


@pytest.mark.parametrize("with_vectors", [True, False])
def test_segments_without_words_have_no_topic_and_change_none_whatever_they_stand_beside(with_vectors: bool) -> None:
    """All of them have one meaning, that of "1 message", and follow each other in a session: they melt nothing together."""
    vectors, named, told = _store()
    garden, count = told.index("garden"), len(named)
    before = [-1] * count + [garden, *range(count, count + 299)]
    empty = np.tile(vectors[garden], (300, 1)) if with_vectors else None
    given = np.concatenate([vectors, empty]) if empty is not None else None
    found = groups(given, [*named, *[frozenset[str]()] * 300], before)
    assert (found[count:] == -1).all()
    assert found[:count].tolist() == groups(vectors if with_vectors else None, named).tolist()
    profiles = profiles_of(vectors, named, found[:count])
    assert nearest(profiles, vectors[garden], frozenset()) is None, "nor is one placed later"


def test_a_word_follows_the_words_before_a_segment_without_any() -> None:
    _, named, told = _store()
    garden, count = told.index("garden"), len(named)
    found = groups(None, [*named, frozenset(), frozenset({"alone"})], [-1] * count + [garden, count])
    assert found[-2:].tolist() == [-1, found[garden]]


@pytest.mark.parametrize("with_vectors", [True, False])
def test_a_new_segment_goes_where_grouping_would_put_it(with_vectors: bool) -> None:
    vectors, named, told = _store()
    given = vectors if with_vectors else None
    whole = groups(given, named)
    kept = np.arange(0, len(named) - 8)
    found = groups(None if given is None else given[kept], named[: len(kept)])
    profiles = profiles_of(None if given is None else given[kept], named[: len(kept)], found)
    for n in range(len(kept), len(named)):
        best = nearest(profiles, None if given is None else given[n], named[n])
        assert best is not None
        topic, relevance = best
        assert {told[m] for m in np.flatnonzero(found == topic)} == {told[n]}
        assert 0 < relevance <= 1
    assert not _mixed(whole, told)


def test_what_fits_no_topic_is_given_none() -> None:
    vectors, named, _ = _store()
    profiles = profiles_of(vectors, named, groups(vectors, named))
    assert nearest(profiles, np.zeros(32, dtype=np.float32), frozenset({"unheard", "of"})) is None
    assert nearest(profiles, np.zeros(32, dtype=np.float32), _named("garden", 1)) is not None
    assert nearest(profiles_of(vectors, named, np.full(len(named), -1, dtype=np.int32)), vectors[0], named[0]) is None


def test_a_segment_names_what_tells_and_not_what_everybody_says() -> None:
    named = terms_of("Fix the login_guard and OAuth retries")
    assert {hash_term("login_guard"), hash_term("oauth")} <= named.keys()
    assert not named.keys() & {hash_term("the"), hash_term("and")}


def test_two_characters_at_a_time_tell_where_there_are_no_blanks() -> None:
    """A run of characters is seldom said twice: the same two characters are."""
    said, asked = terms_of("周末去超市购物清单"), terms_of("购物")
    assert asked.keys() <= said.keys()
    assert not terms_of("养蜂").keys() & said.keys()


def _noisy(seed: int) -> list[frozenset[str]]:
    """Segments of twelve themes, each naming three terms of its own theme and three of any."""
    rng = np.random.default_rng(seed)
    return [
        frozenset(
            [f"t{n % 12}-{k}" for k in rng.choice(12, 3, replace=False)]
            + [f"t{t}-{k}" for t, k in zip(rng.integers(0, 12, 3), rng.integers(0, 12, 3), strict=True)]
        )
        for n in range(300)
    ]


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_topics_depend_little_on_the_order_of_segments(seed: int) -> None:
    """Of communities from one beginning .83 to .90 is left by another order."""
    named = _noisy(seed)
    found = groups(None, named)
    order = np.random.default_rng(0).permutation(len(named))
    again = np.empty_like(found)
    again[order] = groups(None, [named[n] for n in order])
    assert measures(found, [str(t) for t in again.tolist()]).one[1] > 0.915


def test_many_small_themes_become_no_more_topics_than_a_person_looks_at() -> None:
    """150 of 4,000 segments, by the third root 95 of 1,000: here 200 themes of five segments, with words of any theme beside."""
    rng = np.random.default_rng(2)
    named = [frozenset({f"theme{n % 200}"}) | {f"any{k}" for k in rng.choice(40, 6, replace=False)} for n in range(1000)]
    found = groups(None, named)
    assert 30 <= found.max() + 1 <= 110
    themes = [{n % 200 for n in np.flatnonzero(found == t)} for t in range(found.max() + 1)]
    assert sum(map(len, themes)) == 200, "no theme is split"


def test_topics_of_a_corpus_are_as_fine_beside_any_number_of_others_and_of_a_project_beside_its_like() -> None:
    """Alone 300 segments of one kind have some thirty topics; beside 2,700 of nine other kinds they had a third of them."""
    alone = _noisy(3)
    others = [frozenset(f"kind{kind} {term}" for term in terms) for kind in range(9) for terms in _noisy(10 + kind)]
    found = groups(None, alone)
    mixed = groups(None, [*alone, *others])[: len(alone)]
    assert len(set(mixed.tolist())) == pytest.approx(found.max() + 1, rel=0.1)
    assert measures(mixed, [str(t) for t in found.tolist()]).one[1] > 0.9


def test_too_few_for_a_topic_go_where_they_fit() -> None:
    _, named, told = _store()
    pair = frozenset(f"pair{k}" for k in range(6))
    found = groups(None, [*named, pair | {"garden1", "garden2"}, pair | {"garden2", "garden5"}])
    for topic in found[-2:]:
        assert {told[n] for n in np.flatnonzero(found[:-2] == topic)} == {"garden"}


def test_what_all_meanings_have_in_common_tells_nothing() -> None:
    """Vectors of one model lean one way: a text that does only that is like none of the topics."""
    vectors, named, _ = _store()
    leaning = vectors + 3 * np.ones(32, dtype=np.float32) / 32**0.5
    leaning /= np.linalg.norm(leaning, axis=1, keepdims=True)
    nothing = _own_words(len(named))
    profiles = profiles_of(leaning, nothing, groups(leaning, nothing))
    assert profiles.fits(_rows(leaning[:1], [()])).max() > 0.15
    assert profiles.fits(_rows(leaning.mean(axis=0)[None, :], [()])).max() < 0.1
