"""Time the first call of an exported library in a new process, and the second one.

python -m benchmarks.gpu.compiling.first_call LIBRARY INPUTS

INPUTS is JSON: the shape and dtype of each input.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import numpy as np


def main() -> None:
    from opinfo.byoc.process.without_torch import leave_out_torch

    leave_out_torch()
    import tvm
    from tvm import relax

    from opinfo.byoc.codegen.loading.cuda_device import cuda_device

    device = cuda_device()
    inputs = [tvm.runtime.tensor(_values(*row), device) for row in json.loads(sys.argv[2])]
    device.sync()
    marks = [time.perf_counter()]
    call = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), device)["main"]
    for _ in range(3):
        device.sync()
        marks.append(time.perf_counter())
        call(*inputs)
    device.sync()
    marks.append(time.perf_counter())
    names = ("loading", "first", "second", "third")
    spent = (b - a for a, b in itertools.pairwise(marks))
    print(json.dumps({n: round(s, 3) for n, s in zip(names, spent, strict=True)}))


def _values(shape: list[int], dtype: str) -> Any:
    values = np.random.default_rng(0).standard_normal(shape)
    return values.astype(dtype) if dtype.startswith("float") else np.ones(shape, dtype)


if __name__ == "__main__":
    main()
