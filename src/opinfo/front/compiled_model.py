"""Compiled models: run, export, verify, report."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import ml_dtypes  # noqa: F401  (numpy knows bfloat16)
import numpy as np
import tvm
from tvm import relax

from ..analysis.support.failed_check import message
from ..analysis.support.wording import did_you_mean
from ..byoc.building.build_library import on_gpu
from ..byoc.calibration.calibrations import ActiveCalibration
from ..byoc.codegen.loading.cuda_device import needed_gpu
from ..byoc.compile import CompiledModule
from ..byoc.dispatching.dispatch import Dispatched
from ..jit.arguments.boundary import Boundary
from ..jit.arguments.extent import value
from ..jit.arguments.lazy_arrays import resolved
from ..jit.arguments.signature import Param, Signature
from ..verify.verification import Verified, verified
from .models import as_module

if TYPE_CHECKING:
    from ..jit.compile.compile_shapes import CompiledShapes
    from ..jit.compile.specialized_function import SpecializedFunction

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class Compiled:
    """A compiled model. With `shapes`, `opinfo.Session` can serve it and compile further kernels.

    Attributes:
        target: TVM's target; the model runs only there.
        result: The library, and the decisions behind it.
        signatures: The parameters of the model's functions, by name.
        costs: The calibration that decided between backends; None if costs did not decide.
        kept: Which of several builds was kept, and the times of all.
    """

    target: Any
    result: CompiledModule | CompiledShapes
    signatures: Mapping[str, Signature]
    costs: ActiveCalibration | None = None
    kept: str = ""
    _alone: threading.Lock = field(default_factory=threading.Lock, init=False, compare=False)

    @property
    def library(self) -> Path:
        """The path of the shared library, which exists as long as this object; see `export`."""
        return self.result.library

    @property
    def dispatched(self) -> Dispatched | None:
        """The dispatch to backends; None without backends."""
        return self.result.dispatched

    @property
    def functions(self) -> tuple[SpecializedFunction, ...]:
        """How each function is compiled; empty without ``shapes``."""
        return () if isinstance(self.result, CompiledModule) else self.result.functions

    def run(self, *inputs: Any, function: str = "main") -> Any:
        """Call a function of the model; symbolic functions run their generic or AOT kernels.

        Calls from several threads run one after another: a virtual machine runs one call at a time.

        Args:
            inputs: numpy arrays or other DLPack tensors, one for each parameter, with its shape and
                dtype.
            function: The function's name.

        Returns:
            An array, or a tuple of arrays.

        Raises:
            NoGpu: The model is for a GPU, and none is visible.
            ValueError: The model has no such function, the inputs do not fit its parameters, or
                sizes contradict a node that is run.
        """
        if not isinstance(function, str) or function not in self.signatures:
            names = ", ".join(self.signatures)
            near = did_you_mean(function, self.signatures)
            raise ValueError(f"run: unknown function {function}; the model has {names}{near}")
        if on_gpu(self.target):  # TVM checks arguments on a GPU, all but elements
            self._boundaries[function].check_masks(inputs)
            inputs = tuple(map(resolved, inputs))
            self._boundaries[function].check_indices(inputs)
            values = [_on(self._device, x) for x in inputs]
        else:
            values, _ = self._boundaries[function](inputs)
        with self._alone:
            try:
                return _plain(self._machine[function](*values))
            except (RuntimeError, ValueError) as error:
                if text := message(error):
                    raise ValueError(f"{function}: {text}") from error
                raise

    def warm(self, *sizes: Mapping[str, int], function: str = "main") -> None:
        """Call a function with zeros at expected sizes, so that later calls of these do not wait.

        On a GPU, the first call of a shape plans its kernels and the second one records a CUDA
        graph.

        Args:
            sizes: Mappings from the symbolic dimensions to sizes, ``{"n": 8, "m": 128}``.
            function: The function's name.

        Raises:
            NoGpu: The model is for a GPU, and none is visible.
            ValueError: The model has no such function, a size is missing or does not fit, or a
                parameter is not a tensor.
        """
        params = self.signatures[function].params if function in self.signatures else ()
        for given in sizes:
            zeros = [_zeros(param, given) for param in params]
            if function in self.signatures and on_gpu(self.target):
                self._capture(function, zeros)
            else:
                self.run(*zeros, function=function)

    def _capture(self, function: str, zeros: Sequence[Array]) -> None:
        """Call a function twice, with symbolic inputs and results at other addresses each time.

        The graph that the second call records then copies these tensors, so it fits any address.
        """
        params = self.signatures[function].params
        first = [_on(self._device, x) for x in zeros]
        second = [x if _is_sized(param) else _on(self._device, zero)
                  for x, zero, param in zip(first, zeros, params, strict=True)]  # fmt: skip
        with self._alone:
            held = self._machine[function](*first)
            self._machine[function](*second)
            self._device.sync()
            del held  # until here, so that the second call's results are elsewhere

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime.

        Raises:
            OSError: The file cannot be written.
        """
        self.result.export(path)

    def report(self) -> str:
        """Return the target, the dispatch, its costs, and how each symbolic function is compiled.

        It also names each unavailable backend with the reason, and each failed region with the
        backend that replaces it.
        """
        lines = [f"compiled for {describe(self.target)}"]
        dispatched = self.dispatched
        if dispatched is not None:
            dropped = [str(f) for f in dispatched.failed if f.stage == "available"]
            notes = [str(self.costs or ""), self.kept, dispatched.failures()]
            lines += [dispatched.summary(), *dropped, *filter(None, notes)]
        elif self.kept:
            lines.append(self.kept)
        return "\n".join([*lines, *map(_served, self.functions)])

    def verify(self, model: Any, seed: int = 0) -> Verified:
        """Compare with the unmodified model on the same random inputs, and time both.

        Args:
            model: The model that was compiled: a module, or the path of a file.
            seed: Seed of the inputs. Symbolic extents are 2.

        Raises:
            FrontendError: The file cannot be read.
            NoGpu: The model is for a GPU, and none is visible.
        """
        return verified(as_module(model, "verify"), self.result, self.target, seed)

    @cached_property
    def _machine(self) -> Any:
        module = tvm.runtime.load_module(str(self.library))
        return relax.VirtualMachine(module, self._device)

    @property
    def _device(self) -> Any:
        return needed_gpu("run") if on_gpu(self.target) else tvm.cpu()

    @cached_property
    def _boundaries(self) -> dict[str, Boundary]:
        return {name: Boundary(signature) for name, signature in self.signatures.items()}

    def __reduce__(self) -> NoReturn:
        raise TypeError("a compiled model cannot be pickled or copied: write it by `export`, and "
                        "load the file where it is needed")  # fmt: skip

    def __repr__(self) -> str:
        return f"Compiled({', '.join(self.signatures)}; {describe(self.target)})"

    def __str__(self) -> str:
        return self.report()


