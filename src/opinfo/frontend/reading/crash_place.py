"""Where a reading process is: what is read of one that was stopped or that crashed.

A page that the reading process shares with the process that forked it.
"""

from __future__ import annotations

import mmap

from ..checks.error import shortened

#: Size of the page in bytes.
SIZE = 4096
#: Limit on the characters of a place.
LONGEST = 300
_page: mmap.mmap | None = None


def share() -> None:
    """Make an empty page for the forks that follow."""
    global _page
    _page = mmap.mmap(-1, SIZE)


def note(text: str) -> None:
    """Note what is being read; without a shared page, do nothing."""
    if _page is not None:
        content = text[:LONGEST].encode(errors="replace")[: SIZE - 1]
        _page[: len(content) + 1] = content + b"\0"


def noted() -> str:
    """Return what was noted last, or an empty string."""
    content = b"" if _page is None else _page[:SIZE].partition(b"\0")[0]
    return shortened(content.decode(errors="replace"), LONGEST)
