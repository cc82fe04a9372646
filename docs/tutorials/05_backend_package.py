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
# you package it as a backend: patterns that say what it takes, a converter that writes C++, an
# entry point by which opinfo discovers it, and tests that opinfo writes for you. The package is
# `examples/npu_backend` in the repository, and all its files are on this page and under
# [Example packages](../reference/example-packages.md). Copy it to start yours.
#
# Run this notebook in a checkout of the repository.
#
# You need opinfo, g++, pytest and pip.

# %%
import dataclasses
import importlib
import os
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
# A pattern is a chain: it starts with one operator, and others may follow. Conditions look at the
# recovered operator: its attributes, shapes, dtypes. A condition returns None if it holds, and
# otherwise the reason, which users will read. `Unmet` also suggests what would help.

# %%
show("src/tiny_npu/patterns.py")

# %% [markdown]
# ## The converter
#
# It gets all matched regions of a model at once, and returns C++ with one function for each
# region, and the constants. A function gets the inputs of its region and then its results. `ABI`
# is the calling convention of TVM in a few lines of C++. A converter for a real device would call
# the device's library here.

# %%
show("src/tiny_npu/convert.py")

# %% [markdown]
# ## The backend
#
# A name, the patterns and the converter. `available` says in one line why the backend cannot be
# used on this machine. `version` keeps saved plans from being used with another version of your
# code.

# %%
show("src/tiny_npu/__init__.py")

# %% [markdown]
# ## The package
#
# The entry point in the group `opinfo.backends` is all that opinfo needs to discover it. Nobody
# has to import the package.

# %%
show("pyproject.toml")

# %% [markdown]
# You would run `pip install -e '.[test]'` in the folder of the package. This page installs it into
# a folder of its own, to leave your environment alone.

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
# Two dense layers with a `tanh` between them, and a third one whose weights are an input. The
# backend is named like any other. opinfo finds the operators in the lowered module, hands over
# what the patterns take, and says why the rest stays.

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
# Two regions went to the backend. The numbers are right:

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
# You write examples: small programs, and what the backend takes of them. `opinfo.testing` makes
# test cases of them: the entry point works, each pattern is taken in some example, the numbers are
# those of TVM's own code, the same regions give the same code, and an exported library runs in a
# new process.

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
# A converter that writes wrong code costs its regions only. Here the C++ does not compile: the
# operators go to TVM, the numbers stay right, and the failure is named with the compiler's first
# error.

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
# ## Where to go on
#
# - [Plug-ins](../guides/plug-ins.md): entry points in detail, recognisers, what discovery costs,
#   trust.
# - [Add a backend](../guides/add-a-backend.md): conditions, costs, constants, whole parts of a
#   graph for devices with a memory of their own.
# - On the command line: `opinfo compile model.onnx -o model.so --backend tiny_npu,tvm --explain`.
