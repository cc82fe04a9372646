"""Find the symbolic dimensions of a PrimFunc, and bind them to values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ...analysis.support.ir.call_ops import op_name
from ...analysis.support.ir.deep_copy import copied

#: Operations that are folded if both operands are integers.
FOLDED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max, tirx.LT,
          tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)  # fmt: skip


class Unbound(ValueError):
    """A symbolic dimension never stands alone in a shape, so no argument gives its value."""


@dataclass(frozen=True)
class Symbol:
    """A symbolic dimension and where to read it: ``shape[axis]`` of the parameter ``param``.

    ``axis`` is None if the parameter is the extent itself. A scalar on which no shape and no loop
    depends is not a dimension.
    """

    name: str
    param: int
    axis: int | None
    var: Any


def symbols(func: Any) -> tuple[Symbol, ...]:
    """Return the symbolic dimensions of a PrimFunc, in order of first occurrence alone.

    Names are made unique: the second of two variables ``n`` is ``n_1``.

    Raises:
        Unbound: A variable of a shape never stands alone.
    """
    dims: list[Symbol] = []
    inside: list[Any] = []
    sizes = _sizes(func)
    for k, param in enumerate(func.params):
        if not tirx.is_buffer_var(param):
            if any(param.same_as(v) for v in sizes):
                _note(dims, param, k, None)
            continue
        for axis, extent in enumerate(param.ty.shape):
            if isinstance(extent, tirx.Var):
                _note(dims, extent, k, axis)
            else:
                inside += variables(extent)
    for var in inside:
        if not any(s.var.same_as(var) for s in dims):
            raise Unbound(f"the dimension {var.name} of {name(func)} never stands alone in a shape")
    return tuple(dims)


def _sizes(func: Any) -> list[Any]:
    """Return the integer parameters that determine a shape or a loop extent."""
    numbers = [p for p in func.params
               if not tirx.is_buffer_var(p) and p.ty.dtype.startswith("int")]  # fmt: skip
    if not numbers:
        return []
    used = [v for p in func.params if tirx.is_buffer_var(p) for e in p.ty.shape
            for v in variables(e)]  # fmt: skip
    bound: list[tuple[Any, Any]] = []

    def note(*expressions: Any) -> None:
        used.extend(v for e in expressions for v in variables(e))

    tvm_ffi.structural_walk(func.body, [
        (tirx.For, lambda stmt: note(stmt.min, stmt.extent)),
        (s_tir.SBlock, lambda stmt: note(*(iv.dom.extent for iv in stmt.iter_vars),
                                         *(e for b in stmt.alloc_buffers for e in b.ty.shape))),
        (tirx.AllocBuffer, lambda stmt: note(*stmt.buffer.ty.shape)),
        (tirx.DeclBuffer, lambda stmt: note(*stmt.buffer.ty.shape)),
        (tirx.Bind, lambda stmt: bound.append((stmt.var, stmt.value))),
        (tirx.While, lambda stmt: note(stmt.condition)),
    ])  # fmt: skip
    for var, expr in reversed(bound):  # later bindings use earlier ones
        if any(var.same_as(u) for u in used):
            note(expr)
    return [p for p in numbers if any(p.same_as(v) for v in used)]


def _note(dims: list[Symbol], var: Any, param: int, axis: int | None) -> None:
    if any(s.var.same_as(var) for s in dims):
        return
    names = {s.name for s in dims}
    unique = next(n for n in _names(var.name) if n not in names)
    dims.append(Symbol(unique, param, axis, var))


def _names(stem: str) -> Iterator[str]:
    yield stem
    k = 1
    while True:
        yield f"{stem}_{k}"
        k += 1


def variables(expr: Any) -> list[Any]:
    """Return the variables of an integer expression."""
    seen: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tirx.Var) and not any(node.same_as(v) for v in seen):
            seen.append(node)

    if not isinstance(expr, int):
        tvm_ffi.structural_walk(expr, visit, order="post")
    return seen


def static(func: Any) -> bool:
    """Return whether a PrimFunc has no symbolic dimension."""
    return not _sizes(func) and all(isinstance(e, tirx.IntImm) for p in func.params
                                    if tirx.is_buffer_var(p) for e in p.ty.shape)  # fmt: skip


def rooted(func: Any) -> Any:
    """Wrap the body in a root block, which TVM's passes over Relax expect in each PrimFunc."""
    if isinstance(func.body, s_tir.SBlockRealize):
        return func
    root = s_tir.SBlock([], [], [], "root", func.body)
    body = s_tir.SBlockRealize([], True, root)
    wrapped = tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)
    return wrapped.with_attr("s_tir", True)


