"""How a process ended, in words."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """``SIGSEGV`` of 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ended(code: int) -> str:
    """Of what ``Popen.returncode`` is: ``exit status 1``, ``signal 11 (SIGSEGV)``."""
    if code >= 0:
        return f"exit status {code}"
    name = signal_name(-code)
    return name if name.startswith("signal") else f"signal {-code} ({name})"
