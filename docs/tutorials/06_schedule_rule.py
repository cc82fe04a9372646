# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A schedule rule by op info
#
# A schedule rule sees only loops. Good tiles depend on the operator, for example on the strides and
# groups of a convolution, which lowering removes. In this tutorial you annotate each fused PrimFunc
# with its operators, and write a rule that chooses its tiles from the annotation.
#
# You need only opinfo.

# %%
import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import relax as R

import opinfo
from opinfo.analysis import Refusal, annotation
from opinfo.transform import AnnotateOpInfo

# %% [markdown]
# ## A fused convolution
#
# TVM fuses a grouped convolution with stride 2, a bias and a relu into one PrimFunc.
# `AnnotateOpInfo` is an ordinary pass; run it after `FuseTIR`.


# %%
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
            y = R.nn.relu(R.add(c, b))
            R.output(y)
        return y


fuse = tvm.transform.Sequential(
    [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        AnnotateOpInfo(),
    ]
)
module = fuse(Block)
func = module["fused_conv2d_add_relu"]

# %% [markdown]
# ## Read the annotation
#
# `annotation` returns the operators in order, with their attributes and the layout of each buffer,
# or a `Refusal`.

# %%
found = annotation(func)
for op in found.ops:
    print(op["name"], op["kind"], op["layouts"])
print(found.ops[0]["attrs"])

assert found.ops[0]["attrs"]["strides"] == [2, 2]
assert found.ops[0]["attrs"]["groups"] == 2

# %% [markdown]
# ## Choose tiles
#
# - A vector of outputs reads `stride` times as many inputs, so the stride divides the width of a
#   tile.
# - Output channels in the same group read the same inputs; channels in different groups do not. A
#   tile therefore never mixes groups.

# %%
LINE, ACCUMULATORS = 16, 4  # floats of a cache line, results kept in registers


def divisor(extent, most):
    return next(k for k in range(most, 0, -1) if extent % k == 0)


def tiles(conv, shape):
    """Output channels and width of a tile."""
    _, channels, _, width = shape
    in_group = channels // conv["attrs"]["groups"]
    wide = max(LINE // conv["attrs"]["strides"][1], 1)
    return divisor(in_group, min(in_group, ACCUMULATORS)), divisor(width, wide)


print(tiles(found.ops[0], (1, 64, 16, 16)))
assert tiles(found.ops[0], (1, 64, 16, 16)) == (4, 8)
depthwise = {"attrs": {"strides": [1, 1], "groups": 64}}
assert tiles(depthwise, (1, 64, 32, 28)) == (1, 14)

# %% [markdown]
# ## The rule
#
# Before it changes a loop, the rule checks that the function is a convolution in NCHW followed only
# by elementwise operators. It returns all other functions unchanged.


# %%
def rule(func):
    """The PrimFunc with its convolution tiled and vectorised, or as it was."""
    found = annotation(func)
    if isinstance(found, Refusal) or found.names[0] != "relax.nn.conv2d":
        return func
    conv, *rest = found.ops
    elementwise = all(op["kind"] in ("kElemWise", "kBroadcast") for op in rest)
    if set(conv["layouts"]) != {"NCHW", "OIHW"} or not elementwise:
        return func
    named = func.with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": named}))
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    place = next(k for k, b in enumerate(blocks) if len(schedule.get_loops(b)) == 7)
    for epilogue in blocks[place + 1 : -1]:
        schedule.compute_inline(epilogue)
    channels, width = tiles(conv, tuple(int(e) for e in func.params[-1].ty.shape))
    _, f, _, x, *reduction = schedule.get_loops(blocks[place])
    _, f_inner = schedule.split(f, [None, channels])
    _, x_inner = schedule.split(x, [None, width])
    schedule.reorder(*reduction, f_inner, x_inner)
    schedule.vectorize(x_inner)
    schedule.unroll(f_inner)
    init = schedule.decompose_reduction(blocks[place], reduction[0])
    schedule.vectorize(schedule.get_loops(init)[-1])
    for other in {blocks[0], blocks[-1]} - {blocks[place]}:
        schedule.vectorize(schedule.get_loops(other)[-1])
    return schedule.mod["main"].without_attr("global_symbol")


scheduled = rule(func)
assert not tvm_ffi.structural_equal(scheduled, func)

# %% [markdown]
# ## Compare results and speed
#
# Both functions are built for the CPU of the machine that built this page.

# %%
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
rng = np.random.default_rng(0)
values = [
    rng.standard_normal([int(e) for e in p.ty.shape]).astype("float32") for p in func.params[:-1]
]


def measure(func):
    """Microseconds of a call, the least of several, and the output."""
    named = func.with_attr("global_symbol", "main")
    compiled = tvm.compile(tvm.IRModule({"main": named}), target=target)
    output = tvm.runtime.tensor(np.zeros((1, 64, 16, 16), "float32"))
    arguments = [*map(tvm.runtime.tensor, values), output]
    timer = compiled.mod.time_evaluator("main", tvm.cpu(), number=3, repeat=5)
    return min(timer(*arguments).results) * 1e6, output.numpy()


before, expected = measure(func)
after, result = measure(scheduled)
np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
print(f"{before:.0f} us before, {after:.0f} us after: {before / after:.0f}x faster")

# %% [markdown]
# ## Use the rule in a build
#
# A PrimFunc pass applies the rule to every function of a module, here between fusion and the rest
# of TVM's pipeline.


# %%
@tvm.tirx.transform.prim_func_pass(opt_level=0)
def Rule(func, module, context):
    return rule(func)


pipeline = tvm.transform.Sequential([fuse, Rule, relax.get_pipeline("default_build")])
built = tvm.compile(Block, target, relax_pipeline=pipeline)
main = relax.VirtualMachine(built, tvm.cpu())["main"]
whole = main(*map(tvm.runtime.tensor, values)).numpy()
np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-4)
print("the whole model computes the same")

# %% [markdown]
# ## A stale annotation is refused
#
# The annotation contains a hash of the body that it describes. After the rule has changed the body,
# `annotation` refuses, so a later pass cannot use stale facts. If the rule runs again, it does
# nothing.

# %%
refusal = annotation(scheduled)
print(refusal)
assert isinstance(refusal, Refusal)
assert tvm_ffi.structural_equal(rule(scheduled), scheduled)

# %% [markdown]
# If you need the operators of the new body, analyse it again. opinfo recovers them despite the
# schedule:

# %%
chain = opinfo.analysis.op_infos(scheduled)
print([step.name for step in chain.steps])
assert [s.name for s in chain.steps] == ["relax.nn.conv2d", "relax.add", "relax.nn.relu"]

# %% [markdown]
# ## Next steps
#
# - [Passes in your own pipeline](../guides/passes.md) lists opinfo's passes and their places.
# - `examples/schedule_conv.py` contains this rule as a script.
# - You can also run `opinfo.transform.AnnotateOpInfo` between `AnnotateTIROpPattern` and `FuseOps`.
#   PrimFuncs with packed buffers then fuse like others.
# - [Serve a model with symbolic shapes](04_symbolic_shapes.md) uses opinfo's own schedules.
