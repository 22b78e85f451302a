"""One database and its pool of connections, shared by every memory of a process that is in it.

Invariants
1. A connection is bound to one tenant and one member (`memory.tenant`, `memory.member`) before a statement of theirs runs on it,
   and row-level security holds it there.
2. A connection that broke is never used again; a read is then asked once more on another, a write is not.
3. Statements that do not wait for each other's answers are sent together: each round trip costs more than most of them.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg import Connection as Raw
from psycopg import Cursor, errors
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg_pool import ConnectionPool, PoolTimeout

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import (
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    InvalidQuery,
    MemoryMcpError,
    ReadOnly,
    ResourceExhausted,
    StorageError,
    read_first_line,
)
from memory_mcp_team.errors import StorageAway, StorageForbidden


class _FromText(Loader):
    format = Format.TEXT

    def load(self, data: "bytes | bytearray | memoryview") -> int:
        return int(bytes(data).replace(b"-", b""), 16)


class _FromBinary(Loader):
    format = Format.BINARY

    def load(self, data: "bytes | bytearray | memoryview") -> int:
        return int.from_bytes(data, "big")


def uuid_of(key: int) -> str:
    """Return a 128-bit key as a parameter that is cast: `%(id)s::uuid`."""
    return f"{key:032x}"


def uuids_of(keys: Iterable[int]) -> list[str]:
    """Return 128-bit keys as a parameter such as `ANY(%(ids)s::uuid[])`."""
    return [f"{key:032x}" for key in keys]


def load_as_integers(raw: "Raw") -> None:
    """Have a connection return uuids as integers."""
    raw.adapters.register_loader("uuid", _FromText)
    raw.adapters.register_loader("uuid", _FromBinary)


log = logging.getLogger(__name__)

#: How long a caller waits for a connection (seconds): a pool that is used up, or a database that does not answer.
_WAIT = 10.0
#: A new connection is tried for so long; once that failed, callers wait only briefly until so long after it (seconds).
_TRIES, _BRIEFLY, _AWAY = 2.0, 1.0, 5.0
#: Connections that are idle for longer are closed (seconds).
_IDLE = 300.0
#: The name under which every commit is announced to listeners; its payload is `tenant/space`.
CHANNEL = "memory_changes"
#: Operational errors after which another connection would serve no better.
_NOT_GONE = (errors.QueryCanceled, errors.DiskFull, PoolTimeout)
_AWAY_HINT = (
    "Check that the database runs and that storage.url names its host, database and user, then call again; "
    "nothing acknowledged is lost."
)


@dataclass(frozen=True, slots=True)
class Binding:
    """Whom a connection serves: row-level security shows it nothing else."""

    tenant: int
    #: 0: the program itself.
    member: int = 0


_UNBOUND = Binding(0, -1)
_SET = "SELECT set_config('memory.tenant', %(tenant)s, %(local)s), set_config('memory.member', %(member)s, %(local)s)"
_SET_OF_WRITES = f"{_SET}, set_config('plan_cache_mode', 'force_generic_plan', %(local)s)"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its parameters."""

    text: str
    parameters: Mapping[str, Any] | None = None


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
            reconnect_failed=self._note_failure,
            configure=load_as_integers,
            kwargs={"autocommit": True, "application_name": "memory-mcp"},
        )
        self._opening = threading.Lock()
        self._opened = False
        #: When the database was found not to answer.
        self._failed_at = float("-inf")

    def _note_failure(self, _: "ConnectionPool[Any]") -> None:
        self._failed_at = time.monotonic()

    @contextmanager
    def lend_connection(self, bound: Binding | None) -> Iterator["Raw[tuple[Any, ...]]"]:
        """Lend a connection bound to a tenant and member."""
        with self.lend_raw() as raw:
            run_bound(raw, bound, ())
            yield raw

    @contextmanager
    def lend_raw(self) -> Iterator["Raw[tuple[Any, ...]]"]:
        """Lend a connection that is not bound yet.

        Raises StorageAway if none is free within 10 s (1 s shortly after a failure), and the driver's errors in the
        block as ours.
        """
        with self._opening:
            if not self._opened:
                self._pool.open()
                self._opened = True
        with translate_errors():
            try:
                away = time.monotonic() - self._failed_at < _AWAY
                with self._pool.connection(_BRIEFLY if away else _WAIT) as raw:
                    yield raw
            except psycopg.OperationalError as error:
                if is_gone(error):
                    # What ended this connection has ended others: those that wait in the pool are tried now, not by callers.
                    self._pool.check()
                raise

    def connect_unpooled(self) -> "Raw[tuple[Any, ...]]":
        """Return a connection outside the pool, which the caller closes."""
        with translate_errors():
            raw = psycopg.connect(self.url, autocommit=True, application_name="memory-mcp")
            load_as_integers(raw)
            return raw

    @property
    def pool_stats(self) -> dict[str, int]:
        """Counts of the pool, as psycopg_pool names them."""
        return dict(self._pool.get_stats()) if self._opened else {}

    def close(self) -> None:
        """Close every connection for good."""
        with self._opening:
            self._pool.close()


