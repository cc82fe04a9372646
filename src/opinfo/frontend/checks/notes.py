"""What a user should know of a module that was read, carried from the reader as an attribute."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

ATTRIBUTE = "opinfo.notes"


def noted(mod: tvm.IRModule, notes: Sequence[str]) -> tvm.IRModule:
    """Return a module that carries notes, one line each."""
    return mod.with_attr(ATTRIBUTE, list(notes)) if notes else mod


def without_notes(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[str]]:
    """Return a module without its notes, and the notes."""
    if not isinstance(mod, tvm.IRModule) or not mod.attrs or ATTRIBUTE not in mod.attrs:
        return mod, []
    return mod.without_attr(ATTRIBUTE), [str(note) for note in mod.attrs[ATTRIBUTE]]
