"""One database and its pool of connections, shared by every memory of a process that lies in it.

Invariants
1. A connection is bound to one tenant and one member (`memory.tenant`, `memory.member`) before a statement of theirs runs on it,
   and row-level security holds it there.
2. A connection that broke is never used again; a read is then asked once more on another, a write is not.
3. Statements that do not wait for each other's answers are sent together: each round trip costs more than most of them.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import Connection as Raw
from psycopg import Cursor, errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from memory_mcp.base.errors import (
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    InvalidQuery,
    MemoryMcpError,
    ReadOnly,
    ResourceExhausted,
    StorageAway,
    StorageError,
    StorageForbidden,
)
from memory_mcp_team.postgres.keys import load_as_integers

log = logging.getLogger(__name__)

#: How long a caller waits for a connection (seconds): a pool that is used up, or a database that does not answer.
_WAIT = 10.0
#: A new connection is tried for so long; once that failed, callers wait only briefly until so long after it (seconds).
_TRIES, _BRIEFLY, _AWAY = 2.0, 1.0, 5.0
#: Connections that are idle for longer are closed (seconds).
_IDLE = 300.0
#: The name under which every commit is told to whoever listens; its payload is `tenant/space`.
CHANNEL = "memory_changes"
#: Operational errors after which another connection would serve no better.
_NOT_GONE = (errors.QueryCanceled, errors.DiskFull, PoolTimeout)
_AWAY_HINT = (
    "Check that the database runs and that storage.url names its host, database and user, then call again; "
    "nothing acknowledged is lost."
)


@dataclass(frozen=True, slots=True)
class Bound:
    """Whom a connection serves: row-level security shows it nothing else."""

    tenant: int
    #: 0: the program itself.
    member: int = 0


_NOBODY = Bound(0, -1)
_SET = "SELECT set_config('memory.tenant', %(tenant)s, %(local)s), set_config('memory.member', %(member)s, %(local)s)"
_SET_OF_WRITES = f"{_SET}, set_config('plan_cache_mode', 'force_generic_plan', %(local)s)"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its parameters."""

    text: str
    given: Mapping[str, Any] | None = None


class Database:
    """A pool of connections to one URL."""

    def __init__(self, url: str, size: int = 8) -> None:
        check_address(url)
        self.url = url
        self._pool = ConnectionPool(
            url,
            min_size=0,
            max_size=size,
            open=False,
            timeout=_WAIT,
            max_idle=_IDLE,
            reconnect_timeout=_TRIES,
            reconnect_failed=self._fail,
            configure=load_as_integers,
            kwargs={"autocommit": True, "application_name": "memory-mcp"},
        )
        self._opening = threading.Lock()
        self._opened = False
        #: When the database was found not to answer.
        self._failed = float("-inf")

    def _fail(self, _: "ConnectionPool[Any]") -> None:
        """Note when a new connection failed: callers wait only 1 s for the next five seconds."""
        self._failed = time.monotonic()

    @contextmanager
    def connection(self, bound: Bound | None) -> Iterator["Raw[tuple[Any, ...]]"]:
        """Lend a connection that is bound to a tenant and member.

        None: to none, so that it sees no memory. Outside a transaction. Raises StorageAway when the database does not
        answer in time, and the driver's errors as ours.
        """
        with self.lent() as raw:
            run_bound(raw, bound, ())
            yield raw

    @contextmanager
    def lent(self) -> Iterator["Raw[tuple[Any, ...]]"]:
        """Lend a connection as its last user left it: what runs on it binds it, by `run_as` or `binding`.

        Opens the pool at first. Raises StorageAway when none is given within 10 s (1 s shortly after a failure), and
        the driver's errors in the block as ours. A connection that broke has the pool test the others.
        """
        with self._opening:
            if not self._opened:
                self._pool.open()
                self._opened = True
        with translate_errors():
            try:
                away = time.monotonic() - self._failed < _AWAY
                with self._pool.connection(_BRIEFLY if away else _WAIT) as raw:
                    yield raw
            except psycopg.OperationalError as error:
                if is_gone(error):
                    # What ended this connection has ended others: those that wait in the pool are tried now, not by callers.
                    self._pool.check()
                raise

    def connect_alone(self) -> "Raw[tuple[Any, ...]]":
        """Return a connection outside the pool, bound to nobody, which the caller closes. Raises StorageAway for no answer."""
        with translate_errors():
            raw = psycopg.connect(self.url, autocommit=True, application_name="memory-mcp")
            load_as_integers(raw)
            return raw

    @property
    def stats(self) -> dict[str, int]:
        """Counts of the pool, as psycopg_pool names them (such as pool_size, requests_num); {} before it is opened."""
        return dict(self._pool.get_stats()) if self._opened else {}

    def close(self) -> None:
        """Close every connection; a second call does nothing.

        The pool cannot be opened again.
        """
        with self._opening:
            self._pool.close()


