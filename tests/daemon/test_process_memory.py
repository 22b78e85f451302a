"""What the daemon's process does with memory that it no longer uses."""

import ctypes
import os
import subprocess
import sys

import pytest

#: After a block of 30 MB was freed glibc takes blocks up to that size from its arenas, unless it was set otherwise;
#: then the next one is still a mapping of its own, counted in `hblkhd`.
_SCRIPT = """
import ctypes
from memory_mcp.service.daemon.process_memory import limit_free_memory
limit_free_memory()
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]
libc.mallinfo2.restype = Info
del (block := [bytearray(30 << 20)])[:]
block.append(bytearray(20 << 20))
print(libc.mallinfo2().hblkhd >= 20 << 20)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33"
)
@pytest.mark.parametrize(("environment", "is_returned"), [({}, "True"), ({"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}, "False")])
def test_large_blocks_go_back_to_the_system_unless_the_environment_says_otherwise(
    environment: dict[str, str], is_returned: str
) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    run = subprocess.run([sys.executable, "-c", _SCRIPT], env=environ | environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == is_returned
