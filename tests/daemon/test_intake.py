"""Payloads that come over HTTP are written without their secrets, also where hooks hand theirs over the local door."""

import json
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.capture.payloads import PayloadCleaner
from memory_mcp.service.daemon.intake import Intake
from tests.daemon.inside import BARE, Inside
from tests.daemon.places import needs_proc

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


def written(spool: Path) -> bytes:
    (file,) = (spool / "new").iterdir()
    return file.read_bytes()


def test_a_payload_over_http_is_written_without_its_secrets(tmp_path: Path) -> None:
    Intake(str(tmp_path / "spool")).take_payload("json", b'{"text": "the token is ' + TOKEN.encode() + b'"}')
    head, _, rest = written(tmp_path / "spool").partition(b"\n")
    assert json.loads(rest) == {"text": "the token is [REDACTED:github]"}
    assert "raw" not in json.loads(head)


def test_a_payload_over_http_is_kept_where_the_rules_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PayloadCleaner, "clean_payload", lambda *_: 1 / 0)
    Intake(str(tmp_path / "spool")).take_payload("json", b"{}")
    head, _, rest = written(tmp_path / "spool").partition(b"\n")
    assert (json.loads(head)["raw"], rest) == (True, b"{}")


@needs_proc
def test_what_a_killed_daemon_was_writing_goes_with_the_next_start_and_a_hook_s_own_file_stays(beside: Place) -> None:
    Inside(beside.root, more=BARE).ok("query", "root")
    aside = beside.directory / "spool" / "tmp"
    aside.mkdir(parents=True, exist_ok=True)
    names = [f"{number:020d}-0123456789abcdef-claude-code" for number in range(2)]
    (aside / f"{names[0]}.daemon").write_bytes(b"half")
    (aside / names[1]).write_bytes(b"half")
    beside.ok("daemon", "start")
    assert [file.name for file in aside.iterdir()] == [names[1]]
