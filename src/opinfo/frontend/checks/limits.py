"""What a process that reads a file may not do: write, start processes, grow, run for ever."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

#: Bytes that reading may take for each byte of a file.
FACTOR = 24
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Events of `sys.audit` that change something outside the process.
_ACTS = (
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.setxattr", "os.spawn",
    "os.startfile", "os.symlink", "os.system", "os.truncate", "os.utime", "pty.spawn", "shutil.",
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen",
)  # fmt: skip


def limit(seconds: int, memory: int) -> None:
    """Limit this process for good.

    Args:
        seconds: of CPU.
        memory: bytes that it may allocate beside those that it has.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing is an error instead
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_DATA, _data() + memory)
    sys.addaudithook(_refuse)


def allow(size: int) -> None:
    """Let this process allocate what so many bytes more take: of files that a model names."""
    memory = FACTOR * size
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        more = soft + memory
        soft = more if hard == resource.RLIM_INFINITY else min(more, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    keep = {resource.RLIMIT_DATA: hard, resource.RLIMIT_CPU: value + 1}.get(which, value)
    if hard != resource.RLIM_INFINITY:
        keep = min(keep, hard)  # a hard limit of CPU kills without saying why; of data see `allow`
    resource.setrlimit(which, (value, keep))


def _data() -> int:
    """Bytes of private memory that count for the limit; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")]
    return sum(sizes)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook: Python's own ways to act raise, whoever calls them."""
    if event == "open":
        path, _, flags = args
        opened = isinstance(path, int) or path == os.devnull
        if isinstance(flags, int) and flags & _WRITES and not opened:
            raise PermissionError(f"a model file may not write {path!r:.80}")
    elif event.startswith(_ACTS):
        raise PermissionError(f"a model file may not do {event}")
