"""Reads paths from an environment as clients hand it on: what cannot be used is passed over, and can be told.

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
    """Set HOME of this process to the home directory in force, absolute, so that children find the same one."""
    given = os.environ.get("HOME")
    if given is None:
        return
    home = home_dir(os.environ)
    if home != given.strip():
        os.environ[GIVEN_HOME] = given
    if home:
        # Each child process would resolve a relative one again, from its own folder.
        os.environ["HOME"] = os.path.abspath(home)


def home_dir(environ: "Mapping[str, str]") -> str:
    """Return the home directory: HOME, else that of the user's account where HOME is missing, empty or not replaced."""
    home = environ.get("HOME", "").strip()
    return home if home and not _is_unreplaced(home) else account_home()


def account_home() -> str:
    """Return the home directory that the system knows of this user; "" if it knows none."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return os.path.expanduser("~") if os.name == "nt" else ""


def expand_path(named: str, environ: "Mapping[str, str]") -> str:
    """Return a path as settings name it, absolute; "" for none, and where a variable is not set.

    Variables are `${NAME}` and `${env:NAME}` anywhere, and `$NAME` and `%NAME%` as the whole of a folder's name; `~` is the
    home directory.
    """
    home = home_dir(environ)
    path = named.strip()
    for text, name in _variables_in(path):
        if not (value := home if name == "HOME" else environ.get(name, "")):
            return ""
        path = path.replace(text, value)
    if path == "~" or path.startswith(("~/", "~\\")):
        path = home + path[1:]
    path = os.path.expanduser(path)
    return os.path.abspath(path) if path and not path.startswith("~") else ""


def _variables_in(path: str) -> list[tuple[str, str]]:
    """Return the variables in a path, each as it is written and by its name."""
    names = [part.partition("}")[0] for part in path.split("${")[1:] if "}" in part]
    found = [("${" + name + "}", name.removeprefix("env:")) for name in dict.fromkeys(names)]
    for part in path.replace("\\", "/").split("/"):
        if part[:1] == "$" and part[1:].isidentifier():
            found.append((part, part[1:]))
        elif len(part) > 2 and part[0] == part[-1] == "%":
            found.append((part, part[1:-1]))
    return found


def is_makeable(directory: str) -> bool:
    """Return whether a folder is there, or can be made where it is not."""
    place = directory
    while place != os.path.dirname(place) and not os.path.lexists(place):
        place = os.path.dirname(place)
    return place == directory or (os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK))


def passed_over(environ: "Mapping[str, str]", named: str, directory: str, spares: "Sequence[str]") -> "Iterator[str]":
    """Yield what an environment says that cannot be used, and what is used instead.

    `named` is the data directory as a setting names it, `directory` the one in force, `spares` are those that hooks use where
    it cannot be made.
    """
    given = environ.get(GIVEN_HOME)
    if given is not None:
        yield f"HOME ({given!r}) names no folder; {home_dir(environ)} is used instead"
    if named and not expand_path(named, environ):
        yield f"{named} names a variable that is not set; {directory} is used instead"
    elif not is_makeable(directory):
        yield f"{directory} cannot be made; hooks keep what they are given in {' or '.join(filter(is_makeable, spares))}"


def _is_unreplaced(path: str) -> bool:
    return path.startswith("~") or bool(_variables_in(path))
