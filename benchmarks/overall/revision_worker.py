"""One revision under measurement: reads steps on standard input, answers with CPU seconds.

It runs on old trees too, so it uses only names that every revision exports. Each line of input is
`[step, argument, ...]`; each line of output is a list of CPU seconds of one thread.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
#: Minimum seconds of one timing; short calls are repeated.
LONG = 0.05


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call, without collecting earlier garbage."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def repeated(work: Callable[[], Any]) -> float:
    """Return the seconds of one call, averaged over as many as fit into :data:`LONG`."""
    seconds(work)
    count = max(1, int(LONG / max(seconds(work), 1e-9)))
    return seconds(lambda: [work() for _ in range(count)]) / count


@cache
def module(name: str) -> Any:
    import tvm

    return tvm.ir.load_json((FOLDER / f"{name}.json").read_text())


@cache
def lowered(name: str) -> Any:
    from tvm import relax

    return relax.transform.LegalizeOps()(module(name))


def origin() -> list[str]:
    """Return the tree that is measured."""
    import opinfo

    return [str(opinfo.__file__)]


def op_info(name: str) -> list[float]:
    """Time the analysis of all PrimFuncs of a model, the first time and again."""
    import tvm

    from opinfo.analysis import op_info

    funcs = [f for f in lowered(name).functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return [seconds(lambda: [op_info(f) for f in funcs]) for _ in range(2)]


def plan(name: str) -> list[float]:
    """Time a plan for NHWC convolutions, the first time and again."""
    from opinfo.layout import plan_layout

    layouts = {"nn.conv2d": ["NHWC", "OHWI"]}
    return [seconds(lambda: plan_layout(lowered(name), layouts)) for _ in range(2)]


def dispatch(name: str) -> list[float]:
    """Time the choice of regions for oneDNN, the first time and again."""
    from opinfo.byoc import dispatch

    return [seconds(lambda: dispatch(lowered(name), ["onednn"])) for _ in range(2)]


@cache
def compiled(name: str) -> Any:
    import numpy as np

    import opinfo

    model = opinfo.compile(FOLDER / f"{name}.onnx", backends=["onednn"])
    values = np.load(FOLDER / f"{name}.npy")
    return lambda: model.run(values)


def speed(name: str) -> list[float]:
    """Time a call of a model compiled for oneDNN."""
    return [repeated(compiled(name))]


@cache
def session(name: str, sizes: tuple[int, ...]) -> Any:
    import numpy as np
    import tvm

    from opinfo.jit import Session, compile_shapes

    served = Session(compile_shapes(module(name), "jit"))
    width = int(np.load(FOLDER / f"{name}.npy").shape[1])
    inputs = {n: tvm.runtime.tensor(np.ones((n, width), "float32")) for n in sizes}
    for _ in range(3):
        for value in inputs.values():
            served(value)
    served.settle(600)
    return lambda: served(inputs[sizes[0]])


def hit(name: str, *sizes: int) -> list[float]:
    """Time a call of a session at sizes that have kernels."""
    return [repeated(session(name, sizes))]


STEPS: dict[str, Callable[..., list[Any]]] = {
    "origin": origin, "op_info": op_info, "plan": plan, "dispatch": dispatch, "speed": speed,
    "hit": hit,
}  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        print(json.dumps(STEPS[step](*arguments)), flush=True)


if __name__ == "__main__":
    main()
