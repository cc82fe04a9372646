"""The page on backends is followed to the letter."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from opinfo.byoc import example_npu

from .run import run

PAGE = Path(__file__).parent.parent / "docs" / "add-a-backend.md"


def test_the_page_does_what_it_says() -> None:
    text = PAGE.read_text()
    backend, use, coarse = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert len(backend.splitlines()) <= 100
    assert coarse in Path(example_npu.__file__).read_text()
    known: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(backend, "backend.py", "exec"), known)
        exec(compile(use, "use.py", "exec"), known)
    assert out.getvalue() == expected
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(s).astype("float32") for s in ((2, 8), (2, 8), (8,)))
    (result,) = run(known["done"].module, [x, y, z])
    np.testing.assert_allclose(result, np.maximum(x + y, 0) + z, rtol=1e-6)
