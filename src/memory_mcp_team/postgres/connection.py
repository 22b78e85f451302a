"""One memory's access to the database: reads, and transactions that number what they write.

Invariants
1. Every statement is about one tenant and one space: `%(tenant)s` and `%(space)s` are always given; `own` spells the condition.
2. A writer locks the memory's `head` first: numbers have no gaps and rise in the order of commits, whichever process writes.
3. A reader of several statements sees one moment.
4. What a transaction writes is sent with the next statement whose answer it needs, or with its commit.
5. What a call reads and writes for a member (`ACTING`) is bound to that member; threads that it starts without its context
   are the program's.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import Connection as Raw
from psycopg import Cursor

from memory_mcp.base.errors import Busy, StorageError
from memory_mcp.model.change import ChangeKind
from memory_mcp_team.errors import StorageAway, no_such_space
from memory_mcp_team.postgres.database import (
    CHANNEL,
    Binding,
    Database,
    Statement,
    is_gone,
    list_transaction_bindings,
    make_write_binding,
    run_bound,
    run_statements,
    sql,
    translate_errors,
)
from memory_mcp_team.postgres.memories import SELECT_HEAD, Head, make_head, make_update

Row = tuple[Any, ...]
#: Numbers for the names of server-side cursors.
_CURSOR_NUMBERS = itertools.count(1)

#: How long a head that was read counts as current (seconds), unless a notice of a commit comes: other processes write too.
_HEAD_AGE = 0.1
#: Shortest time between two notices of a memory's commits (seconds); other processes also look without a notice.
_NOTICE_PAUSE = 0.5
#: Events may wait so long before they are derived, so that what comes together is derived together (milliseconds).
_DERIVE_AFTER_MS = 4000
#: More rows than this are written by COPY, in half the time (1,000 events in 20 ms); up to so many by one statement each.
_COPY, _SINGLE = 200, 4
#: Statements that wait to be sent at most.
_MAX_UNSENT = 200

#: Not in the transaction itself: PostgreSQL lets those that notify commit one after another, each with its own write to the disk.
_NOTIFY = "SELECT pg_notify(%(channel)s, %(memory)s)"
_BEGIN, _COMMIT = Statement("BEGIN"), Statement("COMMIT")
_BEGIN_READING = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
# Locked, so that no process takes over between the look and the commit.
_FENCE = """SELECT epoch FROM work WHERE tenant = %(tenant)s AND space = %(space)s AND name = %(name)s FOR SHARE"""
# In the transaction of the events, so that no server that dies leaves them underived.
_DUE = """INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint + %(patience)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = excluded.due_ms
    WHERE work.due_ms IS NULL OR work.due_ms > excluded.due_ms"""
#: The name under which events wait in table `work` to be derived.
EVENTS = "events"
#: The member whom statements of the running call are bound to; None: whom the connection was made for.
ACTING_MEMBER: ContextVar[int | None] = ContextVar("acting", default=None)


def own(alias: str = "") -> str:
    """Return the condition that rows of a table belong to the memory."""
    dot = f"{alias}." if alias else ""
    return f"{dot}tenant = %(tenant)s AND {dot}space = %(space)s"


class Reader:
    """Several statements at one moment. Used by one thread."""

    def __init__(self, raw: "Raw[Row]", memory: Mapping[str, int]) -> None:
        self.raw, self._memory = raw, memory

    def rows(self, text: str, **parameters: Any) -> list[Row]:
        """Return all rows of a statement."""
        return self._run_statement(text, parameters).fetchall()

    def row(self, text: str, **parameters: Any) -> Row | None:
        """Return the first row of a statement, or None."""
        return self._run_statement(text, parameters).fetchone()

    def _run_statement(self, text: str, parameters: Mapping[str, Any]) -> "Cursor[Row]":
        return run_statements(self.raw, [Statement(text, {**self._memory, **parameters})])[-1]

    def iter_slices(self, text: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        """Yield the rows of a statement in lists of `size`."""
        with self.raw.cursor(name=f"slices_{next(_CURSOR_NUMBERS)}") as cursor:
            cursor.itersize = size
            cursor.execute(sql(text), {**self._memory, **parameters})
            while rows := cursor.fetchmany(size):
                yield rows


class Writer(Reader):
    """A transaction with the memory's head locked. Used by one thread."""

    def __init__(self, raw: "Raw[Row]", memory: Mapping[str, int], head: Head) -> None:
        super().__init__(raw, memory)
        self.head = head
        #: Rows of each question that `Connection.writing` was given.
        self.answers: list[list[Row]] = []
        self._unsent: list[Statement] = []
        self._after_commit: list[Callable[[], object]] = []

    def _run_statement(self, text: str, parameters: Mapping[str, Any]) -> "Cursor[Row]":
        return self.send_pending(Statement(text, {**self._memory, **parameters}))[-1]

    def execute(self, text: str, **parameters: Any) -> int:
        """Run a statement; return how many rows it touched."""
        return self._run_statement(text, parameters).rowcount

    def send_later(self, text: str, **parameters: Any) -> None:
        """Run a statement before the next answer or the commit."""
        self._unsent.append(Statement(text, {**self._memory, **parameters}))
        if len(self._unsent) >= _MAX_UNSENT:
            self.send_pending()

    def send_pending(self, *more: Statement) -> "list[Cursor[Row]]":
        """Run waiting statements and `more`; return all cursors."""
        waiting, self._unsent = [*self._unsent, *more], []
        return run_statements(self.raw, waiting) if waiting else []

    def iter_slices(self, text: str, size: int, **parameters: Any) -> Iterator[list[Row]]:
        self.send_pending()
        yield from super().iter_slices(text, size, **parameters)

    def insert_rows(self, table: str, columns: str, types: Sequence[str], lists: Sequence[Sequence[Any]]) -> None:
        """Insert rows given as lists, one for each column.

        `columns` are names separated by commas, `types` SQL types; uuids are given as texts.
        """
        if not lists or not lists[0]:
            return
        names = f"tenant, space, {columns}"
        if len(lists[0]) <= _COPY:
            self._insert_few(table, columns, types, lists)
            return
        memory = (self._memory["tenant"], self._memory["space"])
        rows = ((*memory, *row) for row in zip(*lists, strict=True))
        self.send_pending()
        # Row-level security refuses COPY into a table of memories: rows are copied into one of the connection's own first.
        aside = f"new_{table}"
        self.raw.execute(sql(f"CREATE TEMP TABLE IF NOT EXISTS {aside} ON COMMIT DELETE ROWS AS TABLE {table} WITH NO DATA"))
        with self.raw.cursor().copy(sql(f"COPY {aside} ({names}) FROM STDIN")) as copy:
            for row in rows:
                copy.write_row(row)
        self.raw.execute(sql(f"INSERT INTO {table} ({names}) SELECT {names} FROM {aside}"))
        self.raw.execute(sql(f"DELETE FROM {aside}"))

    def _insert_few(self, table: str, columns: str, types: Sequence[str], lists: Sequence[Sequence[Any]]) -> None:
        into = f"INSERT INTO {table} (tenant, space, {columns})"
        names = [f"c{index}" for index in range(len(types))]
        if len(lists[0]) <= _SINGLE or any(kind.endswith("[]") for kind in types):
            values = ", ".join(f"%({name})s::{kind}" for name, kind in zip(names, types, strict=True))
            for row in zip(*lists, strict=True):
                self.send_later(f"{into} VALUES (%(tenant)s, %(space)s, {values})", **dict(zip(names, row, strict=True)))
            return
        arrays = ", ".join(f"%({name})s::{kind}[]" for name, kind in zip(names, types, strict=True))
        rows = {name: list(column) for name, column in zip(names, lists, strict=True)}
        self.send_later(f"{into} SELECT %(tenant)s, %(space)s, * FROM unnest({arrays})", **rows)

    def add_changes(self, changes: Sequence[tuple[ChangeKind, str]]) -> int:
        """Write outbox entries (kind, subject); return the last number given out."""
        if changes:
            first = self.head.last_change + 1
            self.head.last_change += len(changes)
            kinds, subjects = [kind.value for kind, _ in changes], [subject for _, subject in changes]
            numbers = range(first, first + len(changes))
            self.insert_rows("outbox", "seq, kind, subject", ("bigint", "text", "text"), [numbers, kinds, subjects])
        return self.head.last_change

    def call_after_commit(self, act: Callable[[], object]) -> None:
        """Call `act` once this transaction is committed, outside of it."""
        self._after_commit.append(act)

    def run_after_commit(self) -> None:
        """Call what waits for the commit."""
        for act in self._after_commit:
            act()


