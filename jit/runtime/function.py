"""One function of a served model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi

from ..arguments.boundary import Boundary
from ..arguments.fast_path import plan
from .library import Sites


class Function:
    """A Relax function of a library; calling it checks its arguments and runs it.

    Threads may call it: ``machine`` makes a function of a virtual machine of its own, since TVM's
    has one call at a time. There are as many as there were calls at the same time.
    """

    def __init__(self, sites: Sites, name: str, machine: Callable[[], Any], strict: bool) -> None:
        self.signature = sites.signatures[name]
        known = self.signature.symbols()
        ranges = {name: r for name, r in sites.ranges.items() if name in known}
        self._boundary = Boundary(self.signature, ranges, strict)
        self._plan = plan(self._boundary)
        self._straight, self._machine = sites.straight, machine
        self._free = [machine()]

    def __call__(self, *args: Any) -> Any:
        """What the function gives. Raises `BoundaryError` for arguments that it cannot take,
        `ShapeOutOfRange` in strict mode, and what the model itself raises."""
        try:
            run = self._free.pop()
        except IndexError:
            run = self._machine()
        try:
            out = run
            if self._plan is not None:
                try:
                    out = self._straight(run, self._plan, *args)
                except Exception:  # what cannot be passed to C++: told below
                    pass
            if isinstance(out, tvm_ffi.core.Error):  # the model's, which is not run again
                raise out.py_error()
            if isinstance(out, tvm_ffi.Function) and out.same_as(run):  # what does not fit
                return run(*self._boundary(args)[0])
            return out
        finally:
            self._free.append(run)
