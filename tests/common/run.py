"""Compile a Relax module with LLVM and run `main`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.testing.unoptimised import TARGET, unoptimised

from ..models.weights import Array


def run(mod: tvm.IRModule, values: Sequence[Array]) -> list[Array]:
    """The outputs of `main` for numpy inputs, a tuple's fields in a flat list.

    The values are copied into TVM's own memory: compiled code may need 64-byte alignment.
    """
    executable = unoptimised(mod)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return flat(machine["main"](*map(_given, values)))


def sooner(target: Any) -> Any:
    """The target, for whose code LLVM does as little as it can; the instructions stay."""
    return tvm.target.Target({**target.export(), **TARGET})


def _given(value: Any) -> Any:
    """Copy arrays into TVM's memory; shapes are unchanged."""
    array = isinstance(value, np.ndarray)
    return tvm.runtime.tensor(np.require(value, requirements="C")) if array else value


def flat(result: Any) -> list[Array]:
    """The arrays of a result, a tuple's fields in order."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for part in result for array in flat(part)]
