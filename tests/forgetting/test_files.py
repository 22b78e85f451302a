"""Files beside the store, cleaned while hooks and the daemon work in the same folders."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp import machine
from memory_mcp.forgetting.files import Files
from memory_mcp.ingest.tombstones import Tombstones, Wanted
from tests.files import read_files

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
    tombstones.add(Wanted(values=[VALUE]))
    assert Files(tmp_path, tombstones).sweep()["payloads"] == 1
    assert read_files(tmp_path / "spool") == {}
