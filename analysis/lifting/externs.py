"""Calls of extern functions that are known: the sorts of TVM's runtime, ``tvm.contrib.sort.*``.

A call must be as the function is documented, on whole arrays, and run exactly once. Its outputs
then hold the results of an `ExternCall`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..terms.term import ONE, TRUE, ZERO, TensorVar, as_int, axis, fresh, integer, load
from ..terms.traversal import tensors
from .effects.effects import Write
from .effects.extern_call import ExternCall, Operand, extern_call
from .state import ExecutionState
from .tir.node import items
from .tir.unliftable import Unliftable

#: Calls whose first argument is the name of a function outside TIR.
CALLS = frozenset(
    f"tirx.{name}"
    for name in ("tvm_call_packed", "tvm_call_cpacked", "call_extern", "call_pure_extern")
)


@dataclass(frozen=True)
class ExternSignature:
    """The arrays and other arguments of a function, in order: what it reads, what it fills."""

    operands: int
    arguments: tuple[tuple[str, Callable[[Any], int | bool | str]], ...]
    results: Callable[[dict[str, Any]], int] = lambda arguments: 1


def _integer(value: Any) -> int:
    return int(value)


def _flag(value: Any) -> bool:
    return bool(int(value))


def _text(value: Any) -> str:
    return str(value.value)


_ORDER = (("axis", _integer), ("is_ascend", _flag))
#: The documentation: `src/runtime/extra/contrib/sort/sort.cc` and `tvm.topi.sort`.
SIGNATURES = {
    "tvm.contrib.sort.sort": ExternSignature(1, _ORDER),
    "tvm.contrib.sort.argsort": ExternSignature(1, _ORDER),
    "tvm.contrib.sort.topk": ExternSignature(
        1,
        (("k", _integer), ("axis", _integer), ("ret_type", _text), ("is_ascend", _flag)),
        lambda arguments: 2 if arguments["ret_type"] == "both" else 1,
    ),
}


def name_of(call: Any) -> str:
    """Return the name of the extern function that a call names; empty if it calls none."""
    op = str(getattr(getattr(call, "op", None), "name", ""))
    named = op in CALLS and len(call.args) > 0 and type(call.args[0]).__name__ == "StringImm"
    return str(call.args[0].value) if named else ""


def calls_extern(func: Any) -> bool:
    """Return whether a PrimFunc calls a known extern function."""
    names: set[str] = set()
    tvm_ffi.structural_walk(func.body, (tvm.ir.Call, lambda call: names.add(name_of(call))))
    return not names.isdisjoint(SIGNATURES)


def execute(state: ExecutionState, call: Any) -> ExternCall:
    """Execute a call of a known extern function: its outputs become its results.

    Raises:
        Unliftable: The call is conditional or repeated, or not as the function is documented.
    """
    function, args = name_of(call), items(call.args)[1:]
    signature = SIGNATURES.get(function)
    if signature is None or str(call.op.name) != "tirx.tvm_call_packed":
        raise Unliftable(f"calls the extern function {function}, which is not TIR")
    if state.running or state.facts or len(state.frames) > 1 or state.kernel is not None:
        raise Unliftable("an extern function is called in a loop or under a condition", function)
    rest = len(args) - len(signature.arguments)
    try:
        arguments = {
            key: read(arg)
            for (key, read), arg in zip(signature.arguments, args[rest:], strict=True)
        }
    except (AttributeError, TypeError, ValueError):
        raise Unliftable("an argument of an extern function is not a literal", function) from None
    arrays = [_array(state, arg, function) for arg in args[:rest]]
    if len(arrays) != signature.operands + signature.results(arguments):
        raise Unliftable("an extern function has another number of arrays", function)
    inputs, outputs = arrays[: signature.operands], arrays[signature.operands :]
    if len(set(arrays)) != len(arrays):
        raise Unliftable("an extern function reads and fills one array", function)
    arguments["axis"] = _check_shapes(function, arguments, inputs[0], outputs)
    operands = tuple(_operand(state, t, function) for t in inputs)
    types = tuple((t.shape, t.dtype) for t in outputs)
    extern = extern_call(function, operands, arguments, types)
    for tensor, result in zip(outputs, extern.results, strict=True):
        index = tuple(ZERO if e is ONE else as_int(fresh(e)) for e in tensor.shape)
        over = tuple(i.atom for i in index if i is not ZERO)
        state.effects.store(tensor, Write(over, TRUE, index, load(result, index)))  # type: ignore[arg-type]
        state.inputs.add(result)
    return extern


def check_operands(calls: Sequence[ExternCall], written: Container[TensorVar]) -> None:
    """Check that no call reads what a parameter held before the function wrote it."""
    for call in calls:
        for operand in call.operands:
            if any(t in written for t in tensors(operand.body)):
                raise Unliftable("an extern function reads an output", call.function)


def _array(state: ExecutionState, arg: Any, function: str) -> TensorVar:
    """The tensor of a buffer that is passed as a whole, with its own shape and type."""
    if str(getattr(getattr(arg, "op", None), "name", "")) != "tirx.tvm_stack_make_array":
        raise Unliftable("an argument of an extern function is not an array", function)
    data, shape, strides, rank, zero, offset = items(arg.args)
    pointer = str(getattr(getattr(data, "op", None), "name", "")) == "tirx.buffer_data"
    buffer = data.args[0] if pointer else None
    if buffer is None or not is_buffer_var(buffer):
        raise Unliftable("an array of an extern function is not a buffer", function)
    tensor = state.tensor(buffer)
    whole = (
        state.views.get(buffer) is None
        and tensor not in state.strided
        and tuple(map(state.reader.index, items(shape.args))) == tensor.shape
        and isinstance(strides, tirx.IntImm)
        and int(strides) == 0
        and int(rank) == len(tensor.shape)
        and str(zero.ty.dtype) == tensor.dtype
        and state.reader.index(offset) is ZERO
    )
    if not whole:
        raise Unliftable("an array of an extern function is not a whole buffer", function)
    return tensor


def _operand(state: ExecutionState, tensor: TensorVar, function: str) -> Operand:
    """What an array holds; it must have been written before."""
    axes = tuple(axis(d, e) for d, e in enumerate(tensor.shape))
    body = state.effects.read(tensor, axes)
    if not tensors(body) <= state.inputs:
        raise Unliftable("an extern function reads an element before it is written", function)
    return Operand(tensor.shape, tensor.dtype, body)


def _check_shapes(
    function: str, arguments: dict[str, Any], data: TensorVar, outputs: Sequence[TensorVar]
) -> int:
    """The axis, counted from the front, if the outputs have the shapes that are documented."""
    rank, number = len(data.shape), int(arguments["axis"])
    if not -rank <= number < rank:
        raise Unliftable(f"an extern function has axis {number} of {rank}", function)
    number %= rank
    shape = list(data.shape)
    k = int(arguments.get("k", 0))
    if k >= 1:
        extent = shape[number]
        if extent.const is not None and k > extent.const:
            raise Unliftable(f"an extern function takes {k} of {extent} elements", function)
        shape[number] = integer(k)
    if any(t.shape != tuple(shape) for t in outputs):
        raise Unliftable("an array of an extern function has another shape", function)
    return number
