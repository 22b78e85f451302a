"""`try`: import transcripts and print cited answers of a real server; the memory is removed at the end unless it is kept."""

import argparse
import asyncio
import importlib.resources
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base import machine
from memory_mcp.base.errors import InvalidQuery, SourceUnreadable, StorageError
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, leaf, settings_file
from memory_mcp.install.base import local
from memory_mcp.install.command import DATA_DIR, NAME, claude_line, local_server

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from memory_mcp.requests.first_questions import Question


#: Most events of a trial (more would keep a newcomer waiting), and questions that are asked.
NEWEST, QUESTIONS = 5000, 3
_SOURCE = "claude-code"
_INDEXED = ("bm25", "vector")
#: Seconds that one call to the server may take.
_PATIENCE = 30.0
#: Seconds that the indexes may take until they can be asked, and between two looks at them.
_READY, _LOOK = 30.0, 0.1
#: Tokens that a quotation with its conversation may have: it is shown to a person.
_EXPANDED = 4000


def add_try(parsers: Subparsers, about: str) -> None:
    aside = "Works offline. Without PATH your own Claude Code transcripts are used if you agree, else a sample set."
    parser = leaf(parsers, "try", run_try, about, aside)
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="file or folder of transcripts")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the memory in this directory")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--own", action="store_true", help="use ~/.claude/projects without asking")
    which.add_argument("--sample", action="store_true", help="use the sample set")


def run_try(args: argparse.Namespace) -> int:
    started = time.monotonic()
    keep = args.keep or getattr(args, "data_dir", None)
    kept_directory = Path(keep).expanduser().absolute() if keep else None
    with _source(args) as (label, path), _data_dir(kept_directory) as directory:
        built = _build(args, directory, path)
        render.err("starting the server and asking it ...")
        answers = _ask(args, directory, built.pop("_questions"), built.pop("_indexed"))
    data = {
        "source": label,
        **built,
        "questions": answers,
        "kept": str(kept_directory) if kept_directory else None,
        "seconds_in_all": round(time.monotonic() - started, 1),
        "client_config": {"mcpServers": {NAME: local(local_server(kept_directory))}},
        "claude_code": claude_line(kept_directory),
    }
    if as_json(args):
        render.out_json(data, recalled=True)
        return 0
    render.emit(False, {}, list(_story(data)), recalled=True)
    lines = ["", "=" * render.WIDTH, f"That took {data['seconds_in_all']} seconds."]
    if kept_directory:
        lines += [f"This memory is kept in {kept_directory}. For Claude Code to use it:", "", f"  {data['claude_code']}", ""]
    lines.append("To give your clients a memory of your own history: memory-mcp setup")
    render.emit(False, {}, lines)
    return 0


# ---- what is imported, and where to


