"""The file of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from .model_file_cases import product, saved


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model"), product(), external=True)
