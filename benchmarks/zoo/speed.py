"""Worker: time a model at static shapes against the other runtimes, calls in turns."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.resources import Call, family_seconds, use_threads

from .differences import difference
from .models.subject import Subject, one_line, subject
from .peers import onnx_runtime, peers
from .reading import reference
from .torch_reference import flat
from .turns import in_turns

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
        flops: Operations of the model.
        rate: Operations a second of a large product in the same turns.
        busy: The share that other processes had of the CPU time of all cores meanwhile.
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
    busy: float = 0.0


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
        turns = in_turns(calls, threads)
        times = dict(turns.milliseconds)
        rate = 2e3 * SIZE**3 / times.pop("product")
        return Speed(name, threads, refusal, times, missing, far, summary, seconds, flops, rate,
                     turns.busy)  # fmt: skip


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
    from opinfo.byoc.codegen.host_target import cpu

    values = model.inputs[0]
    shapes = {key: value.shape for key, value in values.items()}
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu(), "num-cores": threads})
    compiled = opinfo.compile(opinfo.load(model.path, shapes), target=target)
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(compiled.library)), tvm.cpu())
    tensors = [tvm.runtime.tensor(value) for value in values.values()]
    main = machine["main"]
    return compiled, lambda: main(*tensors)
