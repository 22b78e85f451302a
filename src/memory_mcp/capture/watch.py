"""Call back for every file put into a directory, by notifications of the kernel instead of polling.

Only Linux tells (inotify); elsewhere there is no watch, and whoever would be told looks for himself.
"""

import ctypes
import logging
import os
import select
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

#: From <sys/inotify.h>: a file was moved here, made here; the directory is gone.
_MOVED_TO, _CREATE, _IGNORED = 0x80, 0x100, 0x8000
#: An event before its name: descriptor, mask, cookie, length of the name.
_EVENT = struct.Struct("iIII")
_BUFFER = 64 * 1024


class DirectoryWatch:
    """Calls `act` whenever a file appears in a directory.

    In a thread of its own after `start`, until it is closed or the directory is deleted.
    """

    def __init__(self, inotify: int) -> None:
        self._inotify = inotify
        self._end_read, self._end_write = os.pipe()
        self._thread: threading.Thread | None = None

    def start(self, act: Callable[[], None]) -> None:
        """Call `act` from now on; several files may share a call."""
        self._thread = threading.Thread(target=self._run_listener, args=(act,), name="watch", daemon=True)
        self._thread.start()

    @classmethod
    def open_watch(cls, directory: Path) -> "DirectoryWatch | None":
        """Return a watch of a directory, made if missing.

        None off Linux, and if it cannot be watched.
        """
        if not sys.platform.startswith("linux"):
            return None
        try:
            for folder in (directory.parent, directory):
                folder.mkdir(mode=0o700, exist_ok=True)
            libc = ctypes.CDLL(None, use_errno=True)
            inotify = libc.inotify_init1(os.O_CLOEXEC)
            if inotify < 0 or libc.inotify_add_watch(inotify, os.fsencode(directory), _MOVED_TO | _CREATE) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except (OSError, AttributeError) as error:
            # Watches are limited per user, and some file systems have none.
            log.info("%s cannot be watched (%s); it is looked at again and again", directory, error)
            return None
        return cls(inotify)

    def _run_listener(self, act: Callable[[], None]) -> None:
        ready = select.poll()
        for descriptor in (self._inotify, self._end_read):
            ready.register(descriptor, select.POLLIN)
        gone = False
        while not gone and all(descriptor == self._inotify for descriptor, _ in ready.poll()):
            events, offset = os.read(self._inotify, _BUFFER), 0
            while offset < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, offset)
                gone = gone or bool(mask & _IGNORED)
                offset += _EVENT.size + length
            act()
        for descriptor in (self._inotify, self._end_read):
            os.close(descriptor)

    def close(self) -> None:
        """Stop calling; waits a second at most. Call it once."""
        os.close(self._end_write)
        if self._thread is not None:
            self._thread.join(timeout=1)
