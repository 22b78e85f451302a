"""get_retrieval_status: one call that says what works."""

from contextlib import closing

from memory_mcp.app import App
from memory_mcp.indexes.settings import IndexSettings, TeleportSettings
from memory_mcp.search.layers.base import CONTRACTS
from tests.factories import BILLING, SHOP
from tests.interaction.conftest import Door, history, open_app
from tests.requirements import requirement


@requirement("policy:FR-01", "policy:FR-02", "policy:FR-03", "us:US-04", "contract:tier-5-agentic")
def test_one_call_reports_every_layer_the_tier_and_what_the_store_holds(shop: Door, shared_app: App) -> None:
    found = shop.ok("get_retrieval_status")
    assert (found["tier"], found["name"]) == (5, "Agentic")
    assert {layer["name"]: (layer["enabled"], layer["healthy"]) for layer in found["layers"]} == {
        "agentic": (True, True),
        "bm25": (True, False),
        "vector": (True, False),
        "hybrid": (True, False),
        "topics": (True, False),
    }
    assert all(layer["healthy"] or layer["reason"] for layer in found["layers"])
    assert found["embedder"] == "none"
    assert found["project"] == SHOP
    store = found["store"]
    assert store["events"] == len(history())
    assert store["segments"] == shared_app.tree.tally().segments
    assert store["first"] == "2026-01-20T09:00:00+01:00"
    assert store["last"] == "2026-02-24T15:03:00+01:00"
    assert store["timezone"] == "Europe/Berlin"


def test_a_layer_that_is_off_names_what_enables_it(era: str) -> None:
    with closing(open_app(days=None, teleport=TeleportSettings(bm25=IndexSettings(enabled=False)))) as app:
        layers = Door(app, era).ok("get_retrieval_status")["layers"]
    [bm25] = [layer for layer in layers if layer["name"] == "bm25"]
    assert bm25 == {
        "name": "bm25",
        "enabled": False,
        "healthy": False,
        "count": 0,
        "reason": "disabled (teleport.bm25.enabled = false)",
        "enable_with": "teleport.bm25.enabled = true",
    }


@requirement("contract:agentic-declared", "contract:toc-declared")
def test_full_detail_gives_each_layers_contract_and_the_known_names(shop: Door) -> None:
    found = shop.ok("get_retrieval_status", detail="full")
    assert [layer["name"] for layer in found["layers"]][:2] == ["toc", "agentic"]
    for layer in found["layers"]:
        wanted = next(c for name, c in CONTRACTS.items() if name == layer["name"])
        assert layer["contract"] == {
            "strength": wanted.strength,
            "weakness": wanted.weakness,
            "failure_mode": wanted.failure_mode,
            "safe_fallback": wanted.safe_fallback,
        }
    assert found["store"]["projects"] == [BILLING, SHOP]
    assert found["store"]["agents"] == ["claude-code", "codex"]


def test_events_not_filed_yet_are_counted_as_lag(own: Door) -> None:
    assert own.ok("get_retrieval_status")["lag"] == {"events": 0}
    own.ok("remember", text="Deploys happen on Tuesdays.")
    assert own.ok("get_retrieval_status")["lag"] == {"events": 1}
