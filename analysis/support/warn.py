"""Warnings that point at the caller's line, not at one of opinfo's own."""

from __future__ import annotations

import sys
import warnings

#: A pass of opinfo is called through TVM's pass infrastructure, a module by Python's importer.
_INSIDE = {"opinfo", "tvm", "tvm_ffi", "importlib", "contextlib"}


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost line outside opinfo and TVM.

    Raises:
        Warning: Warnings of this category are errors (``python -W error``).
    """
    frame, level = sys._getframe(), 1
    while frame.f_back and _package(frame.f_globals) in _INSIDE:
        level += "importlib._bootstrap" not in frame.f_code.co_filename  # not counted by `warnings`
        frame = frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__")).partition(".")[0]
