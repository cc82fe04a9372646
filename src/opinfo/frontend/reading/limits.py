"""Limits of a process that reads a file: no writes, no child processes, bounded time and memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

#: Limit on memory for each byte of the file.
FACTOR = 24
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Events of `sys.audit` with effects outside the process.
_ACTS = (
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.link", "os.mkdir",
    "os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.setxattr", "os.spawn",
    "os.startfile", "os.symlink", "os.system", "os.truncate", "os.utime", "pty.spawn", "shutil.",
    "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen",
)  # fmt: skip


def limit(seconds: int, memory: int) -> None:
    """Limit this process permanently.

    Args:
        seconds: CPU seconds.
        memory: Bytes that it may allocate in addition to its current memory.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # turns the signal into an error of the write
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_DATA, _data() + memory)
    sys.addaudithook(_refuse)


def allow(size: int) -> None:
    """Raise the memory limit for external files of ``size`` bytes that a model names."""
    memory = share(size)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        more = soft + memory
        soft = more if hard == resource.RLIM_INFINITY else min(more, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def share(size: int) -> int:
    """Return the memory for files of ``size`` bytes, at most half of what the machine has."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(FACTOR * size, physical // 2)


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    keep = {resource.RLIMIT_DATA: hard, resource.RLIMIT_CPU: value + 1}.get(which, value)
    if hard != resource.RLIM_INFINITY:
        keep = min(keep, hard)  # the hard CPU limit kills without a message; for data see `allow`
    resource.setrlimit(which, (value, keep))


def _data() -> int:
    """Return the private memory that counts for the limit; 0 if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")]
    return sum(sizes)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook that raises for effects outside the process."""
    if event == "open":
        path, _, flags = args
        opened = isinstance(path, int) or path == os.devnull
        if isinstance(flags, int) and flags & _WRITES and not opened:
            raise PermissionError(f"a model file may not write {path!r:.80}")
    elif event.startswith(_ACTS):
        raise PermissionError(f"a model file may not do {event}")
