"""Fixtures of cuBLASLt products over the stub."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.products.cublaslt import HEADERS

from ..nvidia_library import stub_library
from .cublaslt_harness import HARNESS


@pytest.fixture(scope="module")
def library() -> Path:
    text = library_headers("opinfo.byoc.backends.nvidia.products", *HEADERS)
    return stub_library(text + HARNESS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "32")
    return tmp_path / "cublaslt"


@pytest.fixture
def process(library: Path, tmp_path: Path) -> Iterator[Any]:
    """Returns the library with memory of its own, as another process has it."""
    folder = tmp_path / "so"
    folder.mkdir()
    loaded = []

    def load(rows: int = 8, alignment: int = 16, refused: int = -1) -> Any:
        copy = folder / f"{len(os.listdir(folder))}.so"
        shutil.copy(library, copy)
        loaded.append(ctypes.CDLL(str(copy)))
        loaded[-1].stands_in(ctypes.c_int64(rows), alignment, refused)
        return loaded[-1]

    yield load
    for copy in loaded:  # all copies share what the stub counts
        copy.stands_in(ctypes.c_int64(1 << 20), 16, -1)
        copy.turned(ctypes.c_float(1))
        copy.waves(ctypes.c_int64(0))
        copy.grows(0)
        copy.misfits(ctypes.c_int64(-1))
