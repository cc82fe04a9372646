"""A compiled model: run it, export it, read what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..byoc.building.build_library import on_gpu
from ..byoc.compile import CompiledModule
from ..byoc.dispatching.dispatch import Dispatched
from ..jit.arguments.boundary import Boundary
from ..jit.arguments.signature import Signature
from ..jit.compile.compile_shapes import CompiledShapes
from ..jit.compile.specialize import SpecializedFunction
from ..verify.verification import Verified, verified
from .models import as_module


@dataclass(frozen=True, repr=False)
class Compiled:
    """A compiled model. `opinfo.Session` serves it where `shapes` were given.

    Attributes:
        target: The target that it was compiled for; it runs only there.
        result: The library, with what backends and strategies did.
        signatures: The parameters of the model's functions, by name.
    """

    target: Any
    result: CompiledModule | CompiledShapes
    signatures: Mapping[str, Signature]

    @property
    def library(self) -> Path:
        """The shared library, as long as this object is held; see `export`."""
        return self.result.library

    @property
    def dispatched(self) -> Dispatched | None:
        """Which backend has what; None where none was asked."""
        return self.result.dispatched

    @property
    def functions(self) -> tuple[SpecializedFunction, ...]:
        """How each function is compiled; empty without ``shapes``."""
        return self.result.functions if isinstance(self.result, CompiledShapes) else ()

    def run(self, *inputs: Any, function: str = "main") -> Any:
        """Call a function of the model. Functions with symbolic shapes run their generic kernels.

        Args:
            inputs: Arrays of numpy, or of anything with DLPack, in the order of the function's
                parameters, of their shapes and dtypes.
            function: Its name.

        Returns:
            An array, or a tuple of what the function returns.

        Raises:
            ValueError: The model has no such function, or the inputs do not fit its parameters.
        """
        if function not in self.signatures:
            known = ", ".join(self.signatures)
            raise ValueError(f"run: the model has no function {function}; it has {known}")
        if on_gpu(self.target):  # TVM checks them there
            values = [_on(self._device, x) for x in inputs]
        else:
            values, _ = self._boundaries[function](inputs)
        return _plain(self._machine[function](*values))

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime.

        Raises:
            OSError: The file cannot be written.
        """
        self.result.export(path)

    def report(self) -> str:
        """What it was compiled for, which backend has what, and how symbolic functions are served.

        Backends that are not available are named with the reason; regions of backends that failed
        are named, with who has their operators now.
        """
        lines = [f"compiled for {describe(self.target)}"]
        done = self.dispatched
        if done is not None:
            dropped = [str(f) for f in done.failed if f.stage == "available"]
            lines += [done.summary(), *dropped, *([done.failures()] if done.failures() else [])]
        return "\n".join([*lines, *map(_served, self.functions)])

    def verify(self, model: Any, seed: int = 0) -> Verified:
        """Run it beside the unmodified model on the same random inputs, and time both.

        Args:
            model: What was compiled: a module, or the path of a file.
            seed: Of the inputs; a symbolic extent is 2.

        Raises:
            FrontendError: The file cannot be read.
        """
        return verified(as_module(model, "verify"), self.result, self.target, seed)

    @cached_property
    def _machine(self) -> Any:
        module = tvm.runtime.load_module(str(self.library))
        return relax.VirtualMachine(module, self._device)

    @property
    def _device(self) -> Any:
        return tvm.cuda() if on_gpu(self.target) else tvm.cpu()

    @cached_property
    def _boundaries(self) -> dict[str, Boundary]:
        return {name: Boundary(signature) for name, signature in self.signatures.items()}

    def __repr__(self) -> str:
        return f"Compiled({', '.join(self.signatures)}; {describe(self.target)})"

    def __str__(self) -> str:
        return self.report()


def describe(target: Any) -> str:
    """A target in a few words: ``llvm, haswell, 1 core``."""
    own = tvm.target.Target(target)
    cores = own.attrs.get("num-cores")
    parts = [own.kind.name, own.attrs.get("mcpu") or own.attrs.get("arch") or ""]
    parts.append(f"{cores} core{'s' if int(cores) > 1 else ''}" if cores else "")
    return ", ".join(str(p) for p in parts if p)


def _served(f: SpecializedFunction) -> str:
    """How a function with symbolic shapes is compiled: ``fused_matmul: jit, rule contraction``."""
    rule = f", rule {f.rule}" if f.rule else ""
    return f"{f.function}: {type(f.strategy).__name__.lower()}{rule}{f.why and f' ({f.why})'}"


def _on(device: Any, x: Any) -> Any:
    """An array as a tensor of a device; a tensor or a number as it is."""
    if isinstance(x, (bool, int, float, tvm.runtime.Tensor)):
        return x
    return tvm.runtime.tensor(np.ascontiguousarray(np.from_dlpack(x)), device)


def _plain(value: Any) -> Any:
    """Tensors as arrays; tuples of them as tuples."""
    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    if type(value).__name__ in ("Array", "tuple", "list"):
        return tuple(map(_plain, value))
    return value
