"""Temporary folders that a process which was forked off leaves alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class Folder:
    """A new folder; it goes when it is removed, let go, or at the end of the process that made it.

    (`tempfile.TemporaryDirectory` goes at the end of any process that was forked off, too.)
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
