"""The commands, with what help says of each. A command's module is loaded when the command is named.

Loading them all costs three times what starting Python and reading a command line does.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple

#: What help says of each command.
COMMANDS = {
    "try": "see it work: import transcripts, ask three questions through the real server, show cited answers",
    "setup": "set up every client that is here, import what they keep, and answer a first question",
    "install": "make a client use this memory: claude-code, codex, cursor and others, or all that are here",
    "uninstall": "restore the client's configuration exactly",
    "serve": "run the MCP server for one client on stdin and stdout, or for many over HTTP",
    "daemon": "start, stop and look at the background process that serves all clients",
    "import": "import transcripts and other histories",
    "watch": "store what clients write into their own session files, while they write it",
    "ingest": "store events from a JSONL file or from standard input",
    "pause": "record nothing of a project, or of any, until it is resumed",
    "resume": "record a paused project again",
    "exclude": "never record a project, what names a path, or a tool; see what is excluded",
    "hook": "record a hook payload from standard input",
    "ask": "ask the memory a question; the policy picks the layers and says why",
    "search": "search the nodes of the time tree for words",
    "navigate": "find something by walking the time tree, and show the path",
    "open": "show the memory in a browser: today, calendar, tree, search, topics and status",
    "query": "read the time tree, events and quotations",
    "today": "show where each project was left off, and what was recorded in the last 24 hours",
    "timeline": "show days with their titles and what happened in them",
    "show": "open anything by its id: a quotation, a message, a session, a topic, a day or any other node",
    "refine": "give segments and days better words: what is due, what to read, and writing it",
    "teleport": "jump to what was said by the keyword and vector indexes",
    "topics": "show what the memory is about: topics by importance, by words, and where they were talked about",
    "projects": "list the projects with their activity and other names",
    "agents": "list the agents with their activity",
    "activity": "show how much was recorded on each day, by project and agent",
    "project": "mend projects: two that are one, one that is two, and taking that back",
    "correct": "put another statement in the place of a recorded one, which is shown as superseded from then on",
    "retract": "take a recorded statement back: it holds no more, and nothing stands in its place",
    "retrieval": "show how questions are answered",
    "scheduler": "show and steer the jobs that run by themselves",
    "spend": "show what the summarizer's language model was asked and what that cost",
    "forget": "forget an event, a session, a project, a time, a topic or a value, for good",
    "embedder": "look at the embedding model, fetch others, and choose one",
    "admin": "check and maintain the store",
    "export": "write the memory as JSONL or Markdown, which import takes back, or as one HTML file to read and search anywhere",
    "merge": "take what another memory or a backup holds into this one, without duplicates",
    "sync": "keep this memory and those of other machines in step through a folder they share",
    "backup": "copy the memory into a folder or a file while it is in use; see and check the copies there are",
    "restore": "bring the memory back from a backup; what is there now is kept aside",
    "config": "show and check the settings",
    "doctor": "check the installation and the store (exit status 1 when something fails)",
}

#: What to use instead of a command that was removed.
REMOVED = {"browse": 'memory-mcp open shows the memory in a browser; timeline, show ID and ask "QUESTION" answer on a terminal'}

#: What help shows first, for people who are new here.
FIRST = ("setup", "ask", "open", "show", "forget", "doctor", "import", "install")
#: What a group of commands does without a further word: it shows its state, and changes nothing.
STATE_COMMANDS = {
    **{name: f"{name} status" for name in "daemon watch teleport topics retrieval scheduler embedder".split()},
    "exclude": "exclude list",
    "query": "query root",
    "refine": "refine due",
    "project": "projects",
    "admin": "admin stats",
    "config": "config show",
}

#: The groups in which help shows them all, with the names of each group's commands.
GROUPS = {
    "everyday": (
        *("ask", "open", "today", "timeline", "show", "correct", "retract", "projects", "agents", "activity"),
        *("try", "setup", "install", "uninstall", "import", "doctor"),
    ),
    "looking inside": ("search", "navigate", "query", "teleport", "topics", "retrieval"),
    "upkeep": (
        *("serve", "daemon", "watch", "hook", "ingest", "refine", "project", "pause", "resume", "exclude", "scheduler"),
        *("spend", "forget", "embedder", "admin", "backup", "restore", "export", "merge", "sync", "config"),
    ),
}


#: Options of every command that take a value.
_WITH_VALUE = ("--data-dir", "--config")


class Command(NamedTuple):
    """A command that another package adds, by an entry point of the group memory_mcp.commands or memory_mcp.admin_commands."""

    about: str
    #: Its module, whose function `add` adds it with its arguments, as those of this package.
    module: str
    #: The group of `GROUPS` in which help shows it.
    group: str = "upkeep"
    #: What it does without a further word; "": it needs one.
    state_command: str = ""
    #: Whether the daemon runs it on its open store.
    is_forwarded: bool = False


def added() -> Mapping[str, Command]:
    """Return the commands of other packages by their names; entry points are read for it."""
    from memory_mcp.base import extensions

    return extensions.load_all(extensions.COMMANDS)


def described(argv: Sequence[str] | None = None) -> Mapping[str, str]:
    """Return what help says of each command; those of other packages only where `argv` is None or may mean one of them."""
    if argv is not None and "--all" not in argv and _first_word(argv) in ("", *COMMANDS):
        return COMMANDS
    return COMMANDS | {name: command.about for name, command in added().items()}


def _first_word(argv: Sequence[str]) -> str:
    """Return the first word of a command line that is neither an option nor its value; "" if there is none."""
    words = iter(argv)
    for word in words:
        if word in _WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def grouped() -> Mapping[str, Sequence[str]]:
    """Return `GROUPS` with the commands of other packages at the end of theirs."""
    more = added()
    return {title: (*names, *(n for n, c in more.items() if c.group == title)) for title, names in GROUPS.items()}


def state_command_of(name: str) -> str:
    """Return what a group of commands does without a further word; "" if it needs one."""
    if name in COMMANDS:
        return STATE_COMMANDS.get(name, "")
    return added()[name].state_command


def add(parsers: Any, name: str) -> None:
    """Load one command's module, and add the command with its arguments to the argument tree; KeyError for an unknown name."""
    if name not in COMMANDS:
        add_command(parsers, name, added()[name])
        return
    module = f"{name}_" if iskeyword(name) else name
    import_module(f"memory_mcp.cli.commands.{module}").add(parsers, COMMANDS[name])


def add_command(parsers: Any, name: str, command: Command) -> None:
    """Load the module of another package's command, and add the command with its arguments to the argument tree."""
    import_module(command.module).add(parsers, command.about)
    parsers.choices[name].set_defaults(is_forwarded=command.is_forwarded)
