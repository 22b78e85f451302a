"""Conversations of other clients and services: every kind of record, by our own samples and the events they must give."""

import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.capture.finding import find_owners
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import RECORD, EventDraft
from tests.examples import examples
from tests.ingest.suite import outcome, peak, plain, read
from tests.ingest.suite_sessions import chatgpt_conversation, claude_ai_conversation

pytestmark = pytest.mark.usefixtures("home")

SAMPLES = Path(__file__).parent / "samples"
#: A member's samples; of a database its rows, of an export what lies in it.
FILES = {
    "amp": ("T-0199aaaa-bbbb-7ccc-8ddd-eeee00000001.json", "T-0199aaaa-bbbb-7ccc-8ddd-eeee00000002.json"),
    "continue": ("3b1f0000-0000-4000-8000-000000000001.json",),
    "chatgpt": ("conversations.json",),
    "claude-ai": ("conversations.json",),
    "cursor": (
        "global.json",
        "workspace.json",
        "agent-transcripts/e5a10000-0000-4000-8000-000000000001.jsonl",
        "agent-transcripts/e5a10000-0000-4000-8000-000000000001/subagents/f000.jsonl",
    ),
    "markdown": ("Harbour.md", "2026-03-05 log.md", "plain.md"),
}
PAIRS = [(name, file) for name, files in FILES.items() for file in files]


def folder_of(name: str) -> Path:
    return SAMPLES / name.replace("-", "_")


def database(told: dict[str, Any], file: Path) -> Path:
    """A database of Cursor's with the rows that a sample tells."""
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as con, con:
        for table in ("ItemTable", "cursorDiskKV"):
            con.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            rows = [(key, None if value is None else json.dumps(value).encode()) for key, value in told[table].items()]
            con.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
    return file


def laid_out(name: str, file: str, folder: Path) -> Path:
    """A sample as its importer meets it."""
    source = folder_of(name) / file
    if name == "markdown":
        shutil.copytree(folder_of(name), folder / "notes", ignore=shutil.ignore_patterns("*.json"))
        return folder / "notes" / file
    if name != "cursor" or source.suffix == ".jsonl":
        return source
    told = json.loads(source.read_text(encoding="utf-8"))
    if "folder" not in told:
        return database(told, folder / "User" / "globalStorage" / "state.vscdb")
    made = database(told, folder / "User" / "workspaceStorage" / "ws1" / "state.vscdb")
    made.with_name("workspace.json").write_text(json.dumps({"folder": told["folder"]}))
    return made


def owner_of(file: Path) -> str | None:
    return dict(find_owners([make(IngestSettings()) for make in IMPORTERS.values()], [file]))[file]


def spelled(draft: EventDraft) -> dict[str, Any]:
    """As `plain`; of a note also without the place of its file."""
    told = plain(draft)
    if draft.agent == "markdown":
        told["session_id"] = Path(draft.session_id).name
        told["source_id"] = draft.source_id.split(":")[-2]
        told["metadata"].pop("files")
        told.pop("project", None)
    return {name: value for name, value in told.items() if value not in ("", {})}


def outcome_of(name: str, file: Path, settings: IngestSettings | None = None) -> dict[str, Any]:
    return outcome(*read(IMPORTERS[name](settings or IngestSettings()), file), spelled)


@pytest.mark.parametrize(("name", "file"), PAIRS)
def test_a_sample_gives_its_expected_events_each_at_a_time_of_its_own_and_no_picture_or_injected_file(
    name: str, file: str, tmp_path: Path
) -> None:
    expected = (folder_of(name) / file).with_suffix(".expected.json")
    found = outcome_of(name, laid_out(name, file, tmp_path))
    assert found == json.loads(expected.read_text(encoding="utf-8"))
    assert not any(w in json.dumps(found) for w in ("AAAA", "secret file body", "def total(): ...", "Preferred name"))
    # Events are ordered by their time: equal ones would lose their order.
    places = [(e["session_id"], e["timestamp"]) for e in found["events"] if e.get("timestamp")]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(("name", "file"), PAIRS)
def test_thinking_is_kept_on_request_and_moves_no_id_and_no_time(name: str, file: str, tmp_path: Path) -> None:
    place = laid_out(name, file, tmp_path)
    without, with_it = (outcome_of(name, place, IngestSettings(include_thinking=keep)) for keep in (False, True))
    added = [event for event in with_it["events"] if event not in without["events"]]
    assert [event for event in with_it["events"] if event not in added] == without["events"]
    assert all(event["metadata"][RECORD] == "thinking" for event in added)
    # In transcripts of Cursor only a mark stands for what was thought.
    thoughts = sum(without[key].get("thinking", 0) for key in ("skipped", "left_out"))
    assert len(added) == (0 if place.suffix == ".jsonl" else thoughts)


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai"])
@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_export_is_read_from_its_archive(name: str, packed: int, tmp_path: Path) -> None:
    source = folder_of(name) / "conversations.json"
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", packed) as made:
        made.writestr("data/user.json", "[]" * 500)
        made.write(source, "data/conversations-000.json")
    importer = IMPORTERS[name](IngestSettings())
    assert outcome_of(name, archive) == outcome_of(name, source)
    assert list(importer.iter_files(tmp_path)) == [archive]
    assert owner_of(archive) == name


