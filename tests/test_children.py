"""What child processes and bulk work share."""

import gc
import os
import threading

import pytest

from memory_mcp import children
from memory_mcp.children import few_collections
from tests.waiting import PATIENCE


def test_garbage_is_collected_as_before_when_the_last_of_several_threads_has_ended_its_bulk_work() -> None:
    before = gc.get_threshold()
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with few_collections():
            inside.set()
            leave.wait(PATIENCE)

    with few_collections():
        assert gc.get_threshold() > before
        thread = threading.Thread(target=work)
        thread.start()
        inside.wait(PATIENCE)
    # This one has left, the other has not.
    assert gc.get_threshold() > before
    leave.set()
    thread.join(PATIENCE)
    assert gc.get_threshold() == before


def test_only_a_child_ends_with_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    children.end_without_parent()
    monkeypatch.setattr(children, "_parent", 2)
    with pytest.raises(EOFError):
        children.end_without_parent()
