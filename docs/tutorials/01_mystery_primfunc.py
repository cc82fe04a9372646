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
# # Inspect a mystery PrimFunc
#
# You have only the body of a TIR PrimFunc: no name, no attributes, no call site. In this tutorial
# you identify the operator that it computes, read the certificate, rebuild the operator, and see
# what happens if the function computes something else. Then you do the same for a whole model.
#
# You need `opinfo[onnx]`.

# %%
from pathlib import Path

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo

# %% [markdown]
# ## The function
#
# All loops are fused into two, so divisions and remainders hide the window, the channels and the
# groups.


# %%
@T.prim_func(s_tir=True)
def mystery(
    a: T.Buffer((1, 8, 16, 16), "float32"),
    b: T.Buffer((16, 4, 3, 3), "float32"),
    c: T.Buffer((1, 16, 8, 8), "float32"),
):
    for i in T.serial(1024):
        for r in T.serial(36):
            with T.sblock("x"):
                f = T.axis.spatial(16, i // 64)
                y = T.axis.spatial(8, i // 8 % 8)
                x = T.axis.spatial(8, i % 8)
                k = T.axis.reduce(4, r // 9)
                u = T.axis.reduce(3, r // 3 % 3)
                v = T.axis.reduce(3, r % 3)
                with T.init():
                    c[0, f, y, x] = T.float32(0)
                c[0, f, y, x] += b[f, k, u, v] * T.if_then_else(
                    y * 2 + u >= 1 and x * 2 + v >= 1,
                    a[0, f // 8 * 4 + k, y * 2 + u - 1, x * 2 + v - 1],
                    T.float32(0),
                )


# %% [markdown]
# `opinfo.inspect` takes a PrimFunc or a module and shows a table. Open a row to see the attributes
# and the certificate.

# %%
opinfo.inspect(mystery)

# %% [markdown]
# ## The answer as an object
#
# `op_info` returns an `OpInfo`. Attributes are plain Python values. `operands` lists, for each
# argument of the operator, the position of the PrimFunc's parameter.

# %%
info = opinfo.analysis.op_info(mystery)
print(info.name, info.operands, info.kind)
for name, value in info.attrs.items():
    print(f"  {name} = {value!r}")

assert info.name == "relax.nn.conv2d"
assert info.attrs["strides"] == (2, 2) and info.attrs["groups"] == 2

# %% [markdown]
# ## Why you can trust it
#
# The certificate says how opinfo checked the answer. `proved` means that opinfo lowered the
# convolution with these attributes and proved from the index expressions that the result computes
# the same as this PrimFunc. `exact` is false because a sum may be evaluated in another order.
# `assumptions` lists everything that the proof relies on.

# %%
print(info.certificate.kind, "exact" if info.certificate.exact else "not exact")
for assumption in info.certificate.assumptions:
    print("-", assumption)

assert info.certificate.kind == "proved" and not info.certificate.exact

# %% [markdown]
# You can also check the answer yourself. `info.bind` returns the operator's arguments by name, so
# one line rebuilds the operator. Run both functions on the same random inputs.

# %%
x = relax.Var("x", R.Tensor((1, 8, 16, 16), "float32"))
w = relax.Var("w", R.Tensor((16, 4, 3, 3), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x, w]):
    builder.emit_func_output(builder.emit(relax.op.nn.conv2d(**info.bind([x, w]))))
machine = relax.VirtualMachine(tvm.compile(builder.get(), "llvm"), tvm.cpu())

rng = np.random.default_rng(0)
values = [rng.standard_normal(s).astype("float32") for s in ((1, 8, 16, 16), (16, 4, 3, 3))]
tensors = [tvm.runtime.tensor(value) for value in values]
expected = machine["main"](*tensors).numpy()

result = tvm.runtime.tensor(np.zeros((1, 16, 8, 8), "float32"))
tvm.compile(mystery, "llvm")(*tensors, result)
np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)
print("largest difference", np.abs(result.numpy() - expected).max())

# %% [markdown]
# ## A different function
#
# The next function reads one column less on the left: `>= 2` instead of `>= 1`. It looks like the
# same convolution but is not. opinfo does not guess. It returns a `Refusal` with the reason and the
# nearest operator.


# %%
@T.prim_func(s_tir=True)
def impostor(
    a: T.Buffer((1, 8, 16, 16), "float32"),
    b: T.Buffer((16, 4, 3, 3), "float32"),
    c: T.Buffer((1, 16, 8, 8), "float32"),
):
    for f, y, x, k, u, v in T.grid(16, 8, 8, 4, 3, 3):
        with T.sblock("x"):
            f, y, x, k, u, v = T.axis.remap("SSSRRR", [f, y, x, k, u, v])
            with T.init():
                c[0, f, y, x] = T.float32(0)
            c[0, f, y, x] += b[f, k, u, v] * T.if_then_else(
                y * 2 + u >= 1 and x * 2 + v >= 2,
                a[0, f // 8 * 4 + k, y * 2 + u - 1, x * 2 + v - 1],
                T.float32(0),
            )


refusal = opinfo.analysis.op_info(impostor)
print(refusal)
assert isinstance(refusal, opinfo.analysis.Refusal)
assert refusal.where == "relax.nn.conv2d"

# %% [markdown]
# ## One function, two operators
#
# Sometimes several operators compute the same function. With `alternatives=True`, opinfo certifies
# each of them.


# %%
@T.prim_func(s_tir=True)
def drop_unit_axes(a: T.Buffer((4, 1, 8, 1), "float32"), b: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("b"):
            i, j = T.axis.remap("SS", [i, j])
            b[i, j] = a[i, 0, j, 0]


both = opinfo.analysis.op_info(drop_unit_axes, alternatives=True)
names = [both.name, *(other.name for other in both.alternatives)]
print(names)
assert "relax.reshape" in names and "relax.squeeze" in names

# %% [markdown]
# ## A whole model
#
# `opinfo.load` reads `.onnx`, `.pt2`, `.json` and `.py` files. The `onnx` package includes
# SqueezeNet. `inspect` lowers the model and analyses every PrimFunc once.

# %%
light = Path(onnx.__file__).parent / "backend/test/data/light"
model = opinfo.load(light / "light_squeezenet.onnx")
report = opinfo.inspect(model)
print(report.summary())

recovered, total = report.sites()
assert recovered == total and not report.refused

# %% [markdown]
# Rows are plain data that you can filter; `report.to_json()` returns JSON for other programs. This
# cell prints the convolutions that pad their input.

# %%
for row in report.rows:
    if row.result.name == "relax.nn.conv2d" and any(row.result.attrs["padding"]):
        print(row.func, row.output, row.result.attrs["padding"])

assert sum(row.result.name == "relax.nn.conv2d" for row in report.rows) > 10

# %% [markdown]
# ## After fusion
#
# `FuseOps` and `FuseTIR` merge several operators into one PrimFunc. `op_infos` returns them in
# order. `%0` is a parameter of the PrimFunc, and `$0` is the result of a step.

# %%
fuse = tvm.transform.Sequential(
    [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
)
fused = fuse(model)["fused_conv2d_add_relu"]
chain = opinfo.analysis.op_infos(fused)
for step in chain.steps:
    print(step.name, step.operands)

assert [s.name for s in chain.steps] == ["relax.nn.conv2d", "relax.add", "relax.nn.relu"]

# %% [markdown]
# ## Next steps
#
# - On the command line, run `opinfo inspect light_squeezenet.onnx --fused`; add `--explain` for all
#   details of each function.
# - [Plan layouts and look at the page](02_plan_layouts.md) builds on these answers.
# - [A schedule rule by op info](06_schedule_rule.md) attaches them to the function as attributes.
# - [Add an operator](../guides/add-an-operator.md) teaches opinfo a new operator.
