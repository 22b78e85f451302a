"""Read paths from an environment; skip and report what cannot be used.

Invariants
1. No folder is meant to be called `${HOME}`, `$HOME` or `~`: what a client did not replace is replaced here, or names nothing.
2. Nothing here raises and nothing is made. Standard library only, and little of it: each hook loads this.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: HOME as it was given, where it cannot be used: set for this process and what it starts.
GIVEN_HOME = "MEMORY_MCP_HOME"


def settle_home() -> None:
    """Set HOME of this process, absolute, for its children."""
    raw_home = os.environ.get("HOME")
    if raw_home is None:
        return
    home = home_dir(os.environ)
    if home != raw_home.strip():
        os.environ[GIVEN_HOME] = raw_home
    if home:
        # Each child process would resolve a relative one again, from its own folder.
        os.environ["HOME"] = os.path.abspath(home)


def home_dir(environ: "Mapping[str, str]") -> str:
    """Return HOME, else the home of the user's account."""
    home = environ.get("HOME", "").strip()
    return home if home and not _is_unreplaced(home) else account_home()


def account_home() -> str:
    """Return the home directory that the system knows of this user."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~") if os.name == "nt" else ""


def expand_path(setting: str, environ: "Mapping[str, str]") -> str:
    """Return a path as settings name it, absolute.

    "" for none, and where a variable is not set. Variables are `${NAME}` and `${env:NAME}` anywhere, and `$NAME` and `%NAME%` as
    the whole of a folder's name; `~` is the home directory.
    """
    home = home_dir(environ)
    path = setting.strip()
    for text, name in _variables_in(path):
        if not (value := home if name == "HOME" else environ.get(name, "")):
            return ""
        path = path.replace(text, value)
    if path == "~" or path.startswith(("~/", "~\\")):
        path = home + path[1:]
    path = os.path.expanduser(path)
    return os.path.abspath(path) if path and not path.startswith("~") else ""


def _variables_in(path: str) -> list[tuple[str, str]]:
    names = [part.partition("}")[0] for part in path.split("${")[1:] if "}" in part]
    variables = [("${" + name + "}", name.removeprefix("env:")) for name in dict.fromkeys(names)]
    for part in path.replace("\\", "/").split("/"):
        if part[:1] == "$" and part[1:].isidentifier():
            variables.append((part, part[1:]))
        elif len(part) > 2 and part[0] == part[-1] == "%":
            variables.append((part, part[1:-1]))
    return variables


def is_makeable(directory: str) -> bool:
    """Return whether a folder exists or can be made."""
    ancestor = directory
    while ancestor != os.path.dirname(ancestor) and not os.path.lexists(ancestor):
        ancestor = os.path.dirname(ancestor)
    return ancestor == directory or (os.path.isdir(ancestor) and os.access(ancestor, os.W_OK | os.X_OK))


def report_unusable(environ: "Mapping[str, str]", setting: str, directory: str, spares: "Sequence[str]") -> "Iterator[str]":
    """Yield each unusable path and what is used instead.

    `setting` is the data directory as a setting names it, `directory` the one in force, `spares` are those that hooks use where
    it cannot be made.
    """
    raw_home = environ.get(GIVEN_HOME)
    if raw_home is not None:
        yield f"HOME ({raw_home!r}) names no folder; {home_dir(environ)} is used instead"
    if setting and not expand_path(setting, environ):
        yield f"{setting} names a variable that is not set; {directory} is used instead"
    elif not is_makeable(directory):
        yield f"{directory} cannot be made; hooks keep what they are given in {' or '.join(filter(is_makeable, spares))}"


def _is_unreplaced(path: str) -> bool:
    return path.startswith("~") or bool(_variables_in(path))
