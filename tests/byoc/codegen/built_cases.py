"""Many small programs in one function, so that a library is compiled once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tvm
from tvm import relax

from opinfo.byoc.compile import CompiledModule

Array = np.ndarray[Any, Any]


class Built(Protocol):
    """What `module` reads of a case: shapes with dtypes, and what is emitted for them."""

    @property
    def inputs(self) -> tuple[tuple[tuple[Any, ...], str], ...]: ...

    @property
    def build(self) -> Callable[..., Any]: ...


def results_of(
    compiled: CompiledModule, inputs: Mapping[str, Sequence[Array]]
) -> dict[str, tuple[Sequence[Array], Array]]:
    """The inputs and the result of each case of a compiled `module`."""
    tensors = [tvm.runtime.tensor(a) for arrays in inputs.values() for a in arrays]
    outputs = compiled.machine()["main"](*tensors)
    return {name: (arrays, y.numpy())
            for (name, arrays), y in zip(inputs.items(), outputs, strict=True)}  # fmt: skip


def module(cases: Mapping[str, Built]) -> Any:
    """All cases in one function: a tuple of the results."""
    given = {name: [relax.Var(f"x{k}_{j}", relax.TensorType(s, dtype))
                    for j, (s, dtype) in enumerate(c.inputs)]
             for k, (name, c) in enumerate(cases.items())}  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given.values() for v in vs]):
        with bb.dataflow():
            out = bb.emit_output(
                relax.Tuple([c.build(bb.emit, *given[name]) for name, c in cases.items()])
            )
        bb.emit_func_output(out)
    return bb.get()
