"""Compile a program as `opinfo compile` does, and say which stage takes how long.

python -m benchmarks.gpu.compiling.compile_program PROGRAM.pt2 LIBRARY
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict

BEGUN = time.perf_counter()


def main() -> None:
    from opinfo.byoc.process.without_torch import leave_out_torch

    leave_out_torch()
    import opinfo
    from opinfo.analysis.support.progress import listening

    program, library = sys.argv[1:3]
    stages: dict[str, float] = defaultdict(float)
    current, since = "importing", BEGUN

    def listener(name: str, done: int, total: int) -> None:
        nonlocal current, since
        now = time.perf_counter()
        stages[current] += now - since
        current, since = "reading" if name.startswith("reading ") else name, now

    with listening(listener):
        mod = opinfo.load(program)
        listener("preparing", 0, 0)
        compiled = opinfo.compile(mod, ["cudnn", "cublaslt", "tvm"], target="cuda")
        listener("exporting", 0, 0)
        compiled.export(library)
        listener("", 0, 0)
    used = os.times()
    assert compiled.dispatched is not None
    print(json.dumps({
        "stages": {name: round(spent, 2) for name, spent in stages.items()},
        "cpu": round(used.user + used.system, 1),
        "cpu_of_children": round(used.children_user + used.children_system, 1),
        "inputs": [[[int(e) for e in p.ty.shape.values], str(p.ty.dtype)]
                   for p in mod["main"].params],
        "summary": compiled.dispatched.summary().partition("\n")[0],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
