"""What an entry says of itself, for people: read from its end, not verified."""

from __future__ import annotations

import json
import os

from .kernel_file import FOOTER, Damaged, about_length


def about_of(name: str, within: int) -> dict[str, str]:
    """``{"damaged": reason}`` where it cannot be read. ``within``: a descriptor of its folder."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=within), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER))
            length = about_length(file.read(), size)
            if isinstance(length, Damaged):
                return {"damaged": length.reason}
            file.seek(size - FOOTER - length)
            told = json.loads(file.read(length))
    except (OSError, ValueError) as e:
        return {"damaged": str(e)}
    return {str(k): str(v) for k, v in told["about"].items()}
