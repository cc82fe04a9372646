"""Time the argument checks of a call.

    python -m benchmarks.boundary [--params 20]

Microseconds of CPU, the smallest of several rounds, for one input with a symbolic extent and a
number of weights: as TVM tensors, as aligned numpy arrays, and with an input that must be copied.
For comparison, a call of the smallest compiled function with as many arguments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS, CALLS = 15, 400


def microseconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - start) / CALLS)
    return best * 1e6


def function(weights: int) -> Any:
    """Return a Relax function of an input and weights that returns its input."""
    from tvm import relax, tirx

    params = [relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 64)))]
    params += [relax.Var(f"w{k}", relax.TensorType((64, 64))) for k in range(weights)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(params[0])
    return builder.get()


def main() -> None:
    """Run and print."""
    import tvm
    from tvm import relax

    from opinfo.jit.arguments.boundary import Boundary
    from opinfo.jit.arguments.signature import Signature
    from tests.jit.runtime.test_boundary import placed

    parser = argparse.ArgumentParser(prog="python -m benchmarks.boundary", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--params", type=int, default=20, help="how many weights")
    weights = parser.parse_args().params
    mod = function(weights)
    check = Boundary(Signature.of(mod["main"]))
    arrays = [placed((5, 64)), *(placed((64, 64)) for _ in range(weights))]
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    odd = [placed((5, 64), off=4), *tensors[1:]]
    run = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())["main"]
    np.testing.assert_array_equal(run(*check(odd)[0]).numpy(), arrays[0])
    calls = {
        "tensors of TVM": lambda: check(tensors),
        "numpy, aligned": lambda: check(arrays),
        "an input that is copied": lambda: check(odd),
        "a call that does nothing": lambda: run(*tensors),
    }
    print(f"{1 + weights} arguments:")
    for name, call in calls.items():
        print(f"  {name:26}{microseconds(call):7.2f} us")


if __name__ == "__main__":
    main()
