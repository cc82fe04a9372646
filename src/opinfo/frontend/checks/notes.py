"""What goes with a module that was read, carried from the reader as attributes of the module."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

#: What a user should know, one line each.
NOTES = "opinfo.notes"
#: The digest of the file and of the files that it names.
DIGEST = "opinfo.digest"


def noted(mod: tvm.IRModule, notes: Sequence[str]) -> tvm.IRModule:
    """Return a module that carries notes, one line each."""
    return mod.with_attr(NOTES, list(notes)) if notes else mod


def without_notes(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[str]]:
    """Return a module without its notes, and the notes."""
    if not isinstance(mod, tvm.IRModule) or not mod.attrs or NOTES not in mod.attrs:
        return mod, []
    return mod.without_attr(NOTES), [str(note) for note in mod.attrs[NOTES]]


def digested(mod: tvm.IRModule, digest: str) -> tvm.IRModule:
    """Return a module that carries the digest of its file."""
    return mod.with_attr(DIGEST, digest)


def without_digest(mod: tvm.IRModule) -> tuple[tvm.IRModule, str]:
    """Return a module without its digest, and the digest; empty if it has none."""
    if not isinstance(mod, tvm.IRModule) or not mod.attrs or DIGEST not in mod.attrs:
        return mod, ""
    return mod.without_attr(DIGEST), str(mod.attrs[DIGEST])
