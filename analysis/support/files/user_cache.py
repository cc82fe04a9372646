"""The platform's folder for files that can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: Environment variable that overrides the folder.
VARIABLE = "OPINFO_CACHE"


def user_cache(name: str) -> Path:
    """Return the folder of a name below ``$OPINFO_CACHE``, or in the platform's cache folder.

    Raises:
        RuntimeError: The user has no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen) / name
    return platform_cache() / name


def platform_cache() -> Path:
    """Return opinfo's folder in the platform's cache folder. Raises as `user_cache` does."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opinfo"
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification requires relative paths to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "opinfo"
