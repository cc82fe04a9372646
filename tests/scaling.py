"""A packed function that writes into its argument, for impure Relax functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

SCALE = "opinfo.tests.scale_in_place"


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
