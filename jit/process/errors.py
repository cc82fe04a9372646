"""What errors of TVM say."""

from __future__ import annotations


def last_line(e: BaseException) -> str:
    """The line that says why: those before tell where it came from."""
    return (str(e).strip() or type(e).__name__).splitlines()[-1].strip()
