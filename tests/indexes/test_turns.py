"""Builds of many memories wait for each other."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.indexes.build import BuildSlots
from tests.waiting import PATIENCE


def test_no_more_than_so_many_have_a_turn_at_a_time() -> None:
    turns, lock = BuildSlots(2), threading.Lock()
    both, at_once, most = threading.Barrier(2), 0, 0

    def build(number: int) -> None:
        nonlocal at_once, most
        with turns.wait_turn(lambda: False):
            with lock:
                at_once += 1
                most = max(most, at_once)
            # Each waits until another has a turn beside it.
            both.wait(timeout=PATIENCE)
            with lock:
                at_once -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(build, range(6)))
    assert most == 2


def test_who_ends_while_it_waits_gets_no_turn() -> None:
    turns = BuildSlots(1)
    with turns.wait_turn(lambda: False), pytest.raises(LayerUnavailable), turns.wait_turn(lambda: True):
        pytest.fail("a second turn beside the only one")
    with turns.wait_turn(lambda: True):
        pass
