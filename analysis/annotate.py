"""Function attributes that describe what a PrimFunc computes, for C++ passes.

| attribute | value |
|---|---|
| ``opinfo.ops`` | ``Array<Map>``, one operator each, in order |
| ``opinfo.outputs`` | ``Array<Array<int>>``, the results that the output buffers hold |
| ``opinfo.kind`` | ``String``, the pattern kind of the whole function |
| ``opinfo.body`` | ``String``, the structural hash of the body that the attributes describe |
| ``opinfo.op_pattern`` | ``int``, the ``op_pattern`` that the pass set, if it set one |

An operator is ``{"name", "kind", "attrs", "operands", "buffers", "layouts", "certificate"}``. If it
is one over logical buffers, its name is ``layout_normalised(relax.tan)``, which is not the name of
an operator, and ``maps`` says where the logical elements are in each of ``buffers``. An operand is
an ``int``, a parameter; an ``Array<int>``, ``[step, output]`` of an earlier operator; or a ``Map``
with a literal's ``value`` and ``dtype``. ``layouts`` has a ``String`` for each of ``buffers``.
Attributes are ``int``, ``float``, ``String`` and ``Array``. Symbolic ones are text over places,
``p0.shape[1]`` for an extent of the first parameter and ``p2`` for a scalar parameter, because the
hash ignores the names of variables.

The attributes stay on a PrimFunc when its body changes. They are valid only while ``opinfo.body``
is the body's hash: `annotation` checks this, `annotate` updates or removes stale attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .answer.kind import fusion_kind
from .certify.structural_equality import bare
from .chain import Chain, Chains, Step, StepResult, Value
from .lifting.lift import lift
from .lifting.tir.unliftable import Unliftable
from .proposal.proposal import Constant
from .results.op_info import LayoutNormalised, PatternKind, Refusal
from .results.plain_values import to_plain
from .support.tvm_compat import SBlockRealize
from .terms.term import Int, TensorVar, Var, size
from .terms.traversal import free, substitute

OPS, OUTPUTS, KIND, BODY, SET = (
    f"opinfo.{k}" for k in ("ops", "outputs", "kind", "body", "op_pattern")
)
KEYS = (OPS, OUTPUTS, KIND, BODY, SET)
#: ``relay::OpPatternKind``.
PATTERNS: dict[PatternKind, int] = {
    "kElemWise": 0,
    "kBroadcast": 1,
    "kInjective": 2,
    "kCommReduce": 3,
    "kOutEWiseFusable": 4,
    "kOpaque": 8,
}
OPAQUE = PATTERNS["kOpaque"]
Places = Mapping[Var, Int]


@dataclass(frozen=True)
class Annotation:
    """The attributes that `AnnotateOpInfo` writes, as plain Python values.

    Attributes:
        kind: The pattern kind of the whole function.
        ops: One mapping for each operator, in order, with the keys of the annotation schema.
        outputs: For each output buffer, the step and the position of the result that it holds.
    """

    kind: PatternKind
    ops: tuple[Mapping[str, Any], ...]
    outputs: tuple[tuple[int, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' names, in order."""
        return tuple(op["name"] for op in self.ops)


def annotation(func: Any) -> Annotation | Refusal:
    """Return the attributes of a PrimFunc, if they describe its current body.

    Args:
        func: A `tirx.PrimFunc` that `AnnotateOpInfo` has processed.

    Returns:
        The attributes as Python values; a `Refusal` if the PrimFunc has none, or its body has
            changed.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"annotation: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
    attrs = func.attrs or {}
    if BODY not in attrs:
        return Refusal("the PrimFunc has no annotation", "run opinfo.transform.AnnotateOpInfo")
    if str(attrs[BODY]) != fingerprint(func):
        reason = "the body has changed since it was annotated"
        return Refusal(reason, "run opinfo.transform.AnnotateOpInfo again")
    ops = tuple(_python(op) for op in attrs[OPS])
    outputs = tuple((int(step), int(k)) for step, k in attrs[OUTPUTS])
    return Annotation(str(attrs[KIND]), ops, outputs)  # type: ignore[arg-type]


def annotate(mod: Any, chains: Chains | None = None) -> Any:
    """Return the module with attributes on every PrimFunc that is understood, and on no other.

    ``op_pattern`` is set if it is missing, kOpaque or kInjective and the kind is known to be
    better: TVM takes the order of a block's indices for an injective map.

    Raises:
        TypeError: `mod` is not an IRModule.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"AnnotateOpInfo: expected a tvm.IRModule, got {type(mod).__name__}")
    chains = chains or Chains()
    functions = {
        gvar: _annotated(f, chains) if isinstance(f, tirx.PrimFunc) else f
        for gvar, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)


