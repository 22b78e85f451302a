"""A command that stores waits for what it stored, and not for what others go on writing."""

import threading
from concurrent.futures import ThreadPoolExecutor

from bench.place import Place
from tests.daemon.inside import Beside
from tests.daemon.places import NO_INDEXES, needs_proc
from tests.daemon.test_commands import lines
from tests.daemon.test_lines import Raw, remember
from tests.waiting import PATIENCE

pytestmark = needs_proc
PLACES, KIND = NO_INDEXES, Beside


def test_an_ingest_ends_while_a_client_goes_on_writing(place: Place) -> None:
    """The client writes until the command has ended: it is always behind a write that came later."""
    place.ok("ingest", "-", stdin=lines(20, "before"))
    ended = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not ended.is_set():
            assert "result" in client.ask(remember(written + 1, f'"Berth {written} is taken from now on."'))
            written += 1

    client = Raw(place)
    writer = threading.Thread(target=write)
    writer.start()
    with ThreadPoolExecutor(1) as beside:
        try:
            done = beside.submit(place.run, "ingest", "-", stdin=lines(40, "more")).result(PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"still waiting behind {written} later writes") from error
        finally:
            ended.set()
            writer.join()
            client.end()
    assert done.returncode == 0, done.stderr
    assert written > 0
    assert "40 new" in done.stdout
