"""Errors of TVM name C++ functions without reading the symbols of all loaded libraries.

For the first error, TVM's FFI reads the debug information of Python and of every library, which
takes 0.3 s of CPU where Python has some. Importing TVM raises a hundred errors and catches them:
it asks for types and operators that it may lack. If the first error of a process can open no file,
this is not tried again. An error still names the place in C++ that raised it.
"""

from __future__ import annotations

import contextlib


def leave_symbols_unread() -> None:
    """Raise TVM's first error while no file can be opened; to be called before TVM is imported.

    Other threads of the process must not open files meanwhile. Without limits on open files, as on
    Windows, nothing is done.
    """
    try:
        from resource import RLIMIT_NOFILE, getrlimit, setrlimit
    except ImportError:
        return
    import tvm_ffi

    now, most = getrlimit(RLIMIT_NOFILE)
    try:
        setrlimit(RLIMIT_NOFILE, (now, most))  # some systems refuse what they said
        setrlimit(RLIMIT_NOFILE, (0, most))
    except (ValueError, OSError):
        return
    try:
        with contextlib.suppress(Exception):
            tvm_ffi.dtype("not a type")
    finally:
        setrlimit(RLIMIT_NOFILE, (now, most))
