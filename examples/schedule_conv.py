"""A schedule rule that asks a fused PrimFunc for its operator instead of guessing it from loops.

    python examples/schedule_conv.py

`AnnotateOpInfo` has put the chain of operators on the PrimFunc. The rule looks for a convolution
that elementwise operators follow, and chooses its tiles from what it finds: the width of the tile
from the stride (a vector of outputs reads `stride` times as many inputs), the number of output
channels that share a loaded input from the groups (other groups read other inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import relax as R

from opinfo.analysis import Refusal, annotation
from opinfo.transform import AnnotateOpInfo

#: float32 numbers of one cache line, and accumulators that stay in registers.
LINE, ACCUMULATORS = 16, 4


def tiles(conv: dict[str, Any], shape: tuple[int, ...]) -> tuple[int, int]:
    """Output channels and width of a tile, divisors of the output's extents."""
    _, channels, _, width = shape
    wide = max(LINE // conv["attrs"]["strides"][1], 1)
    shared = min(channels // conv["attrs"]["groups"], ACCUMULATORS)
    return _divisor(channels // conv["attrs"]["groups"], shared), _divisor(width, wide)


def _divisor(extent: int, most: int) -> int:
    return next(k for k in range(most, 0, -1) if extent % k == 0)


def schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Tile and vectorise the PrimFunc's convolution; return any other PrimFunc unchanged."""
    found = annotation(func)
    if isinstance(found, Refusal) or found.names[0] != "relax.nn.conv2d":
        return func
    conv, *rest = found.ops
    following = all(op["kind"] in ("kElemWise", "kBroadcast") for op in rest)
    if set(conv["layouts"]) != {"NCHW", "OIHW"} or not following:
        return func
    s = tvm.s_tir.Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    blocks = s.get_child_blocks(s.get_sblock("root"))
    place = next(k for k, b in enumerate(blocks) if len(s.get_loops(b)) == 7)
    for epilogue in blocks[place + 1 : -1]:
        s.compute_inline(epilogue)
    shape = tuple(int(e) for e in func.params[-1].ty.shape)
    _tile(s, blocks[place], *tiles(conv, shape))
    for b in {blocks[0], blocks[-1]} - {blocks[place]}:
        s.vectorize(s.get_loops(b)[-1])
    return s.mod["main"].without_attr("global_symbol")


def _tile(s: Any, conv: Any, channels: int, width: int) -> None:
    _, f, _, x, *reduction = s.get_loops(conv)
    _, fi = s.split(f, [None, channels])
    _, xi = s.split(x, [None, width])
    s.reorder(*reduction, fi, xi)
    s.vectorize(xi)
    s.unroll(fi)
    init = s.decompose_reduction(conv, reduction[0])
    s.vectorize(s.get_loops(init)[-1])


@tvm.script.ir_module
class Block:
    @R.function
    def main(
        x: R.Tensor((1, 32, 32, 32), "float32"),
        w: R.Tensor((64, 16, 3, 3), "float32"),
        b: R.Tensor((1, 64, 1, 1), "float32"),
    ) -> R.Tensor((1, 64, 16, 16), "float32"):
        with R.dataflow():
            c = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1], groups=2)
            d = R.nn.relu(R.add(c, b))
            R.output(d)
        return d


def fused() -> tirx.PrimFunc:
    """conv2d, add and relu as one annotated PrimFunc."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        AnnotateOpInfo(),
    ]
    mod = tvm.transform.Sequential(passes)(Block)
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func


def measure(func: tirx.PrimFunc, values: list[Any]) -> tuple[float, Any]:
    """Seconds of one call, the least of several, and the output."""
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    compiled = tvm.compile(mod, target="llvm")
    out = tvm.runtime.tensor(np.zeros([int(e) for e in func.params[-1].ty.shape], "float32"))
    arguments = [*map(tvm.runtime.tensor, values), out]
    timer = compiled.mod.time_evaluator("main", tvm.cpu(), number=3, repeat=5)
    return min(timer(*arguments).results), out.numpy()


def main() -> float:
    """Print and return how many times faster the scheduled function is."""
    func = fused()
    rng = np.random.default_rng(0)
    values = [
        rng.standard_normal([int(e) for e in p.ty.shape]).astype("float32")
        for p in func.params[:-1]
    ]
    before, expected = measure(func, values)
    after, got = measure(schedule(func), values)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    print(f"conv2d + add + relu: {before / after:.1f} x faster, outputs equal")
    return before / after


if __name__ == "__main__":
    main()
