"""Of a body of many terms, few views are tried: each costs as much as the body is large."""

from __future__ import annotations

import pytest

from opinfo.analysis import undo_layouts
from opinfo.analysis.lifting.lift import lift
from opinfo.testing.strip import strip

from ..foreign import corpus


def test_a_large_body_has_few_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's products of two dimensions, which no view makes an operator."""
    (case,) = (c for _, c in corpus() if c.form == "conv2d_winograd_nchw")
    lifted = lift(strip(case.build()))
    assert len(list(undo_layouts.logical_forms(lifted))) == 8
    monkeypatch.setattr(undo_layouts, "_MANY", 1000)
    assert len(list(undo_layouts.logical_forms(lifted))) > 16
