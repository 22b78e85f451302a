"""How much memory this process holds, and how soon it gives back what it no longer uses."""

import os
import sys

#: glibc's parameters (malloc.h), the environment variable by which a user sets each, and the value here: one arena, and what is
#: free at its end returned from 8 MB. Without them a freed block of some MB makes all of that size come from the arenas, which
#: then never end in free memory: after 1,000 questions of 48,000 events 27 of 68 MB were free and held. With 2 and 1 MB in place
#: of 8 and 4 a question has 50 page faults more, 4 % of its time.
_PARAMETERS = ((-8, "", 1), (-1, "MALLOC_TRIM_THRESHOLD_", 8 << 20), (-3, "MALLOC_MMAP_THRESHOLD_", 4 << 20))


def limit_free_memory() -> None:
    """Have the C library use one arena and return free memory early, where it is glibc.

    Thresholds that the environment sets stay. Call it before there are threads. Child processes go on as the environment says:
    theirs ends with them.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_parameter = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_parameter is None:
        return
    for parameter, variable, value in _PARAMETERS:
        if variable not in os.environ:
            set_parameter(parameter, value)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes.

    Its peak where the platform reports only that.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:  # noqa: PTH123 - one read, no path arithmetic
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024
