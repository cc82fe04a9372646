"""Build the Relax operator of a proposal and let TVM legalise it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.tir.node import NodeDict, as_dtype, items, substitute
from ..support.wording import last_line
from ..terms.term import TensorVar, Var
from ..terms.traversal import free
from .attribute_values import to_prim
from .call_op import NotBuilt, call_op
from .legalise import Legalised, legalise
from .legalised_cache import Key, KnownFunction, key_of, recall, remember
from .proposal import Constant, Proposal
from .tvm_rules import tvm_rule


@dataclass(frozen=True)
class Rebuilt:
    """A legalised operator.

    Attributes:
        func: Its PrimFunc.
        params: The tensor expression's parameter for each parameter of the PrimFunc.
        scalars: The integer scalar that an operand without dimensions among `params` stands for.
    """

    func: Any
    params: tuple[TensorVar | Var, ...]
    scalars: Mapping[TensorVar, Var] = field(default_factory=dict)


#: Why the legalised PrimFunc cannot be the one that is analysed.
_MISFIT = "the op's lowering has a different number of parameters"


def rebuild(proposal: Proposal, lifted: TensorExpression) -> Rebuilt:
    """Legalise the proposed operator on operands of the PrimFunc's shapes.

    Raises:
        NotBuilt: The operator rejects the attributes, or does not lower to one PrimFunc.
    """
    dtype = _dtype(proposal, lifted)
    rule = tvm_rule(proposal, lifted)
    key = None if rule else key_of(proposal, lifted, dtype)
    cached = recall(key)
    if cached is not None:
        return _from_cache(cached, lifted)
    return _rebuild(proposal, lifted, dtype, key, rule)


def _from_cache(cached: KnownFunction, lifted: TensorExpression) -> Rebuilt:
    ordered = (*(lifted.params[o] for o in cached.inputs), *(c.out for c in lifted.outputs))
    if len(ordered) < cached.size:
        raise NotBuilt(_MISFIT)
    return Rebuilt(cached.func, ordered[: cached.size])


def _rebuild(
    proposal: Proposal, lifted: TensorExpression, dtype: str, key: Key | None, rule: Any
) -> Rebuilt:
    sizes = _sizes(lifted)
    read = _read_tensors(proposal.operands, lifted)
    args, tensors = _arguments(proposal.operands, read, sizes)
    params = list(tensors.values())
    if sizes:
        variables = [x for x in sizes.values() if isinstance(x, tirx.Var)]
        params.append(relax.Var("sizes", relax.ShapeType(variables)))
    attrs = {k: to_prim(v, sizes) for k, v in proposal.attrs.items()}
    legalised = _legalised(proposal, dtype, params, args, attrs, rule)
    if legalised is None:
        raise NotBuilt("the operator does not lower to one PrimFunc")
    inputs = _inputs(legalised, read, sizes)
    ordered = _in_order(legalised.func, inputs, [c.out for c in lifted.outputs])
    if key is not None and all(isinstance(i, TensorVar) for i in inputs):
        places = tuple(lifted.params.index(i) for i in inputs)
        remember(
            key, KnownFunction(legalised.func, places, len(ordered), legalised.op, legalised.rule)
        )
    scalars = {t: p for o, t in read.items() if isinstance(p := lifted.params[o], Var)}
    return Rebuilt(legalised.func, ordered, scalars)


def _read_tensors(
    operands: Sequence[int | Constant], lifted: TensorExpression
) -> dict[int, TensorVar]:
    """The operands that are parameters; a tensor without dimensions stands for a scalar."""
    read: dict[int, TensorVar] = {}
    for operand in operands:
        if isinstance(operand, Constant) or operand in read:
            continue
        param = lifted.params[operand]
        if isinstance(param, Var):
            if param.dtype == "int":
                raise NotBuilt(f"operand {operand} is a size, not a tensor or a scalar")
            param = TensorVar(param.name, (), param.dtype, operand)
        read[operand] = param
    return read


def _arguments(
    operands: Sequence[int | Constant], read: Mapping[int, TensorVar], sizes: Mapping[Var, Any]
) -> tuple[list[Any], dict[int, Any]]:
    """The operands of a call, and the variables among them by parameter."""
    tensors = {o: relax.Var(f"p{o}", _type(tensor, sizes)) for o, tensor in read.items()}
    args = [_literal(o) if isinstance(o, Constant) else tensors[o] for o in operands]
    return args, tensors


def _literal(constant: Constant) -> Any:
    try:
        return relax.const(constant.value, constant.dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise NotBuilt(f"{constant.value} does not fit in {constant.dtype}: {error}") from None


def _type(tensor: TensorVar, sizes: Mapping[Var, Any]) -> Any:
    return relax.TensorType([to_prim(e, sizes) for e in tensor.shape], tensor.dtype)


def typed_call(proposal: Proposal, lifted: TensorExpression, out: TensorVar) -> tuple[Any, Any]:
    """Return the call on operands of the PrimFunc's types, type inferred, and the type of `out`.

    Raises:
        NotBuilt: The operator rejects the operands or attributes.
    """
    sizes = _sizes(lifted)
    args, _ = _arguments(proposal.operands, _read_tensors(proposal.operands, lifted), sizes)
    attrs = {k: to_prim(v, sizes) for k, v in proposal.attrs.items()}
    try:
        call = call_op(proposal.name, args, attrs, _dtype(proposal, lifted))
        return relax.BlockBuilder().normalize(call), _type(out, sizes)
    except NotBuilt:
        raise
    except Exception as error:
        raise _rejected(proposal, error) from None


def _sizes(lifted: TensorExpression) -> dict[Var, Any]:
    sizes: dict[Var, Any] = {}
    for param in lifted.params:
        variables = [param] if isinstance(param, Var) else [v for e in param.shape for v in free(e)]
        for var in variables:
            if var not in sizes:
                sizes[var] = tirx.Var(var.name, "int64")
    for var, written in lifted.sums.items():
        values = NodeDict[Any]()
        for variable, term in written.variables:
            values[variable] = as_dtype(sizes.get(term, variable), str(variable.ty.dtype))
        sizes[var] = as_dtype(substitute(written.expr, values), "int64")
    return sizes


def _dtype(proposal: Proposal, lifted: TensorExpression) -> str:
    """The dtype of literal operands: the first operand's, or else any parameter's."""
    if proposal.operands and isinstance(proposal.operands[0], int):
        first = lifted.params[proposal.operands[0]]
        if isinstance(first, TensorVar):
            return first.dtype
    return next((t.dtype for t in lifted.params if isinstance(t, TensorVar)), "float32")


def _legalised(
    proposal: Proposal,
    dtype: str,
    params: list[Any],
    args: list[Any],
    attrs: Mapping[str, Any],
    rule: Any,
) -> Legalised | None:
    try:
        return legalise(call_op(proposal.name, args, attrs, dtype), params, rule)
    except NotBuilt:
        raise
    except Exception as error:
        raise _rejected(proposal, error) from None


def _rejected(proposal: Proposal, error: Exception) -> NotBuilt:
    return NotBuilt(f"{proposal.name} rejects it: {last_line(error)[:160]}")


def _inputs(
    legalised: Legalised, read: Mapping[int, TensorVar], sizes: Mapping[Var, Any]
) -> list[TensorVar | Var]:
    """The parameters of the tensor expression that the ``call_tir`` takes, in its order."""
    by_name = {f"p{o}": tensor for o, tensor in read.items()}
    by_size = {str(x.name): v for v, x in sizes.items() if isinstance(x, tirx.Var)}
    inputs: list[TensorVar | Var] = []
    for arg in legalised.args:
        name = getattr(arg, "name", "")
        if name not in by_name and name not in by_size:
            raise NotBuilt("the operator's lowering takes an argument that is not an operand")
        inputs.append(by_name[name] if name in by_name else by_size[name])
    for arg in legalised.scalars:
        name = getattr(arg, "name", "")
        if name not in by_size:
            raise NotBuilt("the operator's lowering takes a computed size")
        inputs.append(by_size[name])
    return inputs


def _in_order(
    func: Any, inputs: list[TensorVar | Var], outputs: list[TensorVar]
) -> tuple[Any, ...]:
    tensors = iter([*(i for i in inputs if isinstance(i, TensorVar)), *outputs])
    scalars = iter([i for i in inputs if isinstance(i, Var)])
    try:
        return tuple(next(tensors if is_buffer_var(p) else scalars) for p in items(func.params))
    except StopIteration:
        raise NotBuilt(_MISFIT) from None
