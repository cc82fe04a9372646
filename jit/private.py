"""The folder that compiled kernels are kept in: entries are code, so only the user may write it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

#: Names another folder than the platform's.
VARIABLE = "OPINFO_CACHE"
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def default_folder() -> Path:
    """``$OPINFO_CACHE``, or where the platform keeps what can be made again.

    Raises ``RuntimeError`` where there is no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opinfo" / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification of these variables: a relative path is to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "opinfo" / "kernels"


def create(folder: Path) -> None:
    """Raises ``OSError``; a folder that exists is left as it is."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def refusal(folder: Path) -> str | None:
    """Why code in a folder is not to be loaded; None if it may be. Raises ``OSError``.

    Another user must not be able to write the folder, nor to put another one into its place.
    """
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to another user, number {found.st_uid}"
    if found.st_mode & _OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        return f"other users can write {folder}: its mode is {mode:04o}; chmod go-w mends it"
    for above in folder.resolve().parents:
        if replaceable(above.stat()):
            return f"other users can replace {folder}: everybody can write {above}"
    return None


def replaceable(above: os.stat_result) -> bool:
    """Everybody may rename what is in a folder: ``/tmp`` has the sticky bit against that."""
    return bool(above.st_mode & stat.S_IWOTH) and not above.st_mode & stat.S_ISVTX


def owned(file: os.stat_result) -> bool:
    """A regular file that only this user may write."""
    mine = file.st_uid == os.geteuid() and not file.st_mode & _OTHERS
    return mine and stat.S_ISREG(file.st_mode)
