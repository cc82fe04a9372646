"""Raise ``call_tir`` on recognised PrimFuncs back to Relax operators.

    Before: gv = R.call_tir(cls.f, (x, w), out_ty=R.Tensor((1, 8, 16, 16), "float32"))
    After:  gv = R.nn.conv2d(x, w, strides=[1, 1], padding=[1, 1, 1, 1], …)

A call stays unchanged, with the reason in the report, if the PrimFunc is not recognised, the
certificate is weaker than requested, or the operator's inferred type differs from the call's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ....analysis import Constant, OpInfo
from ....analysis.answer.analyser import analyser
from ....analysis.answer.recovered import Recovered
from ....analysis.proposal.attribute_values import to_prim
from ....analysis.proposal.call_op import NotBuilt, call_op
from ....analysis.results.op_info import ASSUMED, LayoutNormalised
from ....analysis.support.ir.call_ops import is_call_tir
from ....analysis.support.tvm_compat import sym
from ....analysis.terms.term import TensorVar, Var
from ....layout.graph.call_extents import unequal_extents
from ....layout.graph.unused import without_unused
from ....layout.search.constraints import full

STRENGTH = {"tested": 0, "real": 1, "kernel": 2, "extern": 3, "proved": 4, "rebuilt": 5}


@dataclass(frozen=True)
class Kept:
    """A ``call_tir`` that was not raised: its PrimFunc, its function, and the reason."""

    prim_func: str
    function: str
    reason: str


@dataclass(frozen=True)
class Site:
    """A ``call_tir`` that became an operator; ``site`` is its number in the module, from 0."""

    site: int
    op: str
    certificate: str


@dataclass(frozen=True)
class Raised:
    """A raised module, the calls that became operators, and those that were not raised."""

    module: Any
    raised: tuple[Site, ...]
    kept: tuple[Kept, ...]


def raise_ops(
    mod: Any,
    *,
    certificate: str = "proved",
    exact: bool = False,
    ops: Collection[str] | None = None,
    prefer: Sequence[str] = (),
) -> Raised:
    """Raise each ``call_tir`` to its operator if possible.

    Args:
        mod: The module; it is not changed.
        certificate: The weakest kind to accept: ``tested`` < ``real`` < ``kernel`` <
            ``extern`` < ``proved`` < ``rebuilt``.
        exact: Require bit-equality.
        ops: Raise only these operators, such as ``{"nn.conv2d"}``; None for all.
        prefer: If several operators compute the same, take the first of these.

    Raises:
        TypeError: `mod` is not an IRModule, or `ops` or `prefer` is one string.
        ValueError: The kind of certificate or an operator is unknown.
    """
    requirements = check_requirements(certificate, exact, ops, prefer)
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"RaiseOps: expected a tvm.IRModule, got {type(mod).__name__}")
    raiser = _Raiser(mod, requirements)
    functions = [(g, f) for g, f in mod.functions_items() if isinstance(f, relax.Function)]
    for gvar, func in functions:
        raiser.name = gvar.name_hint
        raiser.builder_.update_func(gvar, raiser.visit_expr(func))
    out = without_unused(raiser.builder_.get(), mod)
    return Raised(out, tuple(raiser.raised), tuple(raiser.kept))


def check_requirements(
    certificate: str, exact: bool, ops: Collection[str] | None, prefer: Sequence[str]
) -> Requirements:
    """Return what an operator must satisfy to be raised; for errors, see `raise_ops`."""
    if certificate not in STRENGTH:
        kinds = ", ".join(STRENGTH)
        raise ValueError(f"RaiseOps: certificate must be one of {kinds}, got {certificate!r}")
    only = None if ops is None else frozenset(_full_names(ops, "ops"))
    return Requirements(STRENGTH[certificate], exact, only, _full_names(prefer, "prefer"))


def _full_names(ops: Collection[str], argument: str) -> tuple[str, ...]:
    if isinstance(ops, str):
        raise TypeError(f"RaiseOps: {argument} must be a sequence of operators, got {ops!r}")
    return tuple(full(name, f"RaiseOps: {argument}") for name in ops)


@dataclass(frozen=True)
class Requirements:
    """The certificate and the operators that `raise_ops` accepts, and those it prefers."""

    strength: int
    exact: bool
    ops: frozenset[str] | None
    prefer: tuple[str, ...]

    def preferred(self, recovered: Recovered) -> Recovered:
        """The recovered operator, or the preferred alternative to it."""
        info = recovered.info
        if not self.prefer or not isinstance(info, OpInfo):
            return recovered
        named = {i.name: i for i in (*info.alternatives, info) if self.missing(i) is None}
        name = next((n for n in self.prefer if n in named), info.name)
        return replace(recovered, info=named.get(name, info))

    def missing(self, info: OpInfo) -> str | None:
        """The requirement that an operator fails; None if it meets all."""
        if info.relaid:
            return f"the buffers are in the layouts {', '.join(filter(None, info.layouts))}"
        if self.ops is not None and info.name not in self.ops:
            return f"{info.name} is not among the ops to raise"
        if STRENGTH[info.certificate.kind] < self.strength:
            return f"the certificate is only {info.certificate.kind}"
        if self.exact and not info.certificate.exact:
            return "equality is not bit for bit: " + "; ".join(
                assumption
                for assumption in info.certificate.assumptions
                if assumption not in ASSUMED
            )
        return None


@relax.expr_functor.mutator
class _Raiser(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls that meet the requirements by their operators."""

    def __init__(self, mod: Any, requirements: Requirements) -> None:
        super().__init__(mod)
        self.mod = mod
        self.requirements = requirements
        tested = requirements.strength == STRENGTH["tested"]
        self.analyse = analyser(alternatives=bool(requirements.prefer), tested=tested)
        self.name = ""
        self.raised: list[Site] = []
        self.kept: list[Kept] = []

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call):
            return call
        gvar = call.args[0]
        func = self.mod[gvar]
        recovered = self.requirements.preferred(self.analyse(func)).over_tensors()
        reason = self.why_not(recovered, call)
        if reason is None:
            try:
                new = self.builder_.normalize(_call(recovered, call))
                if same_type(new.ty, call.ty):
                    assert isinstance(recovered.info, OpInfo)
                    place = len(self.raised) + len(self.kept)
                    kind = recovered.info.certificate.kind
                    self.raised.append(Site(place, recovered.info.name, kind))
                    return new
                reason = f"the operator's type {new.ty} is not the call's {call.ty}"
            except NotBuilt as error:
                reason = str(error)
        self.kept.append(Kept(gvar.name_hint, self.name, reason))
        return call

    def why_not(self, recovered: Recovered, call: Any) -> str | None:
        if isinstance(recovered.info, LayoutNormalised):
            return (
                f"the buffers are in the layouts {', '.join(filter(None, recovered.info.places))}"
            )
        if not isinstance(recovered.info, OpInfo):
            return repr(recovered.info)
        if (unequal := unequal_extents(self.mod[call.args[0]], call)) is not None:
            return unequal
        results = len(call.ty.fields) if hasattr(call.ty, "fields") else 1
        if len(recovered.outputs) != results:
            return (
                f"the PrimFunc writes {len(recovered.outputs)} buffers, "
                f"the call has {results} results"
            )
        return self.requirements.missing(recovered.info)