class _Pipe:
    """Where an archive is written that cannot be written back into, as a server sends it."""

    def __init__(self, file: Path) -> None:
        self._stream = file.open("wb")

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()


def test_an_archive_that_was_sent_while_it_was_made_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "export.zip"
    with zipfile.ZipFile(_Pipe(file), "w", zipfile.ZIP_DEFLATED) as made:  # type: ignore[call-overload]
        made.writestr("user.json", "{}" * 100)
        made.writestr("conversations.json", (folder_of("chatgpt") / "conversations.json").read_bytes())
    assert owner_of(file) == "chatgpt"


def test_an_archive_of_something_else_counts_as_unreadable_when_it_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as made:
        made.writestr("a.png", b"x")
    (tmp_path / "broken.zip").write_bytes((tmp_path / "photos.zip").read_bytes()[:-30])
    importer = IMPORTERS["chatgpt"](IngestSettings())
    assert list(importer.iter_files(tmp_path)) == []
    assert owner_of(tmp_path / "photos.zip") == ""
    with pytest.raises(OSError, match=r"holds no conversations\.json"):
        list(importer.read_file(tmp_path / "photos.zip", 0, ImportReport()))


_LEAVES = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans()
_WORDS = st.sampled_from(
    "user assistant tool system human info text code thoughts multimodal_text execution_output thinking tool_use tool_result done"
    ' error in-progress summary message a b c {"command":1} \ud800 2026-03-02T09:00:00Z all file:///c%3A/x file://[ '.split()
)
_NAMES = st.sampled_from(
    "id v created title env initial trees uri repository platform messages role content type text meta sentAt usage run result"
    " status toolUseID name input messageId state fileMentions files summary message history sessionId workspaceDirectory"
    " toolCalls toolCallStates toolCall function arguments output contextItems reasoning promptLogs mapping author recipient"
    " metadata parent children parts create_time current_node content_type attachments chat_messages sender uuid created_at"
    " parent_message_uuid extracted_content file_name a b c".split()
)
_ANY = st.recursive(
    _LEAVES | _WORDS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=6), max_leaves=25
)
_TOPS = {"amp": "messages", "continue": "history", "chatgpt": "mapping", "claude-ai": "chat_messages"}


@examples(10)
@given(values=st.lists(_ANY, max_size=5), rest=st.dictionaries(_NAMES, _ANY, max_size=4))
@pytest.mark.parametrize("name", sorted(_TOPS))
def test_nothing_that_a_conversation_holds_raises(
    name: str, values: list[Any], rest: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    held: Any = {f"{n}": {"parent": f"{n - 1}", **(v if isinstance(v, dict) else {"message": v})} for n, v in enumerate(values)}
    file = tmp_path_factory.getbasetemp() / f"{name}.json"
    file.write_text(json.dumps({**rest, _TOPS[name]: held if name == "chatgpt" else values}))
    assert outcome_of(name, file) == outcome_of(name, file)


@pytest.mark.parametrize("packed", [False, True])
def test_how_far_an_export_is_read_is_told_with_every_conversation(packed: bool, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([chatgpt_conversation(3, name=f"c{n}") for n in range(50)]))
    if packed:
        with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as made:
            made.write(file, "conversations.json")
        file = tmp_path / "export.zip"
    reached = [step.offset for step in IMPORTERS["chatgpt"](IngestSettings()).read_file(file, 0, ImportReport())]
    assert reached == sorted(set(reached))
    assert 0.9 * file.stat().st_size < reached[-1] <= file.stat().st_size


@pytest.mark.parametrize(("name", "make"), [("chatgpt", chatgpt_conversation), ("claude-ai", claude_ai_conversation)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.few(2)
@pytest.mark.usefixtures("processes")
def test_memory_holds_a_conversation_and_never_the_export(name: str, make: Any, packed: bool, tmp_path: Path) -> None:
    """Ours: 30 MB more of one line cost at most 16 MB more of memory, loose or in an archive."""
    peaks = []
    for size in (2, 150):
        file = tmp_path / f"{size}" / "conversations.json"
        file.parent.mkdir()
        with file.open("w", encoding="utf-8") as stream:
            for n in range(size):
                stream.write((", " if n else "[") + json.dumps(make(20, "words " * 1700 + "of", f"c{n}")))
            stream.write("]")
        if packed:
            with zipfile.ZipFile(file.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                archive.write(file, "conversations.json")
            file.unlink()
            file = file.with_suffix(".zip")
        events, most = peak(name, file)
        assert events == 20 * size
        peaks.append(most)
    assert peaks[1] - peaks[0] <= 16
