"""Fixtures of tests of plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm
from tvm import tirx

from opinfo.analysis import recogniser_scope
from opinfo.analysis.registry import registry
from opinfo.analysis.support import plugins
from opinfo.byoc.backend import catalog

from .plugin_site import FLATTEN, forget


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages on the path; what this process knows of plug-ins is as at its start."""
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(catalog, "_REGISTRY", dict(catalog._REGISTRY))
    monkeypatch.setattr(catalog, "_SHADOWED", set())
    modules = set(sys.modules)
    with recogniser_scope():
        monkeypatch.setattr(registry, "_left_out", None)
        forget()
        yield tmp_path
    forget()
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def flatten() -> tirx.PrimFunc:
    return tvm.script.from_source(FLATTEN)