def same_type(a: Any, b: Any) -> bool:
    """Whether two Relax types are equal; symbolic extents may be written differently."""
    if tvm_ffi.structural_equal(a, b):
        return True
    if hasattr(a, "fields") and hasattr(b, "fields"):
        return len(a.fields) == len(b.fields) and all(map(same_type, a.fields, b.fields))
    left, right = (getattr(t, "shape", None) for t in (a, b))
    if left is None or right is None or a.dtype != b.dtype:
        return False
    left, right = (getattr(s, "values", s) for s in (left, right))
    prove = sym.Analyzer().can_prove_equal
    return len(left) == len(right) and all(map(prove, left, right))


def _call(recovered: Recovered, call: Any) -> Any:
    """The call of the operator with the arguments of a ``call_tir``."""
    info, arguments = recovered.info, list(call.args[1].fields)
    assert isinstance(info, OpInfo)
    operands = []
    for operand in info.operands:
        if isinstance(operand, Constant):
            operands.append(relax.const(operand.value, operand.dtype))
        elif operand < len(arguments):
            operands.append(arguments[operand])
        else:
            raise NotBuilt("an operand of the operator is an output of the PrimFunc")
    sizes = call_sizes(recovered.params, arguments, call)
    attrs = {k: to_prim(v, sizes) for k, v in info.attrs.items()}
    first = next((a for a in operands if hasattr(a.ty, "dtype")), None)
    dtype = str(first.ty.dtype) if first is not None else "float32"
    return call_op(info.name, operands, attrs, dtype)


def call_sizes(
    params: tuple[TensorVar | Var, ...], arguments: list[Any], call: Any
) -> Mapping[Var, Any]:
    """The value of each symbolic size of a PrimFunc at a call, from the shapes of its arguments.

    The parameters are the arguments and the results, in order; a number has no shape.

    Raises:
        NotBuilt: The PrimFunc has another number of parameters.
    """
    results = call.ty.fields if hasattr(call.ty, "fields") else [call.ty]
    values: dict[Var, Any] = {}
    for param, argument in zip(params, arguments, strict=False):
        if isinstance(param, Var):
            values[param] = getattr(argument, "value", argument)
    types = [*(a.ty for a in arguments), *results]
    if len(params) != len(types):
        raise NotBuilt(f"the PrimFunc has {len(params)} parameters, the call has {len(types)}")
    for param, ty in zip(params, types, strict=True):
        extents = getattr(getattr(ty, "shape", None), "values", None)
        if isinstance(param, TensorVar) and extents is not None:
            for poly, dim in zip(param.shape, extents, strict=False):
                if isinstance(poly.atom, Var):
                    values.setdefault(poly.atom, dim)
    return values
