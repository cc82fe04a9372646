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
# # Serve a model with symbolic shapes
#
# Requests arrive in different lengths. In this tutorial you compile one model for any length, serve
# it with a `Session` that compiles kernels for the lengths that actually occur, keep these kernels
# on disk for the next start, and then compile for lengths that you know in advance.
#
# You need `opinfo[onnx]` and g++.

# %%
import os

os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import tvm
from onnx import numpy_helper
from tvm import relax

import opinfo

work = Path(tempfile.mkdtemp(prefix="opinfo-tutorial-"))

# %% [markdown]
# ## A model of any length
#
# The model is a token classifier in an ONNX file. Its length is the symbolic dimension `n`. PyTorch
# programs exported with `torch.export.Dim` work the same way.

# %%
model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
classifier (float[n, 64] tokens) => (float[n, 10] scores) {
  hidden = MatMul(tokens, w1)
  active = Relu(hidden)
  logits = MatMul(active, w2)
  scores = Softmax<axis = -1>(logits)
}
""")
rng = np.random.default_rng(0)
w1 = (rng.standard_normal((64, 256)) / 8).astype("float32")
w2 = (rng.standard_normal((256, 10)) / 16).astype("float32")
model.graph.initializer.append(numpy_helper.from_array(w1, "w1"))
model.graph.initializer.append(numpy_helper.from_array(w2, "w2"))
onnx.save(model, work / "classifier.onnx")

module = opinfo.load(work / "classifier.onnx")
print(module["main"].params[0].ty)


# %%
def reference(tokens):
    """The model in numpy, to compare with."""
    logits = np.maximum(tokens @ w1, 0) @ w2
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def draw(length):
    return rng.standard_normal((length, 64)).astype("float32")


# %% [markdown]
# ## Compile for any shape
#
# With `shapes="jit"`, opinfo compiles one generic kernel for each function, scheduled for symbolic
# shapes. The report names the schedule rule of each function. `run` works for any length.

# %%
compiled = opinfo.compile(module, shapes="jit")
print(compiled)

for length in (1, 7, 300):
    tokens = draw(length)
    np.testing.assert_allclose(compiled.run(tokens), reference(tokens), rtol=1e-4, atol=1e-5)
print("right at 1, 7 and 300")

# %% [markdown]
# ## Serve
#
# A `Session` counts the shapes of requests. When a shape has occurred twice, a second process
# compiles kernels for it. Until then, the generic kernels serve it, so no request waits. The
# session uses a new kernel only after comparing it with the generic one.
#
# `store` keeps kernels on disk. Without a folder it uses `$OPINFO_CACHE` or your cache folder.

# %%
store = opinfo.jit.KernelStore(work / "kernels")
requests = [draw(length) for length in (1, 7, 1, 7, 33, 1, 33, 7)]

with opinfo.Session(compiled, store=store) as session:
    for tokens in requests:
        session(tokens)
    session.settle()  # wait for the compiler, so that this page is always the same
    for tokens in requests:
        np.testing.assert_allclose(session(tokens).numpy(), reference(tokens), rtol=1e-4, atol=1e-5)
    stats = session.stats()
    print(stats)

assert stats.counts["compiled"] == 9  # three functions, three lengths
assert stats.hit_rate == 0.5  # the second round, all of it

# %% [markdown]
# `stats` also counts calls by function and by shape:

# %%
for site in stats.sites:
    print(site.site, dict(site.shapes), f"{site.hit_rate:.0%} by special kernels")

# %% [markdown]
# ## Start again
#
# A new session with the same store loads the kernels and compiles nothing. The key of a kernel
# includes the function, the target, the compiler and opinfo itself, so another model or a new
# version never gets a stale kernel.

# %%
with opinfo.Session(compiled, store=store) as session:
    for tokens in requests:
        session(tokens)
    session.settle()
    counts = session.stats().counts
    print(dict(counts))

assert counts["loaded"] == 9 and not counts["compiled"]

# %% [markdown]
# ## Speed
#
# This cell compares the session with TVM's own build for the same CPU. It prints the best of 20
# calls at length 33, with one thread, on the machine that built this page.


# %%
def best(call, tokens):
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call(tokens)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


tokens = tvm.runtime.tensor(draw(33))
plain = relax.VirtualMachine(tvm.compile(module, compiled.target), tvm.cpu())["main"]
with opinfo.Session(compiled, store=store) as session:
    for _ in range(3):
        session(tokens)
    session.settle()
    print(f"TVM's build {best(plain, tokens):.0f} us")
    print(f"the session {best(session, tokens):.0f} us")

# %% [markdown]
# ## Lengths that you know
#
# If you know the range and the most frequent lengths, compile all kernels in advance. Then nothing
# is compiled while you serve, and the library needs only TVM's runtime. `Dim(1, 512, likely=(1,
# 8))` declares both. `Aot` compiles a kernel for each likely length and splits the range where that
# is faster. The report lists the kernels.

# %%
ahead = opinfo.jit.Config("aot", dims={"n": opinfo.jit.Dim(1, 512, likely=(1, 8))})
fixed = opinfo.compile(module, shapes=ahead)
print(fixed)

for length in (1, 8, 100, 512, 600):
    tokens = draw(length)
    np.testing.assert_allclose(fixed.run(tokens), reference(tokens), rtol=1e-4, atol=1e-5)
print("right in the range and outside")

# %% [markdown]
# The generic kernel serves lengths outside the range. If such a length is an error in your service,
# pass `strict=True`. The session then refuses these requests. It also refuses arguments that it
# would have to copy, so pass aligned tensors.

# %%
with opinfo.Session(fixed, strict=True) as session:
    session(tvm.runtime.tensor(draw(512)))
    for wrong in (draw(513), draw(5)[:, :63], draw(5).astype("float64")):
        try:
            session(tvm.runtime.tensor(wrong))
        except ValueError as error:
            print(f"{type(error).__name__}: {error}")
        else:
            raise AssertionError("accepted")

# %% [markdown]
# If the model has no dimension of a given name, the error lists the valid names:

# %%
try:
    opinfo.compile(module, shapes=opinfo.jit.Config(dims={"batch": opinfo.jit.Dim(1, 8)}))
except ValueError as error:
    print(error)
else:
    raise AssertionError("accepted")

# %%
shutil.rmtree(work)

# %% [markdown]
# ## Next steps
#
# - [Symbolic shapes](../guides/symbolic-shapes.md): all strategies, and padding.
# - [Sessions](../guides/sessions.md): the cache of kernels, and tuning.
# - On the command line: `opinfo compile classifier.onnx -o classifier.so --shapes aot --dim
#   n=1:512 --likely n=1,8`.
# - [Compile a model and call it from C++](03_deploy.md) loads such a library too.
