"""The program's entry point: what starts often loads next to nothing, everything else is the command line.

A client's pump, a hook, and a question to the running daemon start_daemon often.
"""

import sys

from memory_mcp.base import environment

#: Known to type checkers; importing `typing` for it would cost a hook a tenth of its time.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_mcp.service.client import link

#: Commands that the daemon runs on its open store, so that they work while clients are connected and start_daemon at once.
FORWARDED = frozenset(
    {
        *("ask", "search", "navigate", "query", "today", "timeline", "show", "teleport", "topics", "retrieval", "how", "why"),
        *("handoff", "rules"),
        *("scheduler", "watch", "spend", "projects", "agents", "activity", "correct", "retract", "backup"),
        *("pause", "resume", "exclude", "hints", "sync", "embedder status", "refine due", "refine show"),
        *("admin check", "admin rebuild-toc", "admin stats", "admin overview", "admin audit", "admin compact"),
        *("admin acknowledge-loss", "admin rebuild-index", "admin prune-bm25", "admin prune-vector", "admin index-stats"),
    }
)
#: Arguments that may stand anywhere and take a value.
_WITH_VALUE = ("--data-dir", "--config")


class _Asked:
    """The part of a command line that the entry point understands."""

    def __init__(self, argv: "Sequence[str]") -> None:
        """Read the words and options that are understood here.

        All others are kept in `rest`. `whole` is False where an option lacks its value, and reading ends there. --profile,
        --transport and --project count only behind serve or run.
        """
        self.named = {"--data-dir": "", "--config": "", "--profile": "", "--transport": "stdio", "--project": ""}
        #: Words and options that are not understood here.
        self.rest: list[str] = []
        self.whole = True
        words = list(argv)
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            serving = name in ("--profile", "--transport", "--project") and self.rest[:1] in (["serve"], ["run"])
            if name in _WITH_VALUE or serving:
                if not equals and not words:
                    self.whole = False
                    return
                self.named[name] = value if equals else words.pop(0)
            else:
                self.rest.append(word)

    @property
    def forwarded(self) -> bool:
        """Whether the daemon runs it, by its first words."""
        words = [word for word in self.rest if not word.startswith("-")]
        if len(words) == 1 and any(name.startswith(f"{words[0]} ") for name in FORWARDED):
            # Alone it shows its state.
            return True
        return not FORWARDED.isdisjoint((" ".join(words[:1]), " ".join(words[:2])))


def main() -> int:
    """Run the command of `sys.argv` and return its exit status.

    Only the daemon ends the process itself. Hooks, a running daemon's client and its commands load next to nothing; all else
    loads the command line.
    """
    argv = sys.argv[1:]
    environment.settle_home()
    if argv[:1] == ["hook"] and not {"-h", "--help"} & set(argv):
        from memory_mcp.service.client import hook

        return hook.main(argv[1:])
    if argv[:2] == ["daemon", "run"]:
        return _daemon(argv)
    status = _quick(argv)
    if status is not None:
        return status
    from memory_mcp.cli.main import main as command_line

    return command_line(argv)


def _quick(argv: "Sequence[str]") -> int | None:
    """Return the exit status of what a daemon can do.

    None when the command line has to do it. A daemon serves a client on stdin that is no terminal, and runs forwarded commands;
    help and versions are the command line's.
    """
    line = _Asked(argv)
    if not line.whole or {"-h", "--help", "--version"} & set(line.rest):
        return None
    serves = line.rest in ([], ["serve"]) and line.named["--transport"] == "stdio"
    serves = serves and not (sys.stdin and sys.stdin.isatty())
    daemon = _choose_daemon(line) if serves or line.forwarded else None
    if daemon is None:
        return None
    if serves:
        from memory_mcp.service.client import pump

        return pump.run(daemon)
    from memory_mcp.service.client import forward

    return forward.run(daemon, list(argv))


def _daemon(argv: "Sequence[str]") -> int:
    """Run the daemon without loading the command line.

    Its first answer waits for its start_daemon. What is not understood here goes to the command line. A daemon that ran ends the
    process by itself.
    """
    line = _Asked(argv[1:])
    if not line.whole or line.rest != ["run"] or line.named["--profile"] not in ("", "default", "full"):
        from memory_mcp.cli.main import main as command_line

        return command_line(argv)
    from memory_mcp.service.daemon.start import start_daemon

    def execute(*arguments):  # type: ignore[no-untyped-def]  # loaded with the first command that is run
        from memory_mcp.cli.remote import execute

        return execute(*arguments)

    return start_daemon(line.named["--data-dir"], line.named["--config"], line.named["--profile"], execute)


def _choose_daemon(line: _Asked) -> "link.Wanted | None":
    """Return the daemon to use, with its directory and settings.

    None where the command line must do it. That is where daemons cannot be used here or are switched off, the settings file that
    is named does not exist, a variable is unknown, or the profile is.
    """
    from memory_mcp.base import paths
    from memory_mcp.service.client import link

    config = line.named["--config"]
    # What is wrong with them the command line explains.
    if not link.can_run_daemon() or paths.misnamed(config) or not paths.setting("server", "daemon", True, file=config):
        return None
    if line.named["--profile"] not in ("", "default", "full"):
        return None
    flags = {"server.profile": line.named["--profile"]} if line.named["--profile"] else {}
    return link.Wanted(paths.data_dir(line.named["--data-dir"], file=config), config, flags, line.named["--project"])


if __name__ == "__main__":
    sys.exit(main())
