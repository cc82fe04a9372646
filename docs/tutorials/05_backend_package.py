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
# # Write a backend as a package
#
# You have a library or a device that computes dense layers faster than TVM does. In this tutorial
# you package it as a backend. The package contains patterns for the operators that it takes, a
# converter that generates C++, an entry point through which opinfo discovers it, and tests that
# opinfo generates. It is `examples/npu_backend` in the repository; this page and
# [Example packages](../reference/example-packages.md) show all its files. Copy it to start your
# own. Run this notebook in a checkout of the repository.
#
# You need opinfo, g++, pytest, and pip with hatchling, which builds the package.

# %%
import dataclasses
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from IPython.display import Markdown
from tvm import relax

import opinfo

here = Path.cwd()
root = next(p for p in (here, *here.parents) if (p / "examples/npu_backend").is_dir())
package = root / "examples/npu_backend"


def show(name):
    """A file of the package."""
    language = {".py": "python", ".toml": "toml"}[Path(name).suffix]
    return Markdown(f"`{name}`\n\n```{language}\n{(package / name).read_text()}```")


# %% [markdown]
# ## The patterns
#
# A pattern is a chain that starts with one operator; others may follow. Conditions check the
# attributes, shapes and dtypes of the recovered operator. A condition returns None if it holds, and
# otherwise the reason, which opinfo shows to users. `Unmet` also suggests what to change.

# %%
show("src/tiny_npu/patterns.py")

# %% [markdown]
# ## The converter
#
# The converter receives all matched regions of a model at once. It returns the constants and C++
# code with one function for each region. A function receives the inputs of its region, then the
# results. `ABI` implements TVM's calling convention in a few lines of C++. A converter for a real
# device would call the device's library here.

# %%
show("src/tiny_npu/convert.py")

# %% [markdown]
# ## The backend
#
# A backend consists of a name, the patterns and the converter. If it cannot be used on this
# machine, `available` returns the reason in one line. `version` prevents saved plans from being
# used with another version of your code.

# %%
show("src/tiny_npu/__init__.py")

# %% [markdown]
# ## The package
#
# opinfo discovers the backend through the entry point in the group `opinfo.backends`. You do not
# have to import the package.

# %%
show("pyproject.toml")

# %% [markdown]
# Normally you run `pip install -e '.[test]'` in the folder of the package. This page installs it
# into a temporary folder, so that your environment stays unchanged.

# %%
site = Path(tempfile.mkdtemp(prefix="opinfo-tutorial-"))
options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", site]
subprocess.run([sys.executable, "-m", "pip", "install", *options, package], check=True)
sys.path.insert(0, str(site))

backend = next(b for b in opinfo.byoc.list_backends() if b.name == "tiny_npu")
print(backend)

# %% [markdown]
# ## Use it
#
# The model has two dense layers with a `tanh` after the second, and a third whose weights are an
# input. You name the backend like any other. opinfo recovers the operators in the lowered module,
# offloads those that match a pattern, and says why the others stay with TVM.

# %%
rng = np.random.default_rng(0)
weights = [rng.standard_normal(s).astype("float32") for s in ((64, 128), (128,), (128, 32))]
x = relax.Var("x", relax.TensorType((8, 64), "float32"))
last = relax.Var("last", relax.TensorType((32, 10), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x, last]):
    with builder.dataflow():
        w1, b1, w2 = map(relax.const, weights)
        y = builder.emit(relax.op.matmul(x, w1))
        y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(y, b1))))
        y = builder.emit(relax.op.tanh(builder.emit(relax.op.matmul(y, w2))))
        y = builder.emit_output(builder.emit(relax.op.matmul(y, last)))
    builder.emit_func_output(y)
module = builder.get()

compiled = opinfo.compile(module, ["tiny_npu"])
print(compiled.report())
for left in compiled.dispatched.left:
    print(f"{left.op}: {left.why}")

reasons = {left.op: left.why for left in compiled.dispatched.left}
assert "the weights are not constant" in reasons["relax.matmul"]
assert "no pattern of tiny_npu has relax.tanh" in reasons["relax.tanh"]

# %% [markdown]
# Two regions went to the backend. The results are correct:

# %%
regions = [taken.ops for taken in compiled.dispatched.taken if taken.backend == "tiny_npu"]
print(regions)
assert len(regions) == 2

values = [rng.standard_normal(s).astype("float32") for s in ((8, 64), (32, 10))]
hidden = np.maximum(values[0] @ weights[0] + weights[1], 0)
expected = np.tanh(hidden @ weights[2]) @ values[1]
np.testing.assert_allclose(compiled.run(*values), expected, rtol=1e-3, atol=1e-3)

# %% [markdown]
# ## Test it
#
# You write examples: small programs, and the operators that the backend must take.
# `opinfo.testing` generates test cases from them. They check that the entry point works, that an
# example covers each pattern, that the results equal those of TVM's own code, that the same regions
# give the same code, and that an exported library runs in a new process.

# %%
show("tests/test_tiny_npu.py")

# %%
options = ["-p", "no:cacheprovider", "--rootdir", site, "--import-mode=importlib"]
environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
tests = subprocess.run(
    [sys.executable, "-m", "pytest", "-q", *options, package / "tests"],
    cwd=site,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
)
print(tests.stdout)
assert tests.returncode == 0, tests.stdout + tests.stderr

# %% [markdown]
# ## What a mistake looks like
#
# If a converter generates code that does not build, only its regions are lost. In this example, the
# C++ does not compile. The operators go to TVM, the results stay correct, and the warning contains
# the compiler's first error.

# %%
tiny_npu = importlib.import_module("tiny_npu").TINY_NPU


def broken(regions):
    code = tiny_npu.convert(regions)
    return dataclasses.replace(code, source=code.source.replace("float sum", "flaot sum"))


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    failing = opinfo.compile(module, [dataclasses.replace(tiny_npu, convert=broken)])
print(caught[-1].message)

np.testing.assert_allclose(failing.run(*values), expected, rtol=1e-3, atol=1e-3)
assert not failing.dispatched.taken and failing.dispatched.failed

# %% [markdown]
# ## Clean up

# %%
shutil.rmtree(site)

# %% [markdown]
# ## Next steps
#
# - [Plug-ins](../guides/plug-ins.md): entry points in detail, recognisers, trust.
# - [Add a backend](../guides/add-a-backend.md): conditions and constants.
# - [Backends: layouts, costs, subgraphs](../guides/backend-options.md), for devices with their own
#   memory.
# - On the command line: `opinfo compile model.onnx -o model.so --backend tiny_npu,tvm --explain`.
