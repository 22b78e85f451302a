"""The commands, with what help says of each. A command's module is loaded when the command is named.

Loading them all costs three times what starting Python and reading a command line does.

Change here: add a command, its group in the help, or the answer to one that was removed.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

#: Options of every command that take a value.
_WITH_VALUE = ("--data-dir", "--config")
#: The group of commands that other packages add.
_ADMINISTRATION = "for the administration of a memory"

#: The module of this package and the line in the help, by command.
COMMANDS = {
    "try": ("try_", "see it work: import transcripts, ask three questions through the real server, show cited answers"),
    "setup": ("setup", "set up every client that is here, import what they keep, and answer a first question"),
    "install": ("install", "make a client use this memory: claude-code, codex, cursor and others, or all that are here"),
    "uninstall": ("install", "restore the client's configuration exactly"),
    "serve": ("daemon", "run the MCP server for one client on stdin and stdout, or for many over HTTP"),
    "daemon": ("daemon", "start, stop and look at the background process that serves all clients"),
    "import": ("import_", "import transcripts and other histories"),
    "watch": ("capture", "store what clients write into their own session files, while they write it"),
    "ingest": ("capture", "store events from a JSONL file or from standard input"),
    "pause": ("capture", "record nothing of a project, or of any, until it is resumed"),
    "resume": ("capture", "record a paused project again"),
    "exclude": ("capture", "never record a project, what names a path, or a tool; see what is excluded"),
    "hook": ("capture", "record a hook payload from standard input"),
    "ask": ("ask", "ask the memory a question; the policy picks the layers and says why"),
    "fix": ("recall", "show what ended an error here before, and what was tried in vain"),
    "how": ("recall", "show how a command works here: the call that succeeded last, and what failed before it"),
    "why": ("recall", "show why lines of a file are so, what was said about it, and who changed it for which request"),
    "handoff": ("recall", "show where a session stands, for another client: goal, done, decided, files, failing test, next step"),
    "hints": ("recall", "show what hooks told agents at their calls and what came of it; reject takes one out for good"),
    "rules": ("rules", "show instructions that you repeat as proposed rules; write one into CLAUDE.md, AGENTS.md and the like"),
    "search": ("tree", "search the nodes of the time tree for words"),
    "navigate": ("ask", "find something by walking the time tree, and show the path"),
    "open": ("show", "show the memory in a browser: today, calendar, tree, search, topics and status"),
    "query": ("tree", "read the time tree, events and quotations"),
    "today": ("days", "show where each project was left off, and what was recorded in the last 24 hours"),
    "timeline": ("days", "show days with their titles and what happened in them"),
    "show": ("show", "open anything by its id: a quotation, a message, a session, a topic, a day or any other node"),
    "refine": ("statements", "give segments and days better words: what is due, what to read, and writing it"),
    "teleport": ("retrieval", "jump to what was said by the keyword and vector indexes"),
    "topics": ("topics", "show what the memory is about: topics by importance, by words, and where they come up"),
    "projects": ("projects", "list the projects; alias shows two as one, undo takes that back"),
    "agents": ("projects", "list the agents with their activity"),
    "activity": ("days", "show how much was recorded on each day, by project and agent"),
    "correct": ("statements", "replace a recorded statement, which is shown as superseded from then on"),
    "retract": ("statements", "take a recorded statement back: it is no longer true, and nothing replaces it"),
    "retrieval": ("retrieval", "show how questions are answered"),
    "scheduler": ("upkeep", "show and steer the jobs that run by themselves"),
    "spend": ("upkeep", "show what the summarizer's language model was asked and what that cost"),
    "forget": ("statements", "forget an event, a session, a project, a time, a topic or a value, for good"),
    "embedder": ("embedder", "look at the embedding model, fetch others, and choose one"),
    "admin": ("admin", "check and maintain the store"),
    "export": (
        "exchange",
        "write the memory as JSONL or Markdown, which import takes back, or as one HTML file to read",
    ),
    "merge": ("exchange", "take what another memory or a backup has into this one, without duplicates"),
    "sync": ("exchange", "keep this memory and those of other machines in step through a folder they share"),
    "backup": ("backup", "copy the memory into a folder or a file while it is in use; see and check the copies there are"),
    "restore": ("backup", "bring the memory back from a backup; what is there now is kept in a folder next to it"),
    "config": ("config", "show and check the settings"),
    "doctor": ("config", "check the installation and the store (exit status 1 when something fails)"),
}

#: What to use instead of a command that was removed.
REMOVED = {
    "browse": 'memory-mcp open shows the memory in a browser; timeline, show ID and ask "QUESTION" answer on a terminal',
    "project": "memory-mcp projects alias A B makes two one, projects undo A takes a change back; memory-mcp open splits one",
}

#: What help shows first, for people who are new here.
FIRST = ("setup", "ask", "open", "show", "forget", "doctor", "import", "install")
#: What a group of commands does without a further word: it shows its state, and changes nothing.
STATE_COMMANDS = {
    **{name: f"{name} status" for name in "daemon watch teleport topics retrieval scheduler embedder".split()},
    "exclude": "exclude list",
    "query": "query root",
    "refine": "refine due",
    "rules": "rules list",
    "admin": "admin stats",
    "config": "config show",
}

#: The groups in which help shows the rest, with the names of each group's commands.
GROUPS = {
    "to look around": ("today", "timeline", "search", "topics", "projects"),
    "before you act": ("fix", "how", "why", "handoff", "hints", "rules"),
    "to change what is stored or recorded": ("correct", "watch", "pause", "resume", "exclude"),
    "to look after it": ("backup", "restore", "export", "daemon", "config", "uninstall"),
}
#: What programs, agents and those who look after a memory use: named by help, described by the reference.
FURTHER = {
    "for programs and agents": ("serve", "hook", "ingest", "query", "refine", "retract"),
    "to see how a question is answered": ("navigate", "teleport", "retrieval"),
    _ADMINISTRATION: ("admin", "scheduler", "spend", "embedder", "agents", "activity", "merge", "sync", "try"),
}


class Command(NamedTuple):
    """A command that another package adds, by an entry point of memory_mcp.commands or memory_mcp.admin_commands."""

    about: str
    #: Its module, whose function `add` adds it with its arguments.
    module: str
    #: The group of `FURTHER` in which help names it.
    group: str = _ADMINISTRATION
    #: What it does without a further word; "": it needs one.
    state_command: str = ""
    #: Whether the daemon runs it on its open store.
    is_forwarded: bool = False


def list_added() -> Mapping[str, Command]:
    """Return the commands of other packages by name; reads entry points."""
    from memory_mcp.base import extensions

    return extensions.load_all(extensions.COMMANDS)


def describe_commands(argv: Sequence[str] | None = None) -> Mapping[str, str]:
    """Return what help says of each command.

    Of other packages only where `argv` is None or may mean one of them.
    """
    descriptions = {name: about for name, (_, about) in COMMANDS.items()}
    if argv is not None and "--all" not in argv and _first_word(argv) in ("", *COMMANDS):
        return descriptions
    return descriptions | {name: command.about for name, command in list_added().items()}


def _first_word(argv: Sequence[str]) -> str:
    """Return the first word that is neither an option nor its value."""
    words = iter(argv)
    for word in words:
        if word in _WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def group_further() -> Mapping[str, Sequence[str]]:
    """Return `FURTHER` with the commands of other packages."""
    added = list_added()
    return {title: (*names, *(n for n, c in added.items() if c.group == title)) for title, names in FURTHER.items()}


def state_command_of(name: str) -> str:
    """Return what a group does without a further word; "" if it needs one."""
    if name in COMMANDS:
        return STATE_COMMANDS.get(name, "")
    return list_added()[name].state_command


def add_command(parsers: Any, name: str) -> None:
    """Load one command's module and add its parser."""
    if name not in COMMANDS:
        add_foreign_command(parsers, name, list_added()[name])
        return
    module, about = COMMANDS[name]
    getattr(import_module(f"memory_mcp.cli.commands.{module}"), f"add_{name}")(parsers, about)


def add_foreign_command(parsers: Any, name: str, command: Command) -> None:
    """Load the module of another package's command and add its parser."""
    import_module(command.module).add(parsers, command.about)
    parsers.choices[name].set_defaults(is_forwarded=command.is_forwarded)
