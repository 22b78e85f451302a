"""The daemon's log: one file in the data directory, rotated; standard error goes there too."""

import io
import logging
import logging.handlers
import os
import re
import sys

from memory_mcp.base import machine
from memory_mcp.base.errors import DiskFull

#: Largest log file, bytes, and older ones that are kept.
_MOST_BYTES, _KEPT = 1_000_000, 3
_FORM = "%(asctime)s %(process)d %(name)s %(levelname)s %(message)s"
# Libraries log their input: a line break in it would look like the start of another entry.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")


class _Rotated(logging.handlers.RotatingFileHandler):
    """A log file that also gets standard output and error."""

    def _open(self) -> io.TextIOWrapper:
        """Open the log file, mode 0600; raise OSError for a link."""
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | machine.NO_LINK, 0o600)
        return open(descriptor, "a", encoding=self.encoding)  # noqa: PTH123 - a descriptor, no path

    def doRollover(self) -> None:  # noqa: N802 - the standard library's name
        """Begin a new file, and point standard output and error there."""
        super().doRollover()
        self.redirect()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Handle an error as Handler does.

        On a full disk the line is left out, since its traceback would need more room.
        """
        if DiskFull.within(sys.exc_info()[1]) is None:
            super().handleError(record)

    def redirect(self) -> None:
        """Point standard output and error at the log file."""
        if self.stream is not None:
            for descriptor in (1, 2):
                os.dup2(self.stream.fileno(), descriptor)


def _in_one_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if (full := DiskFull.within(error)) is not None:
        record.msg, record.args = f"{record.getMessage()}: {full}", ()
        record.exc_info = record.exc_text = None
    return True


class _OneLine(logging.Formatter):
    """Each message on one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        """Return the entry with control characters spelled as escapes."""
        return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], super().formatMessage(record))


class _LastError(logging.Handler):
    """Keeps the last error that was logged, for `daemon status`."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Store the record's logger, message and exception as `text`."""
        reason = f": {record.exc_info[1]}" if record.exc_info and record.exc_info[1] else ""
        self.text = f"{record.name}: {record.getMessage()}{reason}"


last_error = _LastError()


def begin_logging(path: str, redirect: bool) -> None:
    """Log to the file `path` from level INFO on; call once.

    Its mode is 0600; the last error is kept. Noisy libraries (MCP, HTTP and event loop) log from WARNING on. The file is rotated
    at `_MOST_BYTES`; with `redirect` standard output and error go there too. Raises OSError when it cannot be opened.
    """
    old_umask = os.umask(0o077)
    try:
        handler = _Rotated(path, maxBytes=_MOST_BYTES, backupCount=_KEPT, encoding="utf-8")
    finally:
        os.umask(old_umask)
    handler.setFormatter(_OneLine(_FORM))
    handler.addFilter(_in_one_line)
    if redirect:
        handler.redirect()
    logging.basicConfig(level=logging.INFO, handlers=[handler, last_error])
    # One line per request and per connection is for those who look for a defect in these libraries.
    for noisy in ("mcp", "uvicorn", "uvicorn.error", "uvicorn.access", "anyio", "asyncio", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