def name(func: Any) -> str:
    """Return the name of a PrimFunc for messages."""
    return str((func.attrs or {}).get("global_symbol", "the PrimFunc"))


def bind(func: Any, values: Mapping[str, int]) -> Any:
    """Bind the symbolic dimensions of a PrimFunc to values.

    Before: ``f(x: Buffer((n, 4)), y: Buffer((2 * n, 4)))``, ``{"n": 3}``
    After:  ``f(x: Buffer((3, 4)), y: Buffer((6, 4)))``

    Attributes are kept, and ``func`` is not modified. A parameter that is an extent stays a
    parameter, under the dimension's name, but is not read.

    Raises:
        ValueError: ``values`` does not name exactly the `symbols`, or a value is not positive.
    """
    func_symbols = symbols(func)
    expected = {s.name for s in func_symbols}
    if expected != set(values):
        raise ValueError(
            f"bind: {name(func)}: expected values for {sorted(expected)}, got "
            f"values for {sorted(values)}"
        )
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"bind: {key} must be a positive integer, got {value!r}")
    copy = copied(func)
    dims = symbols(copy)
    numbers = {s.var: tirx.IntImm(s.var.ty.dtype, values[s.name]) for s in dims}
    names = [next((s.name for s in dims if s.var.same_as(p)), None) for p in copy.params]
    bare = tirx.PrimFunc([p for p, n in zip(copy.params, names, strict=True) if n is None],
                         copy.body, copy.ret_type, copy.attrs)  # fmt: skip
    bound = _substituted(bare, numbers)
    if not any(names):
        return bound
    kept_params = iter(bound.params)
    params = [next(kept_params) if n is None else tirx.Var(n, p.ty.dtype)
              for p, n in zip(copy.params, names, strict=True)]  # fmt: skip
    return tirx.PrimFunc(params, bound.body, bound.ret_type, bound.attrs)


def _substituted(node: Any, numbers: Mapping[Any, Any]) -> Any:
    """Substitute integers for variables, and fold constant expressions."""
    simplify = tvm.sym.Analyzer().simplify

    def folded(expr: Any) -> Any:
        operands = [getattr(expr, k) for k in ("a", "b") if hasattr(expr, k)]
        return simplify(expr) if all(isinstance(x, tirx.IntImm) for x in operands) else expr

    return tvm_ffi.structural_map(node, [
        (tvm.ir.Var, lambda v: numbers.get(v, v)),
        (FOLDED, folded),
        (tvm.ir.Call, _decided),
        (tirx.Select, _chosen),
    ])  # fmt: skip


def _chosen(select: Any) -> Any:
    """Return the operand that is chosen if the condition is constant."""
    if not isinstance(select.condition, tirx.IntImm):
        return select
    return select.true_value if select.condition.value else select.false_value


def _decided(call: Any) -> Any:
    """Return the branch that is taken if the condition is constant."""
    if op_name(call) != "prim.if_then_else" or len(call.args) < 3:
        return call
    constant = isinstance(call.args[0], tirx.IntImm)
    return (call.args[1] if call.args[0].value else call.args[2]) if constant else call
