"""The page on backends is followed to the letter."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from typing import Any

import numpy as np
import tvm

from opinfo.byoc.compile import compile_module

from ..run import run
from .pages import DOCS

PAGE = DOCS / "guides" / "add-a-backend.md"


def test_the_page_does_what_it_says() -> None:
    text = PAGE.read_text()
    backend, use = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert len(backend.splitlines()) <= 100
    known: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(backend, "backend.py", "exec"), known)
        exec(compile(use, "use.py", "exec"), known)
    assert out.getvalue() == expected
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(s).astype("float32") for s in ((2, 8), (2, 8), (8,)))
    w = np.arange(16, dtype="float32").reshape(2, 8)
    expected_ = np.maximum(x + y, 0) * (x + 2) * (y + y) * (x + w) + z
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = compile_module(known["bb"].get(), [known["ADDER"]], plan=False)
    assert len(found.dispatched.taken) == 4 and not found.dispatched.failed
    values = [tvm.runtime.tensor(v) for v in (x, y, z)]
    for result in (
        run(known["done"].module, [x, y, z])[0],
        found.machine()["main"](*values).numpy(),
    ):
        np.testing.assert_allclose(result, expected_, rtol=1e-5, atol=1e-5)
