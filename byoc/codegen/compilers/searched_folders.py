"""Folders that a compiler looks for headers in, which differ between environments.

What two environments include is the same if each file has the same content and place in its folder,
and if the compiler finds no other file: neither before it, nor by asking whether one is there. This
is asked of folders that moved; that no file is added to one that stays is trusted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A question whether a header is there, and its name, if that is no macro.
_ASKED = re.compile(rb"__has_include(?:_next)?\s*\(\s*(?:<([^>\n]+)>|\"([^\"\n]+)\")?")


@dataclass(frozen=True)
class Folders:
    """Absolute paths of folders in the order of their search, before those of the compiler."""

    paths: tuple[str, ...] = ()

    def moved(self, file: str, before: Folders) -> str:
        """The place here of a file that was found by other folders; those in none stay.

        Raises:
            ValueError: The numbers of folders differ, or the file is in several of them, which
                moved apart.
        """
        if len(self.paths) != len(before.paths):
            raise ValueError(f"expected {len(self.paths)} folders, got {len(before.paths)}")
        places = {os.path.join(self.paths[k], inside) for k, inside in before.places(file)}
        if len(places) > 1:
            raise ValueError(f"expected one place of {file}, got {sorted(places)}")
        return places.pop() if places else file

    def places(self, file: str) -> list[tuple[int, str]]:
        """The positions of the folders with a file, and its paths inside; they may start with ..

        A header may include what is beside the folder, which moves with it.
        """
        return [(k, file[len(p) + 1 :]) for k, p in enumerate(self.paths)
                if file.startswith(p + os.sep)]  # fmt: skip

    def hide(self, files: Sequence[str]) -> bool:
        """Whether the compiler may find something else in place of files.

        That is a file with the same path in an earlier folder, or, for what is in none of them,
        an entry of a folder with the name of any part of the path. Beside each header is a folder
        that is searched first, where files were before if they were included.

        Raises:
            OSError: A folder cannot be read.
        """
        known, beside = set(files), self.beside(files)
        names = {name for p in self.paths if os.path.isdir(p) for name in os.listdir(p)}
        for p in beside:
            names |= {name for name in os.listdir(p) if os.path.join(p, name) not in known}
        for file in files:
            places = self.places(file)
            if not places and not names.isdisjoint(file.split(os.sep)):
                return True
            for k, inside in places:
                if any(os.path.exists(os.path.join(p, inside)) for p in self.paths[:k]):
                    return True
                if any(os.path.exists(f) for p in beside if (f := os.path.join(p, inside))
                       not in known):  # fmt: skip
                    return True
        return False

    def beside(self, files: Iterable[str]) -> list[str]:
        """The folders of the files that are in a folder."""
        return sorted({os.path.dirname(file) for file in files if self.places(file)})

    def named(self, names: Iterable[str], files: Sequence[str]) -> list[str]:
        """The files that have these names of headers, in folders or beside the files in one."""
        folders = [*self.paths, *self.beside(files)]
        found = (os.path.join(p, name) for name in sorted(names) for p in folders)
        return list(dict.fromkeys(f for f in found if os.path.isfile(f)))


def asked(text: bytes) -> frozenset[str] | None:
    """The names of headers that C++ asks for with `__has_include`; None if a macro has one."""
    found = [a or b for a, b in _ASKED.findall(text)]
    return frozenset(map(os.fsdecode, found)) if all(found) else None


def searched(words: Sequence[str], around: Sequence[str] = ()) -> tuple[list[str], Folders]:
    """Options of a compiler with numbers in place of absolute folders, and these folders.

    A folder that is named again has the same number. `-I` that is a word of its own stays, and so
    does what it names. A folder stays too if other words, or those around, have its path: it may be
    searched for another reason.
    """
    places = [w[2:].rstrip(os.sep) if w.startswith("-I") and os.path.isabs(w[2:]) else ""
              for w in words]  # fmt: skip
    others = [*(w for w, place in zip(words, places, strict=True) if not place), *around]
    paths: dict[str, int] = {}
    out = []
    for word, place in zip(words, places, strict=True):
        moves = place and not any(place in other for other in others)
        out.append(f"-I/{paths.setdefault(place, len(paths))}" if moves else word)
    return out, Folders(tuple(paths))
