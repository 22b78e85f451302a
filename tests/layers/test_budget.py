"""The bounds of a search: counted exactly, never overrun where they are named, and handed out in shares."""

import random

import pytest

from memory_mcp.indexes.base import IndexQuery
from memory_mcp.search.layers.base import Query
from memory_mcp.search.layers.budget import SINCE, Budget, StopConditions, leave_out
from memory_mcp.search.layers.teleport import FoundHits, MessageLayer
from tests.fakes import FakeClock
from tests.policy.hits import hit
from tests.requirements import requirement


def budget(strict: bool = False, named: tuple[str, ...] = (), **bounds: int) -> Budget:
    return Budget(StopConditions(**bounds), FakeClock(), strict=strict, hard=frozenset(named))


def test_a_default_is_exceeded_once_by_at_most_half_and_only_while_nothing_was_found() -> None:
    soft = budget(max_nodes_visited=10, max_rpc_calls=4)
    assert soft.visit_nodes(40) == 15
    assert (soft.spent.exceeded, soft.spent.hit) == ("max_nodes_visited", ["max_nodes_visited"])
    assert [soft.count_call() for _ in range(6)] == [True] * 4 + [False] * 2, "one bound only"
    found = budget(max_nodes_visited=10)
    found.spent.satisfied = True
    assert (found.visit_nodes(40), found.spent.exceeded) == (10, "")


def test_a_layer_shows_what_an_earlier_one_visited_wherever_it_ranks_it_though_no_node_is_left() -> None:
    spent = budget(strict=True, max_nodes_visited=3)

    def ranked(names: str) -> list[str]:
        """Search with a layer that ranks these, and return what it shows."""

        class Ranks(MessageLayer):
            def search_messages(self, query: IndexQuery) -> FoundHits:
                return FoundHits(tuple(map(hit, names)), len(names), 0.0)

        return [one.quote for one in Ranks().search(Query("queue"), spent).hits]

    assert ranked("abc") == ["a", "b", "c"]
    assert ranked("cdaeb") == ["c", "a", "b"]
    assert spent.spent.nodes_visited == 3


@requirement("policy:bound-max_nodes_visited")
def test_a_bound_that_the_caller_names_is_never_exceeded() -> None:
    named = budget(named=("max_nodes_visited",), max_nodes_visited=3, max_rpc_calls=2)
    assert named.visit_nodes(4) == 3
    assert named.visit_nodes(1) == 0
    assert (named.spent.exceeded, named.spent.nodes_visited, named.spent.hit) == ("", 3, ["max_nodes_visited"])
    assert [named.count_call() for _ in range(4)] == [True, True, True, False], "the other is a default"


def test_an_attempt_leaves_the_later_ones_their_share() -> None:
    whole = budget(strict=True, max_nodes_visited=100, max_rpc_calls=10, timeout_ms=1000)
    first = whole.take_share(0.5)
    assert (first.visit_nodes(100), first.visit_nodes(1)) == (50, 0)
    assert [first.count_call() for _ in range(6)] == [True] * 5 + [False]
    assert whole.spent.hit == ["max_nodes_visited", "max_rpc_calls"]
    second = whole.take_share(0.5)
    assert (second.visit_nodes(100), whole.take_share(1.0).visit_nodes(100), whole.visit_nodes(1)) == (25, 25, 0)
    assert whole.spent.nodes_visited == 100


def test_what_a_path_of_an_attempt_uses_counts_for_the_attempt_and_the_search() -> None:
    whole = budget(strict=True, max_nodes_visited=100)
    attempt = whole.take_share(0.3)
    assert (attempt.branch_path().visit_nodes(20), attempt.branch_path(500).visit_nodes(20)) == (20, 10)
    assert (attempt.nodes_left(), whole.nodes_left(), whole.spent.nodes_visited) == (0, 70, 30)


def test_an_attempt_ends_with_its_part_of_the_time_and_the_search_goes_on() -> None:
    clock = FakeClock()
    whole = Budget(StopConditions(timeout_ms=1000), clock)
    first = whole.take_share(0.4)
    path = first.branch_path()
    clock.advance(0.5)
    assert (first.out_of_time(), path.out_of_time(), path.count_call()) == (True, True, False)
    assert not whole.out_of_time()
    last = whole.take_share(1.0)
    assert last.left_ms() == pytest.approx(500)
    assert last.count_call()


def test_an_attempt_may_use_everything_once_it_has_found_something_where_none_follows_then() -> None:
    clock = FakeClock()
    whole = Budget(StopConditions(max_nodes_visited=100, timeout_ms=1000), clock)
    first = whole.take_share(0.4, until_found=True)
    assert first.visit_nodes(100) == 40
    whole.spent.satisfied = True
    clock.advance(0.6)
    assert (first.visit_nodes(100), first.out_of_time(), whole.spent.nodes_visited) == (60, False, 100)


def test_the_smallest_bounds_still_give_the_first_attempt_something() -> None:
    whole = budget(strict=True, max_nodes_visited=1, max_rpc_calls=1)
    first = whole.take_share(0.25)
    assert (first.visit_nodes(5), first.count_call()) == (1, True)
    assert (
        whole.take_share(0.5).visit_nodes(5),
        whole.take_share(1.0).count_call(),
        whole.spent.nodes_visited,
        whole.spent.rpc_calls,
    ) == (0, False, 1, 1)


def test_cancelling_a_search_cancels_what_was_made_of_it_and_nothing_else() -> None:
    whole = budget()
    attempt = whole.take_share(0.5)
    path, other = attempt.branch_path(), whole.branch_path()
    attempt.cancel()
    assert (attempt.is_cancelled(), path.is_cancelled(), other.is_cancelled(), whole.is_cancelled()) == (True, True, False, False)


@pytest.mark.parametrize("nodes", [1, 3])
def test_no_order_of_attempts_overruns_a_named_bound(nodes: int) -> None:
    rng = random.Random(nodes)
    for _ in range(300):
        whole = budget(named=("max_nodes_visited", "max_rpc_calls"), max_nodes_visited=nodes, max_rpc_calls=nodes)
        for _ in range(6):
            path = rng.choice(
                [
                    whole,
                    whole.take_share(rng.random() + 0.01),
                    whole.take_share(0.5, until_found=True).branch_path(),
                ]
            )
            path.visit_nodes(rng.randrange(8))
            path.count_call()
            whole.spent.satisfied |= rng.random() < 0.3
        assert whole.spent.nodes_visited <= nodes
        assert whole.spent.rpc_calls <= nodes
        assert whole.spent.exceeded == ""


def test_time_that_is_left_out_does_not_count() -> None:
    clock = FakeClock()
    token = SINCE.set(clock.monotonic())
    try:
        clock.advance(2.0)
        leave_out(1.5)
        assert Budget(StopConditions(timeout_ms=1000), clock).left_ms() == pytest.approx(500)
    finally:
        SINCE.reset(token)
    leave_out(1.0)
    assert SINCE.get() is None
