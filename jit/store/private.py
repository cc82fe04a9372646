"""The default folder of the kernel store."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: Environment variable that overrides the folder.
VARIABLE = "OPINFO_CACHE"


def default_folder() -> Path:
    """Return ``$OPINFO_CACHE``, or the platform's cache folder.

    Raises:
        RuntimeError: There is no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opinfo" / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification requires relative paths to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "opinfo" / "kernels"