def fingerprint(func: Any) -> str:
    """Return the structural hash of the parameters and the body, without names and attributes."""
    return f"{tvm_ffi.structural_hash(bare(func), map_free_vars=True) & (2**64 - 1):016x}"


def _annotated(func: Any, chains: Chains) -> Any:
    if isinstance(annotation(func), Annotation):
        return _with_pattern(func)
    pattern_set = (func.attrs or {}).get(SET)
    if pattern_set is not None and (func.attrs or {}).get("op_pattern") == pattern_set:
        func = func.with_attr("op_pattern", OPAQUE)
    for key in KEYS:
        if key in (func.attrs or {}):
            func = func.without_attr(key)
    chain = chains(func)
    if not isinstance(chain, Chain) or chain.inplace_indices:
        return _with_pattern(func)
    places = _places(chain.params)
    try:
        ops = [_op(s, places) for s in chain.steps]
    except KeyError:  # a size that is not an extent of its own anywhere
        return func
    func = func.with_attr(OPS, ops)
    func = func.with_attr(OUTPUTS, [[o.step, o.output] for o in chain.outputs])
    func = func.with_attr(KIND, chain.kind)
    return _with_pattern(func.with_attr(BODY, fingerprint(func)))


def _places(params: Sequence[TensorVar | Var]) -> dict[Var, Int]:
    """For each size and scalar, the place of its value, as a symbol of that name."""
    places: dict[Var, Int] = {}
    for k, param in enumerate(params):
        if isinstance(param, Var):
            places.setdefault(param, size(f"p{k}"))
            continue
        for d, poly in enumerate(param.shape):
            if isinstance(poly.atom, Var):
                places.setdefault(poly.atom, size(f"p{k}.shape[{d}]"))
    return places


def _with_pattern(func: Any) -> Any:
    """The PrimFunc as ``FuseOps`` expects it; ``FuseTIR`` requires the body to be a root block."""
    if not isinstance(func.body, SBlockRealize):
        return func
    present = int(func.attrs.get("op_pattern", OPAQUE))
    if present not in (OPAQUE, PATTERNS["kInjective"]):
        return func
    try:
        pattern = PATTERNS[fusion_kind(lift(func))]
    except (Unliftable, RecursionError):
        return func
    if pattern >= present:
        return func
    return func.with_attr("op_pattern", pattern).with_attr(SET, pattern)


def _op(step: Step, places: Places) -> dict[str, Any]:
    op = {
        "name": step.name,
        "kind": step.info.kind,
        "attrs": {k: _plain(v, places) for k, v in step.attrs.items() if v is not None},
        "operands": [_operand(o, places) for o in step.operands],
        "buffers": [_operand(b, places) for b in step.buffers],
        "layouts": [step.info.layouts[k] for k in range(len(step.buffers))],
        "certificate": step.info.certificate.kind,
    }
    if isinstance(step.info, LayoutNormalised):
        op["maps"] = [b.text if b is not None else "" for b in step.info.buffers]
    return op


def _operand(o: Value | Constant, places: Places) -> Any:
    if isinstance(o, StepResult):
        return [o.step, o.output]
    return {"value": _plain(o.value, places), "dtype": o.dtype} if isinstance(o, Constant) else o


def _plain(value: Any, places: Places) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(v, places) for v in value]
    if isinstance(value, Int):
        value = substitute(value, {v: places[v] for v in free(value)})
    plain = to_plain(value)
    return str(plain) if plain is None else plain


def _python(value: Any) -> Any:
    """A container of ffi as a Python value."""
    if isinstance(value, tvm_ffi.Map):
        return {str(k): _python(v) for k, v in value.items()}
    if isinstance(value, (tvm_ffi.Array, tuple, list)):
        return [_python(v) for v in value]
    return str(value) if isinstance(value, str) else getattr(value, "value", value)
