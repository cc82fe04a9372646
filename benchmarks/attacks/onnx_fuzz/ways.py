"""The ways in which a model is compiled and run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .graphs import runtime
from .graphs.runtime import Array
from .random_model import Model

Outputs = list[list[Array]]
Way = Callable[[Path, Model], Outputs]


def _inputs(model: Model, feed: Mapping[str, Array]) -> list[Array]:
    return [feed[entry.name] for entry in model.proto.graph.input]


def _listed(result: Any) -> list[Array]:
    parts = [result] if hasattr(result, "shape") else list(result)
    return [np.asarray(p.numpy() if hasattr(p, "numpy") else p) for p in parts]


@lru_cache(maxsize=2)
def _loaded(content: bytes, path: Path, bound: tuple[Any, ...] = ()) -> Any:
    """Return the module of a file, which several ways compile."""
    import opinfo

    return opinfo.load(path, dict(bound))


def _module(path: Path, bound: Mapping[str, Any] | None = None) -> Any:
    return _loaded(path.read_bytes(), path, tuple((bound or {}).items()))


class WrongType(Exception):
    """The module's results have other types than ONNX Runtime's."""


def _imported(path: Path, model: Model) -> Outputs:
    """The lowered module alone: results have the right types. It costs little, and returns none."""
    from tvm import relax

    mod = _module(path)
    relax.transform.LegalizeOps()(mod)
    result = mod["main"].ret_ty
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    wanted = runtime.run(model.proto, model.feeds[0])
    for (name, array), own in zip(wanted.items(), types, strict=True):
        sizes = [getattr(d, "value", None) for d in own.shape.values] if own.shape else []
        fits = len(sizes) == array.ndim and all(
            d in (None, size) for d, size in zip(sizes, array.shape, strict=True)
        )
        if str(own.dtype) != str(array.dtype) or (own.shape and not fits):
            got = f"{own.dtype}{sizes}, expected {array.dtype}{list(array.shape)}"
            raise WrongType(f"{name}: {got}")
    return []


def _with(*backends: str) -> Way:
    """Compile for backends, one kernel for all shapes."""

    def run(path: Path, model: Model) -> Outputs:
        import opinfo

        compiled = opinfo.compile(_module(path), list(backends))
        return [_listed(compiled.run(*_inputs(model, feed))) for feed in model.feeds]

    return run


def _default(path: Path, model: Model) -> Outputs:
    """The default choice with its race, for the shapes of the first binding."""
    import opinfo

    compiled = opinfo.compile(_module(path, _bound(model)))
    return [_listed(compiled.run(*_inputs(model, model.feeds[0])))]


def _static(path: Path, model: Model) -> Outputs:
    """TVM's code for the shapes of the first binding."""
    import opinfo

    compiled = opinfo.compile(_module(path, _bound(model)), [])
    return [_listed(compiled.run(*_inputs(model, model.feeds[0])))]


def _bound(model: Model) -> dict[str, Any]:
    if not model.is_symbolic:
        return {}
    return {name: array.shape for name, array in model.feeds[0].items()}


@lru_cache(maxsize=1)
def _compiler() -> Any:
    """Return the process that compiles kernels, which all sessions share."""
    from opinfo.jit import Compiler

    return Compiler()


def _session(path: Path, model: Model) -> Outputs:
    """A session: generic kernels first, then compiled ones."""
    import opinfo

    jit = opinfo.jit.Jit("eager", threshold=1)
    compiled = opinfo.compile(_module(path), [], shapes=opinfo.jit.Config(jit))
    out = []
    with opinfo.Session(compiled, compiler=_compiler()) as session:
        for _ in range(2):
            out += [_listed(session(*_inputs(model, feed))) for feed in model.feeds]
            session.settle()
        failed = [event.why for event in session.stats().events if event.what == "failed"]
    if failed:
        raise RuntimeError(f"a kernel: {failed[0]}")
    return out


def _ahead(path: Path, model: Model) -> Outputs:
    """Kernels compiled ahead of time: for the sizes of the first binding, padded to others."""
    import opinfo

    sizes: dict[str, tuple[int, ...]] = {}
    for entry in model.proto.graph.input:
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            if dim.dim_param:
                sizes[dim.dim_param] = tuple({f[entry.name].shape[axis] for f in model.feeds[:2]})
    aot = opinfo.jit.Aot(sizes, pad=True)
    compiled = opinfo.compile(_module(path), [], shapes=aot)
    return [_listed(compiled.run(*_inputs(model, feed))) for feed in model.feeds]


def _exported(path: Path, model: Model) -> Outputs:
    """An exported library of the mixed choice, loaded by TVM's runtime alone."""
    import tvm
    from tvm import relax

    import opinfo

    compiled = opinfo.compile(_module(path), race=False)
    with tempfile.TemporaryDirectory() as folder:  # the loader keeps libraries by their path
        library = Path(folder) / "exported.so"
        compiled.export(library)
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return [_listed(machine["main"](*map(_tensor, _inputs(model, feed)))) for feed in model.feeds]


def _tensor(array: Array) -> Any:
    import tvm

    return tvm.runtime.tensor(np.require(array, requirements="C"))


#: Ways by name; those of `SYMBOLIC` need a model with symbolic dimensions.
WAYS: dict[str, Way] = {
    "imported": _imported,
    "tvm": _with(),
    "onednn": _with("onednn"),
    "blas": _with("blas"),
    "onnxruntime": _with("onnxruntime"),
    "openvino": _with("openvino"),
    "default": _default,
    "exported": _exported,
    "static": _static,
    "session": _session,
    "ahead": _ahead,
}
#: Ways of every model.
FIRST = ("imported", "tvm")
SYMBOLIC = ("static", "session", "ahead")
