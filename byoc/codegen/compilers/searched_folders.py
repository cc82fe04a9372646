"""Folders that a compiler looks for headers in, which differ between environments.

What two environments include is the same if each file has the same content and place in its folder,
and if the compiler finds no other file before it. The second is asked of folders that moved; that
no file is added to one that stays is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Folders:
    """Absolute paths of folders in the order of their search, before those of the compiler."""

    paths: tuple[str, ...] = ()

    def moved(self, file: str, before: Folders) -> str:
        """The place here of a file that was found by other folders; those in none stay.

        Raises:
            ValueError: The numbers of folders differ.
        """
        if len(self.paths) != len(before.paths):
            raise ValueError(f"expected {len(self.paths)} folders, got {len(before.paths)}")
        place = before.place(file)
        return file if place is None else os.path.join(self.paths[place[0]], place[1])

    def place(self, file: str) -> tuple[int, str] | None:
        """The position of the innermost folder with a file, and the path inside."""
        inside = [(len(p), k) for k, p in enumerate(self.paths) if file.startswith(p + os.sep)]
        if not inside:
            return None
        size, k = max(inside, key=lambda found: (found[0], -found[1]))
        return k, file[size + 1 :]

    def hide(self, files: Sequence[str]) -> bool:
        """Whether the compiler may find something else in place of files.

        That is a file with the same path in an earlier folder, or, for what is in none of them,
        an entry of a folder with the name of any part of the path.

        Raises:
            OSError: A folder cannot be read.
        """
        names = {name for p in self.paths if os.path.isdir(p) for name in os.listdir(p)}
        for file in files:
            place = self.place(file)
            if place is None:
                if not names.isdisjoint(file.split(os.sep)):
                    return True
            elif any(os.path.exists(os.path.join(p, place[1])) for p in self.paths[: place[0]]):
                return True
        return False


def searched(words: Sequence[str]) -> tuple[list[str], Folders]:
    """Options of a compiler with numbers in place of absolute folders, and these folders.

    A folder that is named again has the same number. `-I` that is a word of its own stays, and so
    does what it names.
    """
    paths: dict[str, int] = {}
    out = []
    for word in words:
        if word.startswith("-I") and os.path.isabs(word[2:]):
            word = f"-I/{paths.setdefault(os.path.abspath(word[2:]), len(paths))}"
        out.append(word)
    return out, Folders(tuple(paths))
