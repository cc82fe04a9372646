"""The library of convolutions, with plans of its own in each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ....common.kept_objects import kept_objects
from ..nvidia_library import convolutions
from .window_harness import slow_gradients

__all__ = ["kept_objects"]


@pytest.fixture(scope="module")
def library() -> Path:
    return convolutions()


@pytest.fixture
def loaded(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setenv("OPINFO_CUDNN_PLANS", "1")
    with slow_gradients(library, tmp_path / "copies") as loaded:
        yield loaded
