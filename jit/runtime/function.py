"""A callable function of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi

from ...analysis.support.failed_check import message
from ..arguments.boundary import Boundary
from ..arguments.fast_path import plan
from ..arguments.lazy_arrays import is_eager
from .library import Sites


class Function:
    """A Relax function of a library; calling it checks the arguments and runs it.

    It is thread-safe. A TVM virtual machine runs one call at a time, so ``machine`` creates another
    one whenever all are busy.
    """

    def __init__(self, sites: Sites, name: str, machine: Callable[[], Any], strict: bool) -> None:
        self.signature = sites.signatures[name]
        symbols = self.signature.symbols()
        ranges = {name: r for name, r in sites.ranges.items() if name in symbols}
        self._boundary = Boundary(self.signature, ranges, strict)
        self._plan = plan(self._boundary)
        self._straight, self._machine = sites.straight, machine
        self._free = [machine()]

    def __call__(self, *args: Any) -> Any:
        """Run the function.

        Raises:
            BoundaryError: An argument does not fit its parameter.
            ShapeOutOfRange: In strict mode, an extent is outside its declared range.
            ValueError: Sizes contradict a node that is run.
        """
        try:
            run = self._free.pop()
        except IndexError:
            run = self._machine()
        try:
            out = run
            if self._plan is not None and all(map(is_eager, args)):
                try:
                    out = self._straight(run, self._plan, *args)
                except Exception:  # not convertible to C++: the boundary reports it below
                    pass
            if isinstance(out, tvm_ffi.core.Error):  # raised by the model: do not run it twice
                raise out.py_error()
            if isinstance(out, tvm_ffi.Function) and out.same_as(run):  # arguments deferred
                return run(*self._boundary(args)[0])
            return out
        except (RuntimeError, ValueError) as error:
            if text := message(error):
                raise ValueError(f"{self.signature.function}: {text}") from error
            raise
        finally:
            self._free.append(run)
