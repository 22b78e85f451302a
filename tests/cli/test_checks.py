"""What doctor says of a store, by its state."""

from memory_mcp.app import App
from memory_mcp.cli.checks import store
from memory_mcp.cli.checks.base import Opened
from memory_mcp.config import load
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.tree.derive.derivation import Depth

AT = 1_772_442_000_000


def said(n: int) -> EventDraft:
    return EventDraft("s1", Role.USER, EventType.USER_MESSAGE, f"The harbour has {n} lanterns.", AT + n * 60_000)


def states(app: App) -> dict[str, tuple[str, str]]:
    opened = Opened(app.storage, app.calendar, app.settings, AT)
    return {check.name: (check.state, check.text) for check in store.check_store(opened)}


def test_a_period_that_waits_to_be_rolled_up_is_no_failure_of_the_tree() -> None:
    app = App(load(flags={}), in_memory=True)
    try:
        app.write([said(0)], "jsonl")
        app.derivation.run()
        assert states(app)["pending"] == ("ok", "every event is filed in the tree")
        app.write([said(n) for n in range(1, 4)], "jsonl")
        assert states(app)["pending"][0] == "warn"
        app.derivation.run(Depth.SEGMENTS)
        found = states(app)
        assert found["tree"] == ("ok", "every invariant holds")
        assert found["pending"][0] == "ok"
        assert "period" in found["pending"][1]
    finally:
        app.close()
