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
# # Compile a model and call it from C++
#
# You compile an ONNX model, run it in Python, export one shared library, load the library in a
# second Python process, and then call it from a C++ program that has no Python in it.
#
# You need `opinfo[onnx,onednn]`, g++, make, and a checkout of the repository, which has the C++
# program: run this notebook in it.

# %%
import os

# One thread for TVM and for OpenMP, which oneDNN uses. Set both before anything is loaded.
os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from IPython.display import Code
from onnx import numpy_helper

import opinfo

onnxruntime.set_default_logger_severity(3)  # it warns of weights that are inputs too
work = Path(tempfile.mkdtemp(prefix="opinfo-tutorial-"))

# %% [markdown]
# ## A model
#
# The `onnx` package includes SqueezeNet, but fills every weight tensor with a constant. The output
# is then the same for every input, so comparing outputs would be meaningless. Draw random weights
# first. Skip this cell if you use your own model.

# %%
light = Path(onnx.__file__).parent / "backend/test/data/light"
model = onnx.load(light / "light_squeezenet.onnx")
rng = np.random.default_rng(0)
shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
for fill in [node for node in model.graph.node if node.op_type == "ConstantOfShape"]:
    shape = [int(extent) for extent in shapes[fill.input[0]]]
    scale = 1.4 / np.prod(shape[1:]) ** 0.5 if len(shape) > 1 else 0.1
    weight = (rng.standard_normal(shape) * scale).astype("float32")
    model.graph.initializer.append(numpy_helper.from_array(weight, fill.output[0]))
    model.graph.node.remove(fill)
model.ir_version = max(model.ir_version, 4)
onnx.save(model, work / "squeezenet.onnx")

# %% [markdown]
# ## Compile
#
# One call reads the file, recovers the operators, plans the layouts, offloads regions to oneDNN,
# and builds a library for this CPU. `print` shows the report with the target and the share of each
# backend. Pass `target="llvm -mcpu=haswell"` to compile for another CPU, or `backends=[]` to use
# only TVM's own code.

# %%
compiled = opinfo.compile(work / "squeezenet.onnx", backends=["onednn"])
print(compiled)

assert "onednn" in compiled.report()

# %% [markdown]
# ## Run
#
# `run` takes numpy arrays or DLPack tensors, in the order of the model's inputs. ONNX Runtime gives
# the same results.

# %%
image = rng.standard_normal((1, 3, 224, 224)).astype("float32")
output = compiled.run(image)

reference = onnxruntime.InferenceSession(work / "squeezenet.onnx")
(expected,) = reference.run(None, {reference.get_inputs()[0].name: image})
largest = np.abs(expected).max()
print(output.shape, "differs by", np.abs(output - expected).max() / largest)
assert np.abs(output - expected).max() <= 1e-4 * largest

# %% [markdown]
# ## Export
#
# The library is one file with code and weights. It needs TVM's runtime and the libraries of the
# backends that took regions; in this case, oneDNN.

# %%
compiled.export(work / "squeezenet.so")
print((work / "squeezenet.so").stat().st_size >> 20, "MiB")
needed = subprocess.run(
    ["ldd", work / "squeezenet.so"], capture_output=True, text=True, check=True
).stdout
for line in needed.splitlines():
    if "dnnl" in line or "gomp" in line:
        print(line.split("=>")[0].strip())

assert "libdnnl" in needed and "not found" not in needed

# %% [markdown]
# ## Load it in another Python process
#
# The process imports only `tvm`, neither opinfo nor ONNX.

# %%
program = """
import sys
import numpy as np
import tvm
from tvm import relax

library, inputs, outputs = sys.argv[1:]
machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
np.save(outputs, machine["main"](tvm.runtime.tensor(np.load(inputs))).numpy())
assert "opinfo" not in sys.modules
"""
np.save(work / "image.npy", image)
files = [work / name for name in ("squeezenet.so", "image.npy", "output.npy")]
subprocess.run([sys.executable, "-c", program, *files], check=True)

np.testing.assert_array_equal(np.load(work / "output.npy"), output)
print("the same numbers, bit by bit")

# %% [markdown]
# ## Load it from C++
#
# This is the whole program, `examples/cpp/main.cc` in the repository. It loads the library, creates
# a virtual machine, and calls `main` on a tensor that it reads from a file.

# %%
here = Path.cwd()
cpp = next(p for p in (here, *here.parents) if (p / "examples/cpp").is_dir()) / "examples/cpp"
Code(filename=str(cpp / "main.cc"), language="cpp")

# %% [markdown]
# The wheels of `apache-tvm` and `apache-tvm-ffi` contain the headers and both libraries, so you
# build only the program. The Makefile asks Python for their paths:

# %%
Code(filename=str(cpp / "Makefile"), language="make")

# %%
built = subprocess.run(
    ["make", "-C", cpp, f"PYTHON={sys.executable}", f"OUT={work / 'run'}"],
    capture_output=True,
    text=True,
    check=False,
)
assert built.returncode == 0, built.stderr

# %% [markdown]
# Run it with an empty environment. The program finds both libraries through its RPATH.


# %%
def run(*words):
    return subprocess.run(
        [work / "run", *words],
        cwd=work,
        env={"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


image.tofile(work / "image.bin")
done = run("squeezenet.so", "main", "image.bin", "1,3,224,224", "output.bin")
print(done.stdout, done.stderr, sep="")
assert done.returncode == 0

from_cpp = np.fromfile(work / "output.bin", "float32").reshape(output.shape)
np.testing.assert_array_equal(from_cpp, output)
print("the same numbers, bit by bit")

# %% [markdown]
# TVM and the library report errors as C++ exceptions, which the program prints. The library checks
# the input against the shape that the model was compiled for:

# %%
failed = run("squeezenet.so", "main", "image.bin", "3,1,224,224", "output.bin")
print(failed.stderr)
assert failed.returncode == 1 and "shape" in failed.stderr

# %% [markdown]
# ## Clean up

# %%
shutil.rmtree(work)

# %% [markdown]
# ## Next steps
#
# - The same on the command line: `opinfo compile squeezenet.onnx -o squeezenet.so --backend
#   onednn,tvm --verify --report page.html` also compares the outputs with TVM's own build.
# - [Deploy from C++](../guides/deploy-from-cpp.md): files to ship, threads, GPUs.
# - [Symbolic shapes](04_symbolic_shapes.md) if the batch or the length of the input varies.
