"""Rebuild an answer with TVM's public constructor."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ..analysis import OpInfo, op_info
from ..analysis.certify.structural_equality import bare
from ..analysis.proposal.legalise import legalise_module
from ..analysis.results.plain_values import to_plain
from ..analysis.support.ir.constructors import constructor_of
from .strip import strip

PLAIN = (bool, int, float, str, type(None))


def check_rebuilt(func: Any, info: OpInfo) -> None:
    """Check that the rebuilt answer is the PrimFunc, or at least gets the same answer."""
    sizes = variables(func)
    assert not {k: foreign for k, v in info.attrs.items() if (foreign := strangers(v, sizes))}
    built = rebuilt(func, info)
    if tvm_ffi.structural_equal(bare(built), bare(func), map_free_vars=True):
        return
    answer = op_info(strip(built))
    assert isinstance(answer, OpInfo)
    assert answer.name == info.name
    scalars = [k for k, param in enumerate(func.params) if not is_buffer_var(param)]
    if not set(scalars) & set(info.operands):  # a scalar is not an operand for the kind
        assert answer.kind == info.kind
    assert _with_common_sizes(answer.attrs) == _with_common_sizes(info.attrs)


def variables(func: Any) -> list[Any]:
    """Return the scalar parameters and symbolic extents."""
    extents: list[Any] = []
    for param in func.params:
        dims = param.ty.shape if is_buffer_var(param) else [param]
        extents += [e for e in dims if isinstance(e, tirx.Var) and not _among(e, extents)]
    return extents


def _among(var: Any, candidates: list[Any]) -> bool:
    return any(var.same_as(f) for f in candidates)


def strangers(value: Any, allowed: list[Any]) -> list[Any]:
    """Return parts of an attribute that are neither plain values nor TIR over own variables."""
    if isinstance(value, tuple):
        return [s for v in value for s in strangers(v, allowed)]
    if type(value) in PLAIN or isinstance(value, tirx.IndexMap):
        return []
    if type(getattr(value, "ty", None)).__name__ != "PrimType":
        return [value]
    used: list[Any] = []
    tvm_ffi.structural_walk(value, (tirx.Var, used.append))
    return [v for v in used if not _among(v, allowed)]


def rebuilt(func: Any, info: OpInfo) -> Any:
    """Return the PrimFunc of ``relax.op…(**info.bind(params))``."""
    params = [_operand(k, param) for k, param in enumerate(func.params)]
    constructor = constructor_of(info.name)
    sizes = [v for v in variables(func) if str(v.ty.dtype) == "int64"]  # as a shape has
    extra = [relax.Var("sizes", relax.ShapeType(sizes))] if sizes else []
    read = [params[k] for k in dict.fromkeys(o for o in info.operands if isinstance(o, int))]
    builder = relax.BlockBuilder()
    with builder.function("main", [*read, *extra]):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(constructor(**info.bind(params))))
        builder.emit_func_output(out)
    (prim_func,) = (f for f in legalise_module(builder.get()).functions.values()
               if isinstance(f, tirx.PrimFunc))  # fmt: skip
    return prim_func


def _operand(position: int, param: Any) -> Any:
    """The tensor that stands for a parameter; a scalar has no dimensions."""
    shape = list(param.ty.shape) if is_buffer_var(param) else []
    return relax.Var(f"p{position}", relax.TensorType(shape, str(param.ty.dtype)))


def _with_common_sizes(attrs: Any) -> Any:
    """Return attributes with a common name for all sizes, whose names differ by PrimFunc."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(x) for x in value]
        symbolic = isinstance(value, tvm_ffi.Object) and not isinstance(
            value, (tirx.IndexMap, tirx.IntImm, tirx.FloatImm)
        )
        return "a dimension" if symbolic else to_plain(value)

    return {k: plain(v) for k, v in attrs.items()}
