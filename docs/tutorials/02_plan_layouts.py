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
# # Plan layouts and look at the page
#
# Convolutions run faster in some layouts than in others, and every change of layout costs a copy.
# In this tutorial you plan the layouts of a small network and of SqueezeNet, see which conversions
# are left and why, and check that the planned module computes the same.
#
# You need `opinfo[onnx]`.

# %%
import html
from pathlib import Path

import numpy as np
import onnx
import tvm
from IPython.display import HTML
from tvm import relax
from tvm.script import relax as R

import opinfo

# %% [markdown]
# ## A network with a detour
#
# Two convolutions in NCHW. The softmax between them was written for channels that are last, so
# there are two transposes around it: they move data and compute nothing.


# %%
@tvm.script.ir_module
class Net:
    @R.function
    def main(
        x: R.Tensor((1, 8, 16, 16), "float32"),
        w1: R.Tensor((8, 8, 3, 3), "float32"),
        w2: R.Tensor((8, 8, 3, 3), "float32"),
    ):
        R.func_attr({"num_input": 1})  # the parameters after the first are weights
        with R.dataflow():
            a = R.nn.relu(R.nn.conv2d(x, w1, padding=[1, 1, 1, 1]))
            b = R.permute_dims(a, [0, 2, 3, 1])
            c = R.permute_dims(R.nn.softmax(b, axis=-1), [0, 3, 1, 2])
            y = R.mean(R.nn.conv2d(c, w2, padding=[1, 1, 1, 1]), axis=[2, 3])
            R.output(y)
        return y


# %% [markdown]
# ## Plan
#
# Say which layouts an operator wants: data in `NHWC`, weights in `OHWI`. Everything else follows.
# opinfo lowers the module, looks at how each PrimFunc reads and writes its buffers, and solves one
# optimisation problem over all values at once. `summary` counts the conversions before and after.
# They are counted for activations; weights are converted once, when the model is compiled.

# %%
planned = opinfo.plan(Net, {"conv2d": ["NHWC", "OHWI"]})
print(planned.summary())

assert (planned.before.number, planned.after.number) == (2, 1)

# %% [markdown]
# The transposes are gone: the values between the convolutions are in NHWC now, and so the softmax
# has its channels last without moving anything. One conversion is left, of the input, and the
# report says for whom.

# %%
for conversion in planned.report.conversions:
    source, target = conversion.source.spell(), conversion.target.spell()
    print(f"{conversion.value} from {source} to {target}: {conversion.why}")

assert [c.value for c in planned.report.conversions] == ["x"]

# %% [markdown]
# Each value has its layout and the reason for it:

# %%
for value in planned.report.values:
    print(f"{value.name:4} {value.layout.spell():5} {value.why}")

# %% [markdown]
# ## The same numbers
#
# `planned.module` is an ordinary lowered module. opinfo has proved each PrimFunc that it rewrote
# against the old one. Still, run both:

# %%
rng = np.random.default_rng(0)
values = [
    tvm.runtime.tensor(rng.standard_normal([int(e) for e in p.ty.shape]).astype("float32"))
    for p in Net["main"].params
]


def run(module):
    return relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())["main"](*values).numpy()


np.testing.assert_allclose(run(planned.module), run(Net), rtol=1e-5, atol=1e-5)
print("equal")

# %% [markdown]
# ## A real model
#
# SqueezeNet from the `onnx` package: 26 convolutions, eight concatenations along the channels,
# pools, dropout. It has no conversion in NCHW. With every convolution in NHWC, one conversion of
# the input is all that it takes, and the solver has proved that no plan is cheaper.

# %%
light = Path(onnx.__file__).parent / "backend/test/data/light"
squeezenet = opinfo.plan(light / "light_squeezenet.onnx", {"conv2d": "NHWC"})
print(squeezenet.summary())

assert squeezenet.after.number == 1
assert "optimal" in squeezenet.summary()

# %% [markdown]
# ## Look at the page
#
# `html` writes one file that needs no server: both graphs side by side, with the conversions
# marked and the reason for each. This is the page of the small network. Click a node to see what
# it is.

# %%
page = planned.html(title="Two convolutions")
HTML(f'<div><iframe srcdoc="{html.escape(page)}" width="100%" height="900"></iframe></div>')

# %%
assert page.lstrip().lower().startswith("<!doctype html>")
assert "relax.nn.conv2d wants NHWC" in page
assert 'src="http' not in page  # nothing is fetched

# %% [markdown]
# ## Keep operators that you can raise
#
# By default a PrimFunc may read its buffers in any layout, also in one that its operator has no
# name for. With `mode="graph"` every operator stays one that `RaiseOps` can raise to Relax again,
# which passes and pattern tables need.

# %%
graph = opinfo.plan(Net, {"conv2d": ["NHWC", "OHWI"]}, mode="graph")
raised = opinfo.transform.RaiseOps()(graph.module)
text = raised["main"].script()
print(graph.summary())

assert "call_tir" not in text
assert text.count('data_layout="NHWC"') == 2

# %% [markdown]
# ## Wrong names
#
# An operator or a layout that does not exist is an error, which says what was expected:

# %%
for wish in ({"conv2": "NHWC"}, {"conv2d": "NHCW4"}):
    try:
        opinfo.plan(Net, wish)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError("accepted")

# %% [markdown]
# ## Where to go on
#
# - On the command line: `opinfo plan light_squeezenet.onnx --want conv2d=NHWC --html
#   squeezenet.html`.
# - [Layout planning](../guides/layout.md): costs, pins, packed layouts, your own implementations.
# - [Compile a model and call it from C++](03_deploy.md) plans layouts and backends in one problem.
