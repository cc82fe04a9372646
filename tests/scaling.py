"""Functions that write into their argument, for Relax functions with side effects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

SCALE = "opinfo.tests.scale_in_place"


@T.prim_func(private=True, s_tir=True)
def doubled(x: T.Buffer((T.int64(4), T.int64(6)), "float32")) -> None:
    for i, j in T.grid(T.int64(4), T.int64(6)):
        with T.sblock("x"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[vi, vj] = x[vi, vj] * T.float32(2)


@contextmanager
def registered() -> Iterator[None]:
    """Register `SCALE`, which computes ``x = 2 * x + 1`` in place, and returns x."""

    def scale(x: Any) -> Any:
        x.copyfrom(x.numpy() * 2 + 1)
        return x

    tvm.register_global_func(SCALE, scale)
    try:
        yield
    finally:
        tvm_ffi.registry.remove_global_func(SCALE)


def scaled(x: Any) -> Any:
    """Return the impure call of `SCALE`."""
    return relax.Call(relax.ExternFunc(SCALE), [x], ty_args=[x.ty])
