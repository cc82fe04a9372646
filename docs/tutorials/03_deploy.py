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
# You need `opinfo[onnx,onednn]`, g++ and make.

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
# SqueezeNet comes with the `onnx` package, without weights: every weight is filled with one
# number. Such a network computes one number whatever its input is, and no comparison means
# anything. So draw the weights from a seed first. With a model of your own, skip this cell.

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
# One call reads the file, recovers the operators, plans the layouts, hands regions to oneDNN, and
# builds a library for the CPU that this runs on. `print` shows the report: the target, and how
# much each backend took. Pass `target="llvm -mcpu=haswell"` to compile for another CPU, and
# `backends=[]` for TVM's own code only.

# %%
compiled = opinfo.compile(work / "squeezenet.onnx", backends=["onednn"])
print(compiled)

assert "onednn" in compiled.report()

# %% [markdown]
# ## Run
#
# `run` takes numpy arrays, or anything that has DLPack, in the order of the model's inputs. ONNX
# Runtime gives the same numbers.

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
# The library is one file with code and weights. It needs TVM's runtime, and the libraries of the
# backends that took regions: here oneDNN.

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
# The process imports `tvm`, and neither opinfo nor ONNX.

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
# This is the whole program, `examples/cpp/main.cc` in the repository.
# It loads the library, makes a virtual machine of it, and calls `main` on a tensor that it read
# from a file.

# %%
here = Path.cwd()
cpp = next(p for p in (here, *here.parents) if (p / "examples/cpp").is_dir()) / "examples/cpp"
Code(filename=str(cpp / "main.cc"), language="cpp")

# %% [markdown]
# The headers and both libraries come with the wheels of `apache-tvm` and `apache-tvm-ffi`, so
# there is nothing to build but the program. The Makefile asks Python where they are:

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
# Run it with an empty environment. The program finds both libraries where it was linked with them.


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
# Errors of TVM and of the library are C++ exceptions, which the program prints. The input is
# checked against the shape that the model was compiled for:

# %%
failed = run("squeezenet.so", "main", "image.bin", "3,1,224,224", "output.bin")
print(failed.stderr)
assert failed.returncode == 1 and "shape" in failed.stderr

# %% [markdown]
# ## Clean up

# %%
shutil.rmtree(work)

# %% [markdown]
# ## Where to go on
#
# - The same on the command line: `opinfo compile squeezenet.onnx -o squeezenet.so --backend
#   onednn,tvm --verify --report page.html` also compares the outputs with TVM's own build.
# - [Deploy from C++](../guides/deploy-from-cpp.md): what must be shipped, threads, GPUs.
# - [Symbolic shapes](04_symbolic_shapes.md) if the batch or the length of the input varies.
