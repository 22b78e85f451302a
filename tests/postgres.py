"""A PostgreSQL of the tests' own: a cluster in a temporary folder, reached by a Unix socket there and by nothing else."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psycopg

#: Where Debian and others put the programs of the server, beside the PATH.
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
#: Fast, since a test's database need not survive the machine; `durable` clusters keep the defaults.
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_ALWAYS = ("listen_addresses=", "max_connections=100", "shared_buffers=64MB", "log_min_messages=fatal", "wal_level=replica")
#: The role that the program uses: neither superuser nor free of row-level security.
ROLE = "memory"


@cache
def programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`; None where PostgreSQL is not installed."""
    found = [path for place in _PLACES for path in sorted(Path("/").glob(f"{place[1:]}/initdb"))]
    beside = shutil.which("initdb")
    return found[-1].parent if found else Path(beside).parent if beside else None


class Cluster:
    """One server process with its data; `create` gives databases of it."""

    def __init__(self, durable: bool = False, settings: Sequence[str] = ()) -> None:
        """Make and start it. `durable`: as it is after installation, for tests that kill it."""
        bin_folder = programs()
        assert bin_folder is not None
        self.programs = bin_folder
        # A socket's path may be no longer than 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.data = self.folder / "data"
        self.settings = (*_ALWAYS, *(() if durable else _FAST), *settings)
        self.prefix: list[str] = []
        if os.geteuid() == 0:
            # The server refuses to run as root; Debian's package makes a user for it.
            shutil.chown(self.folder, "postgres", "postgres")
            self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._count = 0
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
        self.start()
        self.execute(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS CREATEDB")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self.prefix, str(self.programs / program), *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = " ".join(f"-c {setting}" for setting in (*self.settings, f"unix_socket_directories={self.folder}"))
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `fast` breaks connections off, `immediate` is as a crash."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def kill(self) -> None:
        """Kill the server process as a loss of power would."""
        os.kill(int((self.data / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)

    def url(self, database: str, role: str = ROLE) -> str:
        """Return the address of a database."""
        return f"host={self.folder} dbname={database} user={role}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the superuser."""
        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as raw:
            raw.execute(statement.encode())

    def create(self) -> str:
        """Return the address of a new, empty database."""
        self._count += 1
        name = f"memory_{self._count}"
        self.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
        return self.url(name)

    def standby(self) -> "Standby":
        """Return a read replica of this server, started, in a folder beside its data."""
        return Standby(self)

    def close(self) -> None:
        """Stop the server, however it is, and remove its folder."""
        subprocess.run(
            [*self.prefix, str(self.programs / "pg_ctl"), "-D", str(self.data), "-m", "immediate", "-w", "stop"],
            cwd=self.folder, capture_output=True, check=False,
        )  # fmt: skip
        shutil.rmtree(self.folder, ignore_errors=True)


class Standby(Cluster):
    """A server that replays what another one writes, and answers readers meanwhile."""

    def __init__(self, primary: Cluster) -> None:
        """Copy the primary, and follow it from there."""
        self.programs, self.settings, self.prefix = primary.programs, primary.settings, primary.prefix
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.data = self.folder / "data"
        if self.prefix:
            shutil.chown(self.folder, "postgres", "postgres")
        source = ("-h", str(primary.folder), "-U", "postgres", "-R", "-X", "stream", "-c", "fast")
        self._run("pg_basebackup", "-D", str(self.data), *source)
        self.start()

    def pause(self) -> None:
        """Replay nothing more until `resume`."""
        self.execute("SELECT pg_wal_replay_pause()")

    def resume(self) -> None:
        """Replay what came meanwhile, and what comes."""
        self.execute("SELECT pg_wal_replay_resume()")