@contextmanager
def _source(args: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    if args.path is not None:
        if args.own or args.sample:
            raise InvalidQuery("PATH goes without --own and --sample")
        yield f"your transcripts in {args.path}", args.path.expanduser()
        return
    own_transcripts = Path.home() / ".claude" / "projects"
    count = 0 if args.sample else sum(path.endswith(".jsonl") for path, _ in machine.iter_files(own_transcripts))
    if args.own and not count:
        raise SourceUnreadable(f"there are no transcripts in {own_transcripts}", "Name another folder, or use --sample.")
    if count and (args.own or _ask_consent(own_transcripts, count)):
        yield f"your transcripts in {own_transcripts}", own_transcripts
        return
    with importlib.resources.as_file(importlib.resources.files("memory_mcp.samples").joinpath("projects")) as sample:
        yield "the sample transcripts (three invented projects)", sample


def _ask_consent(folder: Path, count: int) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    render.err(f"Found {render.plural(count, 'transcript')} in {folder}.")
    render.err("Use the newest of them for this trial? They stay on this machine, in a temporary directory.")
    try:
        return input("Use them? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


@contextmanager
def _data_dir(kept_directory: Path | None) -> Iterator[Path]:
    if kept_directory is not None:
        yield kept_directory
        return
    directory = Path(tempfile.mkdtemp(prefix="memory-mcp-try-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        render.err(f"removed the temporary memory {directory} (--keep DIR keeps one)")


def _build(args: argparse.Namespace, directory: Path, path: Path) -> dict[str, Any]:
    from memory_mcp.app import App
    from memory_mcp.cli.bulk import Here
    from memory_mcp.cli.commands.daemon import stop
    from memory_mcp.cli.commands.import_ import AUTO, Work, build, read_share, shares_at
    from memory_mcp.cli.import_report import report_shape
    from memory_mcp.config import load
    from memory_mcp.importers.base import ImportReport
    from memory_mcp.requests.first_questions import first_questions
    from memory_mcp.service.client import link

    stop(link.Wanted(str(directory.absolute())))
    app = App(load(flags={"storage.data_dir": str(directory)}, file=settings_file(args)))
    try:
        memory = Here(app)
        shares = shares_at(memory, AUTO if args.path else _SOURCE, path)
        render.err(f"importing {path} ...")
        report = ImportReport()
        with Work(sum(share.size for share in shares)) as work:
            for share in shares:
                report.add_report(read_share(memory, share, NEWEST, work))
            seconds = build(memory, work)
        if not app.tree.tally().segments:
            raise SourceUnreadable(f"nothing to remember was found in {path}", "Name another folder, or use --sample.")
        stats = app.storage.get_stats()
        built = app.holdings() | {"grips": stats.rows.get("grip", 0), "nodes": stats.rows.get("node", 0)}
        built["first"], built["last"] = (app.calendar.day_of(ms or 0) for ms in (stats.first_ms, stats.last_ms))
        return {
            "import": report_shape(report, seconds),
            "built": built,
            "_questions": first_questions(app, QUESTIONS),
            "_indexed": [name for name in _INDEXED if app.accelerators.find_searcher(name) is not None],
        }
    finally:
        app.close()


# ---- the questions, through the real server


def _ask(
    args: argparse.Namespace, directory: Path, questions: "Sequence[Question]", indexed: Sequence[str]
) -> list[dict[str, Any]]:
    from memory_mcp.cli.commands.daemon import stop
    from memory_mcp.service.client import link

    environment = {name: value for name, value in os.environ.items() if name.startswith(("MEMORY_MCP_", "PYTHON", "TZ"))}
    environment[DATA_DIR] = str(directory)
    if (file := settings_file(args)) is not None:
        environment["MEMORY_MCP_CONFIG"] = str(file.absolute())
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            return asyncio.run(_session(environment, questions, indexed, log))
        except Exception as error:
            log.seek(0)
            log_text = render.one_line(log.read()[-400:]) or "nothing"
            root: BaseException = error
            while isinstance(root, BaseExceptionGroup):
                root = root.exceptions[0]
            text = f"the server could not be asked ({type(root).__name__}: {root}); it said: {log_text}"
            raise StorageError(text, "Run: memory-mcp doctor") from error
        finally:
            stop(link.Wanted(str(directory.absolute())))


async def _session(
    environment: dict[str, str], questions: "Sequence[Question]", indexed: Sequence[str], log: Any
) -> list[dict[str, Any]]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = ["-P", "-m", "memory_mcp", "serve"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with Client(stdio_client(server, errlog=log), read_timeout_seconds=_PATIENCE) as client:
        end = time.monotonic() + _READY
        # Answers are possible without the indexes too.
        while time.monotonic() < end:
            layers = _content(await client.call_tool("get_retrieval_status", {}))["layers"]
            if all(layer["healthy"] for layer in layers if layer["name"] in indexed):
                break
            await asyncio.sleep(_LOOK)
        answers = []
        for question in questions:
            arguments = {"query": question.text, "limit": 1, "scope": "all", "detail": "full"}
            response = _content(await client.call_tool("intelligent_search", arguments))
            answer: dict[str, Any] = {"question": question.text, **response}
            grips = response["results"][0]["grip_ids"] if response["results"] else []
            if grips:
                expand = {"grip_id": grips[0], "before": 1, "after": 1, "token_budget": _EXPANDED}
                answer["expanded"] = _content(await client.call_tool("expand_grip", expand))
            answers.append(answer)
        return answers


def _content(result: "CallToolResult") -> dict[str, Any]:
    if result.is_error or not isinstance(result.structured_content, dict):
        raise StorageError(" ".join(getattr(c, "text", "") for c in result.content) or "the tool gave no answer")
    return {k: v for k, v in result.structured_content.items() if k != "origin"}


# ---- what is shown


def _story(data: dict[str, Any]) -> Iterator[str]:
    built, done = data["built"], data["import"]
    counts = [render.plural(built[k], k[:-1]) for k in ("events", "sessions", "segments")]
    yield from render.wrap_text(
        f"A memory made from {data['source']}: {', '.join(counts)} in {render.plural(len(built['projects']), 'project')}, "
        f"{built['first']} to {built['last']}; {render.plural(built['nodes'], 'node')} in the time tree, "
        f"{render.plural(built['grips'], 'quotation')}."
    )
    if done["cut"]:
        yield f"Only the newest {NEWEST:,} events were read; memory-mcp import reads all of them."
    if done["redacted"]:
        yield f"Secrets redacted before storing: {', '.join(f'{c} {rule}' for rule, c in done['redacted'].items())}."
    for number, answer in enumerate(data["questions"], 1):
        yield from ("", "=" * render.WIDTH)
        yield from render.wrap_text(f"Question {number}: {answer['question']}")
        yield from _answer_lines(answer)


def _answer_lines(answer: dict[str, Any]) -> Iterator[str]:
    why = answer["explanation"]
    yield ""
    used = f"tier {why['tier_used']}, {why['method_used']}, {render.plural(why['nodes_visited'], 'node')} visited"
    yield f"  Path ({used}, {why.get('elapsed_ms', 0)} ms)"
    for number, step in enumerate(why.get("path", ()), 1):
        yield f"    {number}. {step['label']}: searched {render.plural(step['searched'], 'node')}"
        if step.get("matched"):
            matched = render.one_line(render.gist(step["matched"]), 80)
            yield from render.wrap_text(f'matched "{matched}" (score {step["score"]:.2f})', "       ")
        yield from render.wrap_text(step["decision"], "       ")
    if not answer["results"]:
        yield "  Answer: nothing was found."
        return
    result = answer["results"][0]
    project = render.project_name(result.get("project", ""))
    yield from ("", f"  Answer ({render.minute(result['when'])}{', ' + project if project else ''})")
    yield from render.wrap_text(render.gist(result.get("title", "")), "    ")
    yield from render.wrap_text(f'"{render.one_line(result["quote"], 700)}"', "      ", "    > ")
    yield f"    [{result['grip_ids'][0]}]" if result["grip_ids"] else "    (no grip)"
    if "expanded" in answer:
        expanded = answer["expanded"]
        checked = "verified: stored word for word" if expanded["verified"] else "NOT verified"
        yield from ("", f"  In its conversation ({checked})")
        for mark, key in (("   ", "events_before"), (" > ", "excerpt_events"), ("   ", "events_after")):
            for event in expanded[key]:
                lead = f"   {mark}{event.get('when', '')[11:16]:5} {event.get('speaker') or event['role']:<9} "
                yield from render.wrap_text(render.one_line(event.get("text", ""), 230), " " * len(lead), lead)