def check_address(url: str) -> None:
    """Raise ConfigError, without quoting it, for an unreadable address."""
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver quotes what it cannot read, and that may be a password.
        hint = "Write it as postgresql://USER@HOST/NAME, or as: host=HOST dbname=NAME user=USER"
        raise ConfigError("the address of the database (storage.url) cannot be read", hint) from None


def run_statements(raw: "Raw[Any]", statements: Sequence[Statement]) -> "list[Cursor[Any]]":
    """Run statements in one round trip and return their cursors.

    Results are read as bytes, which takes half the time for term sets and ids.
    """
    if len(statements) == 1:
        return [raw.execute(sql(statements[0].text), statements[0].parameters, binary=True)]
    with raw.pipeline() as pipeline:
        # The driver sends each statement by itself, which wakes the database, and this process, once for each of them.
        pipeline._communicate_gen = _send_later  # type: ignore[method-assign]
        try:
            return [raw.execute(sql(statement.text), statement.parameters, binary=True) for statement in statements]
        finally:
            del pipeline._communicate_gen


def _send_later() -> "Generator[Any, Any, None]":
    yield from ()


def run_bound(raw: "Raw[Any]", bound: Binding | None, statements: Sequence[Statement]) -> "list[Cursor[Any]]":
    """Run statements, bound to `bound` from then on."""
    if getattr(raw, "memory_bound", None) != (bound or _UNBOUND):
        # A statement that fails undoes what is sent with it.
        raw.memory_bound = None  # type: ignore[attr-defined]
        cursors = run_statements(raw, [_make_binding(bound, False), *statements])[1:]
        raw.memory_bound = bound or _UNBOUND  # type: ignore[attr-defined]
        return cursors
    return run_statements(raw, statements) if statements else []


def list_transaction_bindings(raw: "Raw[Any]", bound: Binding) -> list[Statement]:
    """Return what binds a transaction that has begun until its end."""
    return [] if getattr(raw, "memory_bound", None) == bound else [_make_binding(bound, True)]


def make_write_binding(bound: Binding) -> Statement:
    """Return what a transaction that writes runs first.

    Its statements find rows by keys, so one plan serves all of them; that of a partitioned table takes longer to make than to
    run, and would be made again for each of them.
    """
    return _make_binding(bound, True, _SET_OF_WRITES)


def _make_binding(bound: Binding | None, local: bool, text: str = _SET) -> Statement:
    tenant, member = (str(bound.tenant), str(bound.member)) if bound else ("", "")
    return Statement(text, {"tenant": tenant, "member": member, "local": local})


def sql(text: str) -> LiteralString:
    """Return a text, made of constants alone, as psycopg's type."""
    return text


def is_gone(error: BaseException) -> bool:
    """Return whether the connection is gone rather than the statement wrong."""
    return isinstance(error, errors.OperationalError) and not isinstance(error, _NOT_GONE)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise the driver's errors as ours."""
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
            raise StorageForbidden(f"the database refused its role: {read_first_line(error)}", StorageForbidden.HINT) from error
        raise StorageError(
            f"the database refused: {read_first_line(error)}", "Ask for a role in the space that may write."
        ) from error
    except psycopg.OperationalError as error:
        raise StorageAway(f"the database does not answer: {read_first_line(error)}", _AWAY_HINT) from error
    except psycopg.DataError as error:
        # Interfaces mend what they are given; what comes by another way is its sender's to mend.
        raise InvalidQuery("a value is none that can be stored", "Leave out NUL bytes, and numbers beyond 64 bits.") from error
    except psycopg.Error as error:
        if isinstance(error, MemoryMcpError):
            raise
        raise StorageError(f"the database refused: {read_first_line(error)}", "Run: memory-mcp doctor") from error


class Listener:
    """Calls `on_commit` with tenant and space; a hint, on which nothing may depend."""

    def __init__(self, database: Database, heard: Callable[[int, int], None]) -> None:
        self._database, self._on_commit = database, heard
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run_listener, name="listening", daemon=True)

    def start(self) -> None:
        """Listen in a thread, which connects again by itself."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, waiting up to two seconds."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run_listener(self) -> None:
        while not self._over.is_set():
            try:
                with self._database.connect_unpooled() as raw:
                    raw.execute(sql(f"LISTEN {CHANNEL}"))
                    while not self._over.is_set():
                        for notice in raw.notifies(timeout=1.0):
                            tenant, _, space = notice.payload.partition("/")
                            with suppress(ValueError):
                                self._on_commit(int(tenant), int(space))
            except (psycopg.Error, MemoryMcpError) as error:
                log.debug("listening is interrupted: %s", error)
                self._over.wait(1.0)