class Connection:
    """Reads and writes one memory for one member. Safe in any thread."""

    def __init__(self, database: Database, tenant: int, space: int, member: int = 0, replica: Database | None = None) -> None:
        self.database, self.tenant, self.space = database, tenant, space
        self._read_database = replica or database
        self._binding = Binding(tenant, member)
        self._memory = {"tenant": tenant, "space": space}
        self._cached_head: tuple[float, Head] | None = None
        #: When others were notified of a commit last.
        self._notified_at = float("-inf")
        self._lent_connections: dict[int, list[Raw[Row]]] = {}
        #: Connections whose statement is being cancelled.
        self._cancelling: list[Raw[Row]] = []
        self._lending = threading.Condition()
        self._fences = threading.local()
        self._closed = False
        #: Called when another process took something out or put it back as a whole: what is kept in memory may be gone.
        self.on_reset: Callable[[], None] = lambda: None

    def rows(self, text: str, **parameters: Any) -> list[Row]:
        """Return all rows of one query, its errors raised as ours.

        It is asked once more if the first connection broke.
        """
        try:
            return self._fetch_rows(text, parameters)
        except StorageAway as error:
            if self._closed or not (error.__cause__ and is_gone(error.__cause__)):
                raise
        return self._fetch_rows(text, parameters)

    def _fetch_rows(self, text: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._lend_raw(self._read_database) as raw:
            return run_bound(raw, self._get_binding(), [Statement(text, {**self._memory, **parameters})])[-1].fetchall()

    def row(self, text: str, **parameters: Any) -> Row | None:
        """Return the first row of a query, or None; see `rows`."""
        rows = self.rows(text, **parameters)
        return rows[0] if rows else None

    @contextmanager
    def open_reader(self) -> Iterator[Reader]:
        """Lend a transaction whose statements see one moment."""
        with self._lend_raw(self._read_database) as raw:
            try:
                run_statements(raw, [_BEGIN_READING, *list_transaction_bindings(raw, self._get_binding())])
                yield Reader(raw, self._memory)
                # A rollback would have the driver forget every statement that it has prepared.
                raw.commit()
            except BaseException:
                with suppress(psycopg.Error):
                    raw.rollback()
                raise

    @contextmanager
    def open_writer(self, *questions: Statement) -> Iterator[Writer]:
        """Open a transaction with the memory's head locked.

        `questions` are asked in the round trip that locks the head, after it is locked; see `Writer.answers`.
        """
        with self._lend_raw(self.database) as raw, translate_errors():
            try:
                writer = self._begin_writing(raw, questions)
                head, old_head = writer.head, replace(writer.head)
                yield writer
                self._commit_writing(writer, old_head)
            except BaseException:
                with suppress(psycopg.Error):
                    raw.rollback()
                raise
        if self._read_database is self.database:
            # A replica that is behind does not have it yet.
            self._cache_head(head, is_own=head.resets - old_head.resets <= 1)
        writer.run_after_commit()

    def _begin_writing(self, raw: "Raw[Row]", questions: Sequence[Statement]) -> Writer:
        fence: tuple[str, int] | None = getattr(self._fences, "now", None)
        statements = [Statement(SELECT_HEAD + " FOR UPDATE", self._memory)]
        if fence is not None:
            statements.append(Statement(_FENCE, {**self._memory, "name": fence[0]}))
        statements += [Statement(question.text, {**self._memory, **(question.parameters or {})}) for question in questions]
        cursors = run_statements(raw, [_BEGIN, make_write_binding(self._get_binding()), *statements])[-len(statements) :]
        rows = [cursor.fetchall() for cursor in cursors]
        if not rows[0] and ACTING_MEMBER.get() is not None:
            raise no_such_space()
        if not rows[0]:
            raise StorageAway("this memory is no longer in the database", "Ask the administrator.")
        if fence is not None and [row[0] for row in rows[1]] != [fence[1]]:
            raise Busy(f"another process has taken over: {fence[0]}", "It goes on there.")
        writer = Writer(raw, self._memory, make_head(rows[0][0]))
        writer.answers = rows[len(rows) - len(questions) :]
        return writer

    def _commit_writing(self, writer: Writer, old_head: Head) -> None:
        head, last = writer.head, [_COMMIT]
        if head != old_head:
            put_head = make_update(head)
            writer.send_later(put_head.text, **(put_head.parameters or {}))
            if head.resets != old_head.resets or time.monotonic() - self._notified_at >= _NOTICE_PAUSE:
                self._notified_at = time.monotonic()
                last.append(Statement(_NOTIFY, {"channel": CHANNEL, "memory": f"{self.tenant}/{self.space}"}))
        if head.last_event != old_head.last_event:
            writer.send_later(_DUE, name=EVENTS, patience=_DERIVE_AFTER_MS)
        done = writer.send_pending(*last)[-len(last)]
        if done.statusmessage != "COMMIT":
            raise StorageError("the database took a transaction back", "Call again; nothing of it was written.")

    @contextmanager
    def fence_writes(self, name: str, epoch: int) -> Iterator[None]:
        """Let this thread's writers raise Busy once a claim has another epoch."""
        outer_fence = getattr(self._fences, "now", None)
        self._fences.now = (name, epoch)
        try:
            yield
        finally:
            self._fences.now = outer_fence

    def get_head(self) -> Head:
        """Return how far the memory got, up to 0.1 s ago.

        Raises NotFound for a member who may not see it.
        """
        cached = self._cached_head
        if cached is not None and time.monotonic() - cached[0] <= _HEAD_AGE:
            return cached[1]
        began = time.monotonic()
        row = self.row(SELECT_HEAD)
        if row is None and ACTING_MEMBER.get() is not None:
            raise no_such_space()
        newer = self._cached_head
        if newer is not None and newer[0] >= began:
            # Kept meanwhile by another thread, which may have written what was not yet read here.
            return newer[1]
        head = Head() if row is None else make_head(row)
        self._cache_head(head)
        return head

    def _cache_head(self, head: Head, is_own: bool = False) -> None:
        cached, self._cached_head = self._cached_head, (time.monotonic(), head)
        if not is_own and cached is not None and cached[1].resets != head.resets:
            self.on_reset()

    def expire_head(self) -> None:
        """Have the head read again: another process committed."""
        cached = self._cached_head
        if cached is not None:
            self._cached_head = (float("-inf"), cached[1])

    @contextmanager
    def bind_program(self) -> Iterator[None]:
        """Bind the block's statements to the program."""
        acting = ACTING_MEMBER.set(None)
        try:
            yield
        finally:
            ACTING_MEMBER.reset(acting)

    def _get_binding(self) -> Binding:
        acting = ACTING_MEMBER.get()
        return self._binding if acting is None else Binding(self.tenant, acting)

    @contextmanager
    def _lend_raw(self, database: Database) -> Iterator["Raw[Row]"]:
        me = threading.get_ident()
        with database.lend_raw() as raw:
            with self._lending:
                self._lent_connections.setdefault(me, []).append(raw)
            try:
                yield raw
            finally:
                with self._lending:
                    self._lent_connections[me].remove(raw)
                    if not self._lent_connections[me]:
                        del self._lent_connections[me]
                    # A cancellation under way would end a statement of the thread that gets the connection next.
                    self._lending.wait_for(lambda: raw not in self._cancelling)

    def interrupt_reads(self, thread: int | None = None) -> None:
        """Cancel the running statements of one thread or of all."""
        with self._lending:
            running = [raw for owner, lent in self._lent_connections.items() if thread in (None, owner) for raw in lent]
            self._cancelling += running
        try:
            for raw in running:
                with suppress(psycopg.Error):
                    raw.cancel_safe(timeout=1.0)
        finally:
            with self._lending:
                for raw in running:
                    self._cancelling.remove(raw)
                self._lending.notify_all()

    def close(self) -> None:
        """Stop serving; the database stays open for others."""
        self._closed = True
