"""The program's own keys are taken out of everything that is stored, by value."""

import json
import secrets
from pathlib import Path

import pytest

from memory_mcp.base import paths
from memory_mcp.capture.payloads import PayloadCleaner
from tests.daemon.inside import BARE, Inside

#: No rule would take it for a secret.
PLAIN = "morning-coffee-in-the-harbor"


def stored(place: Inside, text: str) -> str:
    event = {"session_id": "s", "timestamp": 1_790_000_000_000, "role": "user", "text": text, "metadata": {"note": text}}
    place.ok("ingest", "-", stdin=json.dumps(event) + "\n")
    return place.ok("query", "events", "--all", "--json")


@pytest.mark.parametrize("kept", ["token", "share/key", "setting", "variable"])
def test_an_own_key_is_stored_nowhere_whatever_it_looks_like(tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"MEMORY_MCP_SERVER__HTTP_TOKEN": PLAIN} if kept == "setting" else {}
    more |= {"MEMORY_MCP_SHARE_KEY": PLAIN} if kept == "variable" else {}
    place = Inside(tmp_path, more=BARE | more)
    if "/" in kept or kept == "token":
        file = place.directory / kept
        file.parent.mkdir(parents=True, exist_ok=True)
        place.directory.chmod(0o700)
        file.write_text(f"{PLAIN}\n")
    out = stored(place, f"walnut curl -H 'X: {PLAIN}' https://localhost")
    assert "walnut" in out
    assert PLAIN not in out
    for name in more:
        monkeypatch.setenv(name, PLAIN)
    clean = PayloadCleaner(str(place.directory)).clean_payload(json.dumps({"prompt": f"walnut {PLAIN}"}).encode())
    assert PLAIN.encode() not in clean
    assert b"walnut" in clean


def test_a_key_that_comes_later_is_known_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_mcp.redact import own_secrets

    now = [0.0]
    monkeypatch.setattr(own_secrets, "monotonic", lambda: now[0])
    own = own_secrets.OwnSecrets(str(tmp_path))
    assert not own.occur_in(PLAIN)
    Path(paths.token_file(str(tmp_path))).write_text(PLAIN)
    now[0] += 2
    assert own.occur_in(PLAIN)


def test_the_key_of_a_team_goes_wherever_it_stands(tmp_path: Path) -> None:
    key = f"mmk_7_{secrets.token_hex(8)}_{secrets.token_hex(32)}"
    place = Inside(tmp_path, more=BARE)
    out = stored(place, f"walnut my key_{key} and {key}, test {key}")
    assert key.rpartition("_")[2] not in out
