"""The threads on which loops of a compiled library run, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: OpenBLAS, which numpy has, ends its threads when a process is forked.
THREADS = {"OMP_NUM_THREADS": "2", "TVM_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
#: A library with oneDNN's threads: its outputs, and the threads that calls have added.
RUN = """
import os
from opinfo.byoc.process.without_torch import leave_out_torch
leave_out_torch()  # which has GNU OpenMP too
import numpy as np, tvm
from tvm import relax
from opinfo.byoc.compile import compile_module
from opinfo.byoc.codegen.host_target import native_target

builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((1, 32, 64, 64), "float32"))
w = relax.Var("w", relax.TensorType((32, 32, 3, 3), "float32"))
with builder.function("main", [x, w]):
    with builder.dataflow():
        y = builder.emit(relax.op.nn.conv2d(x, w, padding=1))
        sums = builder.emit(relax.op.cumsum(y, axis=3))
        out = builder.emit_output(relax.op.sin(relax.op.permute_dims(sums, [0, 2, 3, 1])))
    builder.emit_func_output(out)
given = [np.random.default_rng(k).standard_normal(s, "float32")
         for k, s in enumerate([(1, 32, 64, 64), (32, 32, 3, 3)])]

def outputs(threads, backends):
    built = compile_module(builder.get(), backends, target=native_target(threads))
    return built.machine()["main"](*map(tvm.runtime.tensor, given)).numpy()

expected = outputs(1, ["tvm"])
before = len(os.listdir("/proc/self/task"))
for backends in (["tvm"], ["onednn", "tvm"]):
    np.testing.assert_allclose(outputs(2, backends), expected, rtol=1e-4, atol=1e-4)
    print(len(os.listdir("/proc/self/task")) - before)
"""


def test_loops_of_a_library_run_on_the_threads_that_it_has(tmp_path: Path) -> None:
    """TVM starts no pool of its own; without a team of GNU OpenMP, no loop is divided."""
    variables = {**os.environ, **THREADS}
    done = subprocess.run([sys.executable, "-c", RUN], env=variables, cwd=tmp_path,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    alone, with_team = map(int, done.stdout.split())
    assert (alone, with_team) == (0, 1)


#: A library with a convolution, for oneDNN or TVM, and a PrimFunc: what a call raises, whether the
#: results are right and whether TVM's pool runs the parallel loops; TVM does not find our launch.
#: Each library has a fork of its own, made before there are threads: imports take longest.
BESIDE = """
import ctypes, os, sys, traceback
from opinfo.byoc.process.without_torch import leave_out_torch
leave_out_torch()
import numpy as np, tvm
from tvm import relax
from tvm.script import tirx as T
from opinfo.byoc.compile import compile_module
from opinfo.byoc.codegen.host_target import native_target

@T.prim_func(s_tir=True)
def last(x: T.Buffer((262144,), "float32"), out: T.Buffer((256,), "float32")):
    for i in range(262144):
        with T.sblock("out"):
            vi = T.axis.spatial(262144, i)
            out[vi % 256] = x[vi]

@T.prim_func(s_tir=True)
def own(x: T.Buffer((262144,), "float32"), out: T.Buffer((256,), "float32")):
    for i in range(4):
        for j in T.parallel(64):
            with T.sblock("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi * 64 + vj] = x[261888 + vi * 64 + vj]

@T.prim_func(s_tir=True)
def checked(x: T.Buffer((262144,), "float32"), out: T.Buffer((256,), "float32")):
    for i in T.parallel(256):
        with T.sblock("out"):
            vi = T.axis.spatial(256, i)
            assert x[vi] < T.float32(-1e9), "x is too large"
            out[vi] = x[vi]

@T.prim_func(s_tir=True)
def waiting(x: T.Buffer((262144,), "float32"), out: T.Buffer((256,), "float32")):
    for k in T.serial(1, annotations={"pragma_parallel_launch_point": 1}):
        for l in T.serial(2, annotations={"pragma_parallel_barrier_when_finish": 1}):
            for i in T.parallel(128):
                with T.sblock("out"):
                    vi = T.axis.spatial(256, l * 128 + i)
                    out[vi] = x[261888 + vi]

def outcome(func, backends):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 16, 8, 8), "float32"))
    w = relax.Var("w", relax.TensorType((16, 16, 3, 3), "float32"))
    v = relax.Var("v", relax.TensorType((262144,), "float32"))
    with builder.function("main", [x, w, v]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.conv2d(x, w, padding=1))
            name = builder.add_func(globals()[func], func)
            z = builder.emit(relax.call_tir(name, [v], relax.TensorType((256,), "float32")))
            out = builder.emit_output(relax.Tuple([y, z]))
        builder.emit_func_output(out)
    given = [np.random.default_rng(k).standard_normal(s, "float32")
             for k, s in enumerate([(1, 16, 8, 8), (16, 16, 3, 3), (262144,)])]
    built = compile_module(builder.get(), backends, target=native_target(2))
    main = built.machine()["main"]
    try:
        got = main(*map(tvm.runtime.tensor, given))[1].numpy()
        pool = hasattr(ctypes.CDLL(str(built.library)), "__TVMBackendParallelLaunch")
        return f"{np.array_equal(got, given[2][-256:])} {'pool' if pool else 'no pool'}"
    except Exception as error:
        return " ".join(str(error).split())

for case in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            print(f"{case}: {outcome(case.split()[0], case.split()[1:])}", flush=True)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    if status:
        print(f"{case}: ended with status {os.waitstatus_to_exitcode(status)}", flush=True)
"""
CASES = {
    "last onednn tvm": "True no pool",
    "own tvm": "True pool",
    "own onednn tvm": "True no pool",
    "checked onednn tvm": "x is too large",
    "waiting onednn tvm": "True pool",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each case does, in processes that have the imports in common."""
    folder = tmp_path_factory.mktemp("beside")
    file = folder / "beside.py"  # TVM reads the source of PrimFuncs
    file.write_text(BESIDE, encoding="utf-8")
    variables = {**os.environ, **THREADS, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, str(file), *CASES], env=variables, cwd=folder,
                          capture_output=True, text=True, timeout=900)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stderr)  # of cases that fail
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("case", CASES)
def test_functions_beside_other_code(case: str, outcomes: dict[str, str]) -> None:
    assert CASES[case] in outcomes[case]
