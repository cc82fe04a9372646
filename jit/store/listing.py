"""Descriptions of stored kernels for listings, read without verification."""

from __future__ import annotations

import os

from .kernel_file import FOOTER, Damaged, about_length, described


def about_of(name: str, within: int) -> dict[str, str]:
    """Return the description of an entry, or ``{"damaged": reason}`` if it is unreadable.

    ``within`` is a descriptor of the folder.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=within), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER))
            length = about_length(file.read(), size)
            if isinstance(length, Damaged):
                return {"damaged": length.reason}
            file.seek(size - FOOTER - length)
            return described(file.read(length))[1]
    except (OSError, ValueError) as error:
        return {"damaged": str(error)}
