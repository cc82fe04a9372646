"""The front door: a model in, something that runs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .byoc.backend.backend import Backend, find, unusable
from .byoc.codegen.host import native_target
from .byoc.compile import CompiledModule as CompiledModule
from .byoc.compile import compile_module, on_gpu
from .frontend import load
from .jit.compile.compile_shapes import CompiledShapes, compile_shapes
from .jit.compile.specialize import SpecializedFunction
from .jit.config.strategy import Config, Strategy

#: What takes operators of models for this machine's CPU, where it is installed.
DEFAULT = ("onednn",)


@dataclass(frozen=True)
class Compiled:
    """A compiled model. ``target`` is what it was compiled for; it runs there only."""

    target: Any
    made: CompiledModule | CompiledShapes = field(repr=False)

    @property
    def library(self) -> Path:
        """The shared library, as long as this object is held; see `export`."""
        return self.made.library

    @cached_property
    def _machine(self) -> Any:
        module = tvm.runtime.load_module(str(self.library))
        return relax.VirtualMachine(module, self._device)

    @property
    def _device(self) -> Any:
        return tvm.cuda() if on_gpu(self.target) else tvm.cpu()

    def run(self, *inputs: Any, function: str = "main") -> Any:
        """Call a function of the model.

        Args:
            inputs: numpy arrays, or what DLPack takes, in the order of the function's parameters,
                of their shapes and dtypes.
            function: which one, ``main`` by default.

        Returns:
            An array, or a tuple of what the function returns.
        """
        return _plain(self._machine[function](*(self._given(x) for x in inputs)))

    def _given(self, x: Any) -> Any:
        if isinstance(x, (bool, int, float, tvm.runtime.Tensor)):
            return x
        return tvm.runtime.tensor(np.ascontiguousarray(np.from_dlpack(x)), self._device)

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime."""
        self.made.export(path)

    def report(self) -> str:
        """What it was compiled for, which backend has what, and how symbolic functions are served.

        Regions of backends that failed are named, with who has their operators now.
        """
        lines = [f"compiled for {describe(self.target)}"]
        done = self.made.dispatched
        if done is not None:
            lines += [done.summary(), *([done.failures()] if done.failures() else [])]
        if isinstance(self.made, CompiledShapes):
            lines += map(_served, self.made.functions)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()


def compile(
    model: Any,
    backends: Sequence[str | Backend] | None = None,
    *,
    target: Any = None,
    shapes: Config | Strategy | str | None = None,
    priority: Mapping[str, int] | None = None,
    force: Mapping[str, str] | None = None,
) -> Compiled:
    """Compile a model, with backends where they are faster than TVM's own code.

    Args:
        model: A Relax module, which is not changed, or the path of a file that `opinfo.load` reads.
        backends: Names or `Backend` objects. By default oneDNN for a CPU where it is
            installed; ``[]`` is TVM's own code.
        target: TVM's; by default the CPU that this runs on, one thread. `Compiled.target` says it.
        shapes: How functions with symbolic shapes are compiled: ``"jit"``, `Aot`, a
            `Config`. By default by one kernel for all shapes. Backends then take
            operators by the strategy ``Library``, and are not given here.
        priority: Classes of backends, see `opinfo.byoc.dispatch`.
        force: Operators that must go to one backend, see `opinfo.byoc.dispatch`.

    Raises:
        FrontendError: The file cannot be read.
        TypeError, ValueError: An argument is of another type, or does not fit the others.
        FileNotFoundError: There is no C++ compiler.
    """
    mod = load(model) if isinstance(model, (str, Path)) else model
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"compile: expected a module or the path of a model, got {model!r:.80}")
    wanted = tvm.target.Target(native_target() if target is None else target)
    if shapes is not None:
        if backends or priority or force:
            raise ValueError("compile: with shapes=..., backends are given by the strategy Library")
        return Compiled(wanted, compile_shapes(mod, shapes, wanted))
    chosen = _default(wanted) if backends is None else backends
    done = compile_module(mod, chosen, priority=priority, force=force, target=wanted)
    return Compiled(wanted, done)


def describe(target: Any) -> str:
    """A target in a few words: ``llvm, haswell, 1 core``."""
    own = tvm.target.Target(target)
    cores = own.attrs.get("num-cores")
    parts = [own.kind.name, own.attrs.get("mcpu") or own.attrs.get("arch") or ""]
    parts.append(f"{cores} core{'s' if int(cores) > 1 else ''}" if cores else "")
    return ", ".join(str(p) for p in parts if p)


def _default(target: Any) -> list[str]:
    if on_gpu(target):
        return []
    return [name for name in DEFAULT if unusable(find(name)) is None]


def _served(t: SpecializedFunction) -> str:
    """How a function with symbolic shapes is compiled: ``fused_matmul: jit, rule contraction``."""
    rule = f", rule {t.rule}" if t.rule else ""
    return f"{t.function}: {type(t.strategy).__name__.lower()}{rule}{t.why and f' ({t.why})'}"


def _plain(value: Any) -> Any:
    """Tensors as arrays; tuples of them as tuples."""
    if isinstance(value, tvm.runtime.Tensor):
        return value.numpy()
    if type(value).__name__ in ("Array", "tuple", "list"):
        return tuple(map(_plain, value))
    return value
