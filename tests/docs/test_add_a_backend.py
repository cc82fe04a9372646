"""The page on backends is followed to the letter."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from tvm import relax

from opinfo.byoc import ABI, Backend, Code, Pattern, Region, constant, one
from opinfo.byoc.compile import compile_module

from ..common.run import run
from ..layout import nets
from .pages import DOCS, ROOT, blocks

PAGE = DOCS / "guides" / "add-a-backend.md"


def test_the_page_does_what_it_says() -> None:
    text = PAGE.read_text()
    backend, use, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    expected, *_ = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
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


def test_the_sample_of_the_abi_page_runs() -> None:
    (body,) = (b.text for b in blocks(DOCS / "reference" / "abi.md") if "OPINFO_TYPED" in b.text)

    def convert(regions: Sequence[Region]) -> Code:
        (r,) = regions
        return Code(ABI + body, (r.symbol,), (("scale_0_w", r.constants[0]),))

    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.multiply(x, nets.const(rng, 2, 6)))

    mod = nets.net(build, (2, 6), legal=False)
    scale = Backend("scale", (Pattern("scale", one("relax.multiply", constant(1))),), convert)
    found = compile_module(mod, [scale], plan=False)
    assert [t.symbol for t in found.dispatched.taken] == ["scale_0"]
    x = np.arange(12, dtype="float32").reshape(2, 6)
    result = found.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(result, run(mod, [x])[0], rtol=1e-6)
    with pytest.raises(ValueError, match="scale_0: x is strided"):
        found.machine()["main"](torch.from_numpy(x.reshape(6, 2)).T)


def test_every_file_of_the_example_packages_is_on_their_page() -> None:
    page = (DOCS / "reference" / "example-packages.md").read_text()
    files = {p.relative_to(ROOT).as_posix() for package in ("npu_backend", "recogniser_package")
             for kind in ("*.toml", "src/*/*.py", "tests/*.py")
             for p in (ROOT / "examples" / package).glob(kind)}  # fmt: skip
    assert set(re.findall(r'^--8<-- "(.+)"$', page, re.MULTILINE)) == files
