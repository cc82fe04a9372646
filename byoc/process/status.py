"""Exit statuses of processes, in words."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """The name of a signal: ``SIGSEGV`` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ended(code: int) -> str:
    """A ``Popen.returncode`` in words: ``exit status 1``, ``signal 11 (SIGSEGV)``."""
    if code >= 0:
        return f"exit status {code}"
    name = signal_name(-code)
    return name if name.startswith("signal") else f"signal {-code} ({name})"