def describe(target: Any) -> str:
    """Describe a target: ``llvm, haswell, 1 core``."""
    parsed = tvm.target.Target(target)
    cores = parsed.attrs.get("num-cores")
    parts = [parsed.kind.name, parsed.attrs.get("mcpu") or parsed.attrs.get("arch") or ""]
    parts.append(f"{cores} core{'s' if int(cores) > 1 else ''}" if cores else "")
    return ", ".join(str(p) for p in parts if p)


def _served(function: SpecializedFunction) -> str:
    """Format how a function is compiled: ``fused_matmul: jit, rule contraction``."""
    rule = f", rule {function.rule}" if function.rule else ""
    strategy = type(function.strategy).__name__.lower()
    return f"{function.function}: {strategy}{rule}{function.why and f' ({function.why})'}"


def _zeros(param: Param, sizes: Mapping[str, int]) -> Array:
    """Return zeros for a parameter. Raises ``ValueError`` if its shape does not follow."""
    shape = None if param.kind != "tensor" or param.shape is None else [
        value(extent, sizes) for extent in param.shape]  # fmt: skip
    if shape is None or param.dtype is None or None in shape:
        raise ValueError(f"warm: {param}: expected a tensor whose shape follows from {dict(sizes)}")
    return np.zeros([n or 0 for n in shape], param.dtype)


def _is_sized(param: Param) -> bool:
    """Return whether all extents of a tensor are known, as those of weights are."""
    return param.shape is not None and all(isinstance(extent, int) for extent in param.shape)


def _on(device: Any, array: Any) -> Any:
    """Copy an array to a device; return tensors and numbers unchanged."""
    if isinstance(array, (bool, int, float, tvm.runtime.Tensor)):
        return array
    host = array if isinstance(array, np.ndarray) else np.from_dlpack(array)  # refuses bfloat16
    return tvm.runtime.tensor(np.asarray(host, order="C"), device)  # of rank 0, too


def _plain(value: Any) -> Any:
    """Convert tensors to arrays, also in tuples."""
    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    if type(value).__name__ in ("Array", "tuple", "list"):
        return tuple(map(_plain, value))
    return value
