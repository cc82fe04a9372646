"""PrimFuncs: those that operators legalise to, and those of a module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, tirx

LEGALIZE = relax.transform.LegalizeOps()


def lowered(
    op: Callable[..., Any], *operands: Any, legalise: Callable[[Any], Any] = LEGALIZE
) -> Any:
    """The one PrimFunc of an op; an operand is a shape, of float32, or ``(shape, dtype)``."""
    types = [o if o and isinstance(o[-1], str) else (o, "float32") for o in operands]
    params = [relax.Var(f"x{k}", relax.TensorType(*t)) for k, t in enumerate(types)]
    return prim_func(op, params, legalise)


def prim_func(
    op: Callable[..., Any], params: Sequence[Any], legalise: Callable[[Any], Any] = LEGALIZE
) -> Any:
    """The one PrimFunc of an op on the tensors among the parameters of a Relax function."""
    tensors = [p for p in params if isinstance(p.ty, relax.TensorType)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(op(*tensors)))
    mod = legalise(builder.get())
    (func,) = prim_funcs(mod)
    return func


def fused(mod: Any) -> Any:
    """The module with its operators lowered, and fused by TVM."""
    mod = relax.transform.AnnotateTIROpPattern()(LEGALIZE(mod))
    return relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))


def prim_funcs(mod: Any) -> list[Any]:
    """The PrimFuncs of a module, in its order."""
    return [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]


def prim_funcs_by_name(mod: Any) -> dict[str, Any]:
    """The PrimFuncs of a module by their names."""
    return {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
