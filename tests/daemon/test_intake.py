"""Payloads that come over HTTP are written without their secrets, also where hooks hand theirs over the local door."""

import json
from pathlib import Path

import pytest

from memory_mcp.daemon.intake import Intake
from memory_mcp.ingest.payloads import Payloads

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def written(spool: Path) -> bytes:
    (file,) = (spool / "new").iterdir()
    return file.read_bytes()


def test_a_payload_over_http_is_written_without_its_secrets(tmp_path: Path) -> None:
    Intake(str(tmp_path / "spool")).take("json", b'{"text": "the token is ' + TOKEN.encode() + b'"}')
    head, _, rest = written(tmp_path / "spool").partition(b"\n")
    assert json.loads(rest) == {"text": "the token is [REDACTED:github]"}
    assert "raw" not in json.loads(head)


def test_a_payload_over_http_is_kept_where_the_rules_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Payloads, "clean", lambda *_: 1 / 0)
    Intake(str(tmp_path / "spool")).take("json", b"{}")
    head, _, rest = written(tmp_path / "spool").partition(b"\n")
    assert (json.loads(head)["raw"], rest) == (True, b"{}")
