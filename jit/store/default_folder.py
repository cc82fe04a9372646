"""The default folder of the kernel store."""

from __future__ import annotations

import os
from pathlib import Path

from ...analysis.support.files.user_cache import VARIABLE, platform_cache


def default_folder() -> Path:
    """Return ``$OPINFO_CACHE``, or the platform's cache folder.

    Raises:
        RuntimeError: The user has no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return platform_cache() / "kernels"
