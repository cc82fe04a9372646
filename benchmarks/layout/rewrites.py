"""Time rewriting and its proof over the PrimFuncs of a model, and count refusals.

    python -m benchmarks.rewrites [MODEL ...]

Every PrimFunc has its buffers of four dimensions moved: to NHWC, kernels of convolutions to OHWI;
then to NCHW8c and OIHW8i8o, with padding where the channels do not divide.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from typing import Any

from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import op_info
from opinfo.analysis.certify.structural_equality import ByStructure
from opinfo.analysis.results.op_info import OpInfo, Refusal
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.rewrite import Rewriter
from tests.models import light

SETS = {
    "NHWC": (Layout.parse("NHWC"), Layout.parse("OHWI")),
    "NCHW8c": (Layout.parse("NCHW8c", pad_value=None), Layout.parse("OIHW8i8o", pad_value=None)),
}


def functions(name: str) -> list[Any]:
    """Return the distinct PrimFuncs of a model."""
    mod = relax.transform.LegalizeOps()(light.build(name)[0])
    seen: list[Any] = []
    first = ByStructure(lambda f: seen.append(f))
    for func in mod.functions.values():
        if isinstance(func, tirx.PrimFunc):
            first(func)
    return seen


def layouts(func: Any, data: Layout, kernel: Layout) -> list[Layout | None]:
    ranks = [len(p.ty.shape) if is_buffer_var(p) else 0 for p in func.params]
    out = [data if r == 4 else None for r in ranks]
    info = op_info(func)
    if isinstance(info, OpInfo) and info.name == "relax.nn.conv2d":
        position = info.operands[1]
        assert isinstance(position, int)
        out[position] = kernel
    return out


def main(names: list[str]) -> None:
    for name in names or ["resnet50"]:
        funcs = functions(name)
        for label, (data, kernel) in SETS.items():
            targets = [layouts(f, data, kernel) for f in funcs]
            rewriter, times, kinds = Rewriter(), [], Counter[str]()
            for func, target in zip(funcs, targets, strict=True):
                start = time.process_time()
                result = rewriter(func, target)
                times.append((time.process_time() - start) * 1e3)
                kinds[result.reason if isinstance(result, Refusal) else
                      "exact" if result.certificate.exact else "proved"] += 1  # fmt: skip
            print(
                f"{name} {label}: {len(funcs)} PrimFuncs, median {statistics.median(times):.1f} ms,"
                f" worst {max(times):.1f} ms, all {sum(times) / 1e3:.2f} s; {dict(kinds)}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
