"""Fixtures that tests of several backends use."""

from __future__ import annotations

import pytest


@pytest.fixture
def cudnn_frontend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that the headers of cuDNN's frontend are installed: the stub has them.

    Patched by name, since TVM 0.26 cannot import the backends.
    """
    monkeypatch.setattr("opinfo.byoc.backends.nvidia.attention.attention.missing", lambda: None)
