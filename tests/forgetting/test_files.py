"""Files beside the store, cleaned while hooks and the daemon work in the same folders."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.base import machine
from memory_mcp.capture.tombstones import ForgetRequest, Tombstones
from memory_mcp.forgetting.files import DataFiles
from tests.files import read_files
from tests.ingest.test_restating import sketches

VALUE = "Project Bluefin-77"


@pytest.mark.parametrize(("origin", "target"), [("tmp", "new"), ("new", "bad")])
def test_a_payload_that_moves_on_while_others_are_looked_through_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str, target: str
) -> None:
    for folder in ("tmp", "new", "bad"):
        (tmp_path / "spool" / folder).mkdir(parents=True)
    payload = tmp_path / "spool" / origin / "1-1"
    payload.write_text(f"it is called {VALUE}", encoding="utf-8")
    iter_files = machine.iter_files

    def list_and_move(folder: str | os.PathLike[str]) -> Iterator[tuple[str, os.stat_result]]:
        entries = [*iter_files(folder)]
        if entries and Path(folder).name == origin:
            payload.rename(tmp_path / "spool" / target / payload.name)
        return iter(entries)

    monkeypatch.setattr(machine, "iter_files", list_and_move)
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[VALUE]))
    assert DataFiles(tmp_path, tombstones).remove_forgotten()["payloads"] == 1
    assert read_files(tmp_path / "spool") == {}


def test_payloads_go_that_say_a_forgotten_text_again_also_cut_off_and_those_with_a_line_of_it_stay(tmp_path: Path) -> None:
    text = 'We agreed on Monday that the pump is painted green,\nand that the "old" valve behind the ferry house stays shut.'
    bad = tmp_path / "spool" / "bad"
    bad.mkdir(parents=True)
    (bad / "whole").write_text(
        f'{{"v": 1}}\n{json.dumps({"session_id": "s1", "cwd": "/home/u", "prompt": text})}', encoding="utf-8"
    )
    (bad / "cut").write_text(f'{{"v": 1}}\n{json.dumps({"prompt": text})[:-12]}', encoding="utf-8")
    (bad / "other").write_text(json.dumps({"prompt": f"Why is this so:\n{text.splitlines()[0]}\nNobody told the crew."}))
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(sketches=sketches(tombstones, text)))
    assert DataFiles(tmp_path, tombstones).remove_forgotten()["payloads"] == 2
    assert [path.name for path in read_files(tmp_path / "spool")] == ["other"]
