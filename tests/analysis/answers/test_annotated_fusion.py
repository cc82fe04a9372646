"""Patterns of functions that annotations let TVM fuse, in packed layouts too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.analysis import Annotation, annotation
from opinfo.analysis.annotate import PATTERNS
from opinfo.analysis.answer.kind import fusion_kind
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.support.tvm_compat import StmtSimplify, source_of
from opinfo.transform import AnnotateOpInfo
from tests.common.compose import call, operands
from tests.common.prim_funcs import prim_funcs_by_name
from tests.common.run import run


@tvm.script.ir_module
class Loops:
    """A root block, and a plain loop that ``FuseTIR`` cannot merge with it."""

    @T.prim_func(private=True, s_tir=True)
    def block(x: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.sblock("exp"):
                v = T.axis.spatial(8, i)
                o[v] = T.exp(x[v])

    @T.prim_func(private=True, s_tir=True)
    def loop(x: T.Buffer((8,), "float32"), o: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            o[i] = T.max(x[i], T.float32(0))

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Loops
        with R.dataflow():
            a = R.call_tir(cls.block, (x,), out_ty=R.Tensor((8,), "float32"))
            b = R.call_tir(cls.loop, (a,), out_ty=R.Tensor((8,), "float32"))
            R.output(b)
        return b


def test_what_cannot_be_fused_gets_no_pattern() -> None:
    mod = AnnotateOpInfo()(Loops)
    assert prim_funcs_by_name(mod)["block"].attrs["op_pattern"] == PATTERNS["kElemWise"]
    assert isinstance(annotation(prim_funcs_by_name(mod)["loop"]), Annotation)
    assert "op_pattern" not in prim_funcs_by_name(mod)["loop"].attrs
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    assert _calls(fused) == 2


@tvm.script.ir_module
class Net:
    @R.function
    def main(
        x: R.Tensor((1, 8, 8, 8), "float32"),
        w: R.Tensor((8, 8, 3, 3), "float32"),
        b: R.Tensor((1, 8, 1, 1), "float32"),
    ) -> R.Tensor((1, 8, 8, 8), "float32"):
        with R.dataflow():
            c = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
            d = R.add(c, b)
            e = R.nn.relu(d)
            f = R.nn.conv2d(e, w, padding=[1, 1, 1, 1])
            g = R.add(f, b)
            h = R.add(g, e)
            i = R.nn.relu(h)
            R.output(i)
        return i


def _pack(n: Any, c: Any, h: Any, w: Any) -> list[Any]:
    return [n, c // 4, h, w, c % 4]


def _packed_func(func: Any) -> Any:
    """Every buffer of four axes in NCHW4c, but not the kernel."""
    s = tvm.s_tir.Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    blocks = s.get_child_blocks(s.get_sblock("root"))
    for block in blocks:
        for k, region in enumerate(s.get(block).reads):
            kernel = len(blocks) > 1 and block is blocks[-1] and k == 1
            if source_of(region) in func.params and not kernel:
                s.transform_layout(block, ("read", k), _pack)
    s.transform_layout(blocks[-1], ("write", 0), _pack)
    return StmtSimplify()(s.mod)["main"].without_attr("global_symbol")


def _packed(mod: tvm.IRModule) -> tvm.IRModule:
    """`main` over packed tensors, calling the packed PrimFuncs."""
    lowered = relax.transform.LegalizeOps()(mod)
    builder = relax.BlockBuilder()
    prims = {
        g: builder.add_func(_packed_func(f), g) for g, f in prim_funcs_by_name(lowered).items()
    }
    main = lowered["main"]
    shapes = [(1, 2, 8, 8, 4), (8, 8, 3, 3), (1, 2, 1, 1, 4)]
    params = [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    values = dict(zip(main.params, params, strict=True))
    out = relax.TensorType(shapes[0], "float32")
    with builder.function("main", params):
        with builder.dataflow():
            for block in main.body.blocks:
                for x in block.bindings:
                    gvar = x.value.args[0].name_hint
                    given = [values[a] for a in x.value.args[1].fields]
                    values[x.var] = builder.emit(relax.call_tir(prims[gvar], given, out_ty=out))
            last = builder.emit_output(values[main.body.body])
        builder.emit_func_output(last)
    return builder.get()


def _calls(mod: tvm.IRModule) -> int:
    count = 0
    for block in mod["main"].body.blocks:
        for x in block.bindings:
            callee = x.value.args[0] if getattr(x.value, "args", ()) else None
            count += isinstance(callee, tvm.ir.GlobalVar) or isinstance(
                getattr(x.value, "op", None), tvm.ir.GlobalVar
            )
    return count


def test_elementwise_is_claimed_by_its_definition() -> None:
    """Another value at one place of the first operand changes the output there and nowhere else."""
    prims = prim_funcs_by_name(
        AnnotateOpInfo()(relax.transform.AnnotateTIROpPattern()(_packed(Net)))
    )
    claimed = [f for f in prims.values() if f.attrs["op_pattern"] == PATTERNS["kElemWise"]]
    assert len(claimed) == 3
    for func in claimed:
        values = operands(func, 1)
        (before,) = call(func, values, 1)
        for place in ((0, 0, 0, 0, 0), (0, 1, 2, 5, 3)):
            changed = [values[0].copy(), *values[1:]]
            changed[0][place] += 1
            (after,) = call(func, changed, 1)
            assert [tuple(p) for p in np.argwhere(before != after)] == [place]


def test_packed_functions_fuse() -> None:
    patterns = relax.transform.AnnotateTIROpPattern()
    fuse = tvm.transform.Sequential([relax.transform.FuseOps(), relax.transform.FuseTIR()])
    packed = patterns(_packed(Net))
    plain, ours = fuse(packed), fuse(AnnotateOpInfo()(packed))
    assert (_calls(fuse(patterns(relax.transform.LegalizeOps()(Net)))), _calls(ours)) == (2, 2)
    assert _calls(plain) == 7
    rng = np.random.default_rng(0)
    shapes = [(1, 2, 8, 8, 4), (8, 8, 3, 3), (1, 2, 1, 1, 4)]
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    (a,), (b,) = run(plain, values), run(ours, values)
    np.testing.assert_array_equal(a, b)


IN_PLACE = {
    "bias of a packed axis": ((1, 4, 5, 6, 8), (32,), "x[a, b, c, d, e] + y[b * 8 + e]", True),
    "bias, kept dimensions": ((1, 4, 5, 6, 8), (1, 32, 1, 1),
                              "x[a, b, c, d, e] + y[0, b * 8 + e, 0, 0]", True),
    "the other way round": ((1, 4, 5, 6, 8), (32,), "x[a, b, c, d, e] + y[e * 4 + b]", False),
    "another place value": ((1, 4, 5, 6, 8), (40,), "x[a, b, c, d, e] + y[b * 9 + e]", False),
    "no operand in place": ((1, 4, 5, 6, 8), (32,), "x[a, 3 - b, c, d, e] + y[b * 8 + e]", False),
    "the same memory": ((1, 4, 1, 1, 8), (1, 32, 1, 1),
                        "x[a, b, c, d, e] + y[0, b * 8 + e, 0, 0]", True),
    "other memory": ((1, 4, 1, 1, 8), (1, 32, 1, 1),
                     "T.exp(y[0, e * 4 + b, 0, 0])", False),
    "memory of another shape": ((1, 4, 1, 1, 8), (1, 32, 1, 1),
                                "T.exp(y[0, b * 8 + e, 0, 0])", True),
    "a reshape": ((1, 4, 1, 1, 8), (1, 32, 1, 1), "y[0, b * 8 + e, 0, 0]", False),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_may_follow_in_the_loops_of_an_operand(name: str) -> None:
    """A packed bias reads its channels in the order of the output: FuseOps may take it along."""
    shape, other, body, follows = IN_PLACE[name]
    func = tvm.script.from_source(f"""# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer({shape}, "float32"), y: T.Buffer({other}, "float32"),
         o: T.Buffer({shape}, "float32")):
    for i, j, k, l, m in T.grid(*{shape}):
        with T.sblock("o"):
            a, b, c, d, e = T.axis.remap("SSSSS", [i, j, k, l, m])
            o[a, b, c, d, e] = {body}
""")
    found = fusion_kind(lift(func))
    assert (found == "kElemWise") == follows
