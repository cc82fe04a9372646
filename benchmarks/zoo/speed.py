"""Worker: time a model at static shapes against the other runtimes, calls in turns."""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.resources import SETTLED, Call, family_seconds, use_threads

from .differences import difference
from .models.subject import Subject, one_line, subject
from .peers import onnx_runtime, peers
from .reading import flat, reference

ROUNDS = 9
#: Least and most seconds of one timing: short calls are repeated, of long ones fewer are made.
LONG, LONGEST = 5e-3, 2.0
#: Rows and columns of the product that tells how fast the cores can be.
SIZE = 1024


@dataclass(frozen=True)
class Speed:
    """Milliseconds of a call by runtime, at the first set of shapes.

    Attributes:
        name: The model.
        threads: Threads of each runtime.
        refusal: Why opinfo has no time; empty if it has.
        milliseconds: Medians by runtime; ours is ``opinfo``.
        missing: Why other runtimes have no time.
        difference: To the reference, relative to an output's largest value.
        summary: What was offloaded, and which build was kept.
        seconds: CPU seconds from the file to the library, with those of all processes: the reader,
            the C++ compiler, the runs of builds.
    """

    name: str
    threads: int
    refusal: str
    milliseconds: Mapping[str, float]
    missing: Mapping[str, str]
    difference: float
    summary: str
    seconds: float
    flops: int
    rate: float


def measure(name: str, threads: int) -> Speed:
    """Compile one model for static shapes and time it."""
    use_threads(threads)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        model = subject(name, Path(folder))
        calls, missing, refusal, summary, seconds, flops = {}, {}, "", "", 0.0, 0
        start = family_seconds()
        try:
            compiled, call = ours(model, threads)
            seconds = family_seconds() - start
            if compiled.dispatched is not None:
                summary = f"{compiled.dispatched.summary()}; {compiled.kept}"
                flops = compiled.dispatched.total
            far = difference(reference(model, model.inputs[0]), flat(call()))
            calls["opinfo"] = call
        except Exception as error:  # one model's failure is a row of the table
            refusal, far = one_line(error), float("inf")
        for peer, build in peers(model, threads).items():
            try:
                calls[peer] = build()
                calls[peer]()
            except Exception as error:
                calls.pop(peer, None)
                missing[peer] = one_line(error)
        calls["product"] = product(Path(folder), threads)
        times = in_turns(calls)
        rate = 2e3 * SIZE**3 / times.pop("product")
        return Speed(name, threads, refusal, times, missing, far, summary, seconds, flops, rate)


def product(folder: Path, threads: int) -> Call:
    """Return a call of a product of square matrices in ONNX Runtime."""
    from onnx import TensorProto, helper

    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE]) for name in "abc"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product",
                              info[:2], info[2:])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    file = folder / "product.onnx"
    file.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    )
    values = np.random.default_rng(0).random((2, SIZE, SIZE), "float32")
    return onnx_runtime(file, {"a": values[0], "b": values[1]}, threads)


def ours(model: Subject, threads: int) -> tuple[Any, Call]:
    """Return the compiled model and a call of it."""
    import tvm

    import opinfo
    from opinfo.byoc.codegen.host import cpu

    values = model.inputs[0]
    shapes = {key: value.shape for key, value in values.items()}
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu(), "num-cores": threads})
    compiled = opinfo.compile(opinfo.load(model.path, shapes), target=target)
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(compiled.library)), tvm.cpu())
    tensors = [tvm.runtime.tensor(value) for value in values.values()]
    main = machine["main"]
    return compiled, lambda: main(*tensors)


def in_turns(calls: Mapping[str, Call], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median milliseconds of each call.

    A pause and an uncounted call come before each timing: threads of the previous pool spin for a
    while on the cores that the next one needs.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if sum(times[name]) > LONGEST and len(times[name]) >= 3:
                continue
            time.sleep(SETTLED)
            times[name].append(_timed(call))
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def _timed(call: Call) -> float:
    """Return the seconds of a call after another one, averaged over at least `LONG`."""
    start = time.perf_counter()
    call()
    count = max(1, int(LONG / max(time.perf_counter() - start, 1e-9)))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
