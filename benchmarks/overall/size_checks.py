"""Measure how the time to check symbolic sizes grows with the number of conditions.

    python -m benchmarks.size_checks

Each product of (3, k) and (8, 8) requires that its k is 8. Figures are CPU seconds, the least of
three.
"""

from __future__ import annotations

import time

import numpy as np
from tvm import relax, tirx

from opinfo.frontend.sizes.checked_sizes import checked_sizes


def seconds(count: int) -> float:
    """Return the CPU seconds for a module of so many products."""
    weight = relax.const(np.ones((8, 8), "float32"))
    shapes = [(3, tirx.Var(f"k{k}", "int64")) for k in range(count)]
    params = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            *_, last = [builder.emit(relax.op.matmul(x, weight)) for x in params]
            out = builder.emit_output(last)
        builder.emit_func_output(out)
    mod = builder.get()
    begun = time.process_time()
    checked_sizes(mod)
    return time.process_time() - begun


def main() -> None:
    """Print a line for each number of conditions."""
    for count in (100, 400, 1600):
        print(f"{count} conditions: {min(seconds(count) for _ in range(3)):.3f} s")


if __name__ == "__main__":
    main()
