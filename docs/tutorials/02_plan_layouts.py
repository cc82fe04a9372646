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
# The network has two convolutions in NCHW. The softmax between them expects channels last, so two
# transposes surround it. They move data without computing anything.


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
# Request the layouts for an operator: data in `NHWC`, weights in `OHWI`. opinfo derives the rest.
# It lowers the module, analyses how each PrimFunc reads and writes its buffers, and solves one
# optimisation problem over all values. `summary` counts the conversions of activations before and
# after. Weights do not count, because they are converted once, at compile time.

# %%
planned = opinfo.plan(Net, {"conv2d": ["NHWC", "OHWI"]})
print(planned.summary())

assert (planned.before.number, planned.after.number) == (2, 1)

# %% [markdown]
# The transposes are gone. The values between the convolutions are now in NHWC, so the softmax has
# its channels last without any data movement. Only the input is converted, and the report names
# the operator that requires it.

# %%
for conversion in planned.report.conversions:
    source, target = conversion.source.spell(), conversion.target.spell()
    print(f"{conversion.value} from {source} to {target}: {conversion.why}")

assert [c.value for c in planned.report.conversions] == ["x"]

# %% [markdown]
# The report lists the layout of each value and the reason for it:

# %%
for value in planned.report.values:
    print(f"{value.name:4} {value.layout.spell():5} {value.why}")

# %% [markdown]
# ## The same numbers
#
# `planned.module` is an ordinary lowered module. opinfo has proved that each rewritten PrimFunc is
# equivalent to the original. You can also run both:

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
# SqueezeNet from the `onnx` package has 26 convolutions, eight concatenations along the channels,
# pooling and dropout. In NCHW, it needs no conversion. With every convolution in NHWC, only the
# input is converted, and the solver has proved that no plan is cheaper.

# %%
light = Path(onnx.__file__).parent / "backend/test/data/light"
squeezenet = opinfo.plan(light / "light_squeezenet.onnx", {"conv2d": "NHWC"})
print(squeezenet.summary())

assert squeezenet.after.number == 1
assert "optimal" in squeezenet.summary()

# %% [markdown]
# ## Look at the page
#
# `html` writes one file that needs no server. It shows both graphs side by side and marks each
# conversion with its reason. This is the page for the small network. Click a node for details.

# %%
page = planned.html(title="Two convolutions")
HTML(f'<div><iframe srcdoc="{html.escape(page)}" width="100%" height="900"></iframe></div>')

# %%
assert page.lstrip().lower().startswith("<!doctype html>")
assert "relax.nn.conv2d is requested in NHWC" in page
assert 'src="http' not in page  # nothing is fetched

# %% [markdown]
# ## Keep operators that you can raise
#
# By default, a PrimFunc may read its buffers in any layout, even one that its operator cannot
# express. With `mode="graph"`, `RaiseOps` can raise every operator to Relax again, as passes and
# pattern tables require.

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
# If an operator or a layout does not exist, the error says what opinfo expected:

# %%
for wish in ({"conv2": "NHWC"}, {"conv2d": "NHCW4"}):
    try:
        opinfo.plan(Net, wish)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError("accepted")

# %% [markdown]
# ## Next steps
#
# - On the command line: `opinfo plan light_squeezenet.onnx --want conv2d=NHWC --html
#   squeezenet.html`.
# - [Layout planning](../guides/layout.md): costs, pins, packed layouts, your own implementations.
# - [Compile a model and call it from C++](03_deploy.md) plans layouts and backends together.