def check_address(url: str) -> None:
    """Raise ConfigError for a text that is no libpq connection string or URI; the message does not quote it."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver quotes what it cannot read, and that may be a password.
        hint = "Write it as postgresql://USER@HOST/NAME, or as: host=HOST dbname=NAME user=USER"
        raise ConfigError("the address of the database (storage.url) cannot be read", hint) from None


def run(raw: "Raw[Any]", statements: Sequence[Statement]) -> "list[Cursor[Any]]":
    """Run statements in one round trip and return their cursors, in order; the first that fails raises the driver's error.

    Results are read as bytes, which takes half the time for term sets and ids.
    """
    if len(statements) == 1:
        return [raw.execute(sql(statements[0].text), statements[0].given, binary=True)]
    with raw.pipeline() as pipeline:
        # The driver sends each statement by itself, which wakes the database, and this process, once for each of them.
        pipeline._communicate_gen = _later  # type: ignore[method-assign]
        try:
            return [raw.execute(sql(statement.text), statement.given, binary=True) for statement in statements]
        finally:
            del pipeline._communicate_gen


def _later() -> "Generator[Any, Any, None]":
    yield from ()


def run_bound(raw: "Raw[Any]", bound: Bound | None, statements: Sequence[Statement]) -> "list[Cursor[Any]]":
    """Run statements outside a transaction, the connection bound to `bound` (None: nobody) from then on; return their cursors."""
    if getattr(raw, "memory_bound", None) != (bound or _NOBODY):
        # A statement that fails undoes what is sent with it.
        raw.memory_bound = None  # type: ignore[attr-defined]
        cursors = run(raw, [_make_binding(bound, False), *statements])[1:]
        raw.memory_bound = bound or _NOBODY  # type: ignore[attr-defined]
        return cursors
    return run(raw, statements) if statements else []


def binding(raw: "Raw[Any]", bound: Bound) -> list[Statement]:
    """Return what a transaction that has begun runs first, so that it is bound until its end; nothing where it is already."""
    return [] if getattr(raw, "memory_bound", None) == bound else [_make_binding(bound, True)]


def binding_of_writes(bound: Bound) -> Statement:
    """Return what a transaction that writes runs first, so that it is bound until its end and makes no plan anew.

    Statements of writes find rows by their keys, so one plan serves all of them; that of a partitioned table takes longer to
    make than to run, and would be made again for each of them.
    """
    return _make_binding(bound, True, _SET_OF_WRITES)


def _make_binding(bound: Bound | None, local: bool, text: str = _SET) -> Statement:
    """Return the statement that binds a connection to a tenant and member (None: nobody); `local`: until the transaction ends."""
    tenant, member = (str(bound.tenant), str(bound.member)) if bound else ("", "")
    return Statement(text, {"tenant": tenant, "member": member, "local": local})


def sql(text: str) -> LiteralString:
    """Return the same text as the type that psycopg wants: statements here are put together from constants alone."""
    return text


def is_gone(error: BaseException) -> bool:
    """Return whether the connection is gone rather than the statement wrong: another one may serve.

    Any operational error but a cancelled statement, a full disk or a pool without a free connection.
    """
    return isinstance(error, errors.OperationalError) and not isinstance(error, _NOT_GONE)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise the driver's errors as ours.

    The only place that knows their names. DeadlineExceeded for a cancelled statement, StorageAway where the
    database does not answer, DiskFull, ReadOnly, ResourceExhausted and StorageForbidden for what it refuses, else
    StorageError.
    """
    try:
        yield
    except errors.QueryCanceled:
        raise DeadlineExceeded("Timeout exceeded", "Ask for less, or give more time.") from None
    except errors.DiskFull as error:
        raise DiskFull("the database's disk is full", "Free space on the database's machine; reading goes on.") from error
    except errors.ReadOnlySqlTransaction as error:
        raise ReadOnly("the database takes no writes: it is a replica", "Set storage.url to the primary.") from error
    except (errors.OutOfMemory, errors.ProgramLimitExceeded) as error:
        raise ResourceExhausted("the query needed more than the database may use", "Ask for a shorter time window.") from error
    except PoolTimeout as error:
        raise StorageAway("the database gave no connection in time", _AWAY_HINT) from error
    except errors.InsufficientPrivilege as error:
        if "row-level security" not in str(error):
            raise StorageForbidden(f"the database refused its role: {_first_line(error)}", StorageForbidden.HINT) from error
        raise StorageError(
            f"the database refused: {_first_line(error)}", "Ask for a role in the space that may write."
        ) from error
    except psycopg.OperationalError as error:
        raise StorageAway(f"the database does not answer: {_first_line(error)}", _AWAY_HINT) from error
    except psycopg.DataError as error:
        # Interfaces mend what they are given; what comes by another way is its sender's to mend.
        raise InvalidQuery("a value is none that can be stored", "Leave out NUL bytes, and numbers beyond 64 bits.") from error
    except psycopg.Error as error:
        if isinstance(error, MemoryMcpError):
            raise
        raise StorageError(f"the database refused: {_first_line(error)}", "Run: memory-mcp doctor") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:300]


class Listener:
    """Hears of commits of every process, and calls `heard` with tenant and space; a hint, on which nothing may depend."""

    def __init__(self, database: Database, heard: Callable[[int, int], None]) -> None:
        self._database, self._heard = database, heard
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run_listener, name="listening", daemon=True)

    def start(self) -> None:
        """Begin to listen, in a thread.

        It connects by itself, also later where the database does not answer now.
        """
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; waits for the thread for up to two seconds."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run_listener(self) -> None:
        """Call `heard` with tenant and space for each notice until stopped.

        A lost connection is made anew after a second.
        """
        while not self._over.is_set():
            try:
                with self._database.connect_alone() as raw:
                    raw.execute(sql(f"LISTEN {CHANNEL}"))
                    while not self._over.is_set():
                        for notice in raw.notifies(timeout=1.0):
                            tenant, _, space = notice.payload.partition("/")
                            with suppress(ValueError):
                                self._heard(int(tenant), int(space))
            except (psycopg.Error, MemoryMcpError) as error:
                log.debug("listening is interrupted: %s", error)
                self._over.wait(1.0)
