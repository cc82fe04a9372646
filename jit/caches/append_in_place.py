"""Write what a function appends to its caches in place, instead of returning longer copies.

Before: `main(ids, keys: (1, h, p, d)) -> logits, concat((keys, new), axis=2)`
After:  `main(ids, keys: (1, h, c, d), cache_length: Shape([p])) -> logits`, where `keys` has room
        for c rows, of which p are in use; `new` is stored behind them, and readers see p + s rows.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from ...analysis.blocks.tir import loop
from ...analysis.support.warn import warn
from ..arguments.signature import CACHES, LENGTH, extents_of
from .find_caches import NO_CACHE, FoundCache, FoundCaches, find_caches


def append_in_place(mod: Any) -> Any:
    """Return a module whose functions write to their caches; see `opinfo.transform`.

    A function with a cache that cannot be written in place stays, with a warning that says why.

    Raises:
        ValueError: No function has a cache; the message has the reasons.
    """
    functions = {g: f for g, f in mod.functions_items() if isinstance(f, relax.Function)}
    results = {g: find_caches(f) for g, f in functions.items()}
    found = {g: r for g, r in results.items() if isinstance(r, FoundCaches)}
    if not found:
        reasons = "; ".join(f"{g.name_hint}: {r}" for g, r in results.items())
        raise ValueError("AppendToCaches: no function returns a parameter with new rows behind "
                         f"it: {reasons or 'there is no Relax function'}")  # fmt: skip
    for gvar, reason in results.items():
        if isinstance(reason, str) and reason != NO_CACHE:
            warn(f"AppendToCaches does not change {gvar.name_hint}: {reason}")
    out = dict(mod.functions_items())
    kernels = _Kernels({g.name_hint for g in out})
    for gvar, caches in found.items():
        written = _rewritten(mod, functions[gvar], caches, kernels)
        del out[gvar]
        out[_global_var(gvar.name_hint, written)] = written
    out |= kernels.functions
    return tvm.IRModule(out, attrs=mod.attrs, global_infos=mod.global_infos)


class _Kernels:
    """The PrimFuncs that store rows, each once; ``names`` are taken."""

    def __init__(self, names: set[str]) -> None:
        self.functions: dict[Any, Any] = {}
        self._names = names

    def variable(self, func: Any) -> Any:
        """Return the global variable of a PrimFunc."""
        for gvar, known in self.functions.items():
            if tvm_ffi.structural_equal(known, func, map_free_vars=True):
                return gvar
        stems = (f"append_to_cache_{k}" for k in itertools.count())
        name = next(n for n in stems if n not in self._names)
        self._names.add(name)
        gvar = _global_var(name, func)
        self.functions[gvar] = func
        return gvar


def _rewritten(mod: Any, func: Any, found: FoundCaches, kernels: _Kernels) -> Any:
    """Return a function that writes to its caches."""
    capacity = tirx.Var("capacity", "int64")
    params = list(func.params)
    for k in dict.fromkeys(c.param for c in found.caches):
        mine = [c for c in found.caches if c.param == k]
        params[k] = relax.Var(params[k].name, _roomy(params[k].ty, mine, capacity))
    writer = _Writer(mod, found, dict(zip(func.params, params, strict=True)), kernels)
    body = writer.visit_expr(func.body)
    length = relax.Var(LENGTH, relax.ShapeType([found.length]))
    attrs = dict(func.attrs or {})
    if "num_input" in attrs:  # weights follow the inputs
        count = int(attrs["num_input"])
        params.insert(count, length)
        attrs["num_input"] = count + 1
    else:
        params.append(length)
    rows = [c.new.ty.shape[c.axis] for c in found.caches]
    out = relax.Function(params, body, is_pure=func.is_pure).with_attrs(attrs)
    counts = extents_of(out, rows)
    caches = [[c.param, -1 if c.field is None else c.field, c.axis, n]
              for c, n in zip(found.caches, counts, strict=True)]  # fmt: skip
    return out.with_attr(CACHES, json.dumps(caches))


def _roomy(ty: Any, caches: list[FoundCache], capacity: Any) -> Any:
    """Return the type of a parameter with room behind the rows of its caches."""
    if isinstance(ty, relax.TupleType):
        fields = list(ty.fields)
        for cache in caches:
            k = cache.field or 0
            fields[k] = _with_extent(fields[k], cache.axis, capacity)
        return relax.TupleType(fields)
    return _with_extent(ty, caches[0].axis, capacity)


def _with_extent(ty: Any, axis: int, extent: Any) -> Any:
    shape = list(ty.shape)
    shape[axis] = extent
    return relax.TensorType(shape, ty.dtype)


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the concatenations and the result."""

    def __init__(
        self, mod: Any, found: FoundCaches, params: dict[Any, Any], kernels: _Kernels
    ) -> None:
        super().__init__(mod)
        self.found, self.params, self.kernels = found, params, kernels
        self.joined = {c.joined: c for c in found.caches}
        self.result: Any = None

    def visit_var_(self, var: Any) -> Any:
        param = self.params.get(var)
        return super().visit_var_(var) if param is None else param

    def visit_seq_expr_(self, seq: Any) -> Any:
        if self.result is None:
            self.result = seq.body
        return super().visit_seq_expr_(seq)

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var in self.joined:
            new = self._appended(self.joined[binding.var], binding)
        elif binding.var.same_as(self.result):
            new = self._others()
        else:
            super().visit_var_binding_(binding)
            return
        inside = self.builder_.current_block_is_dataflow()
        is_result = inside and not isinstance(binding.var, relax.DataflowVar)
        emit = self.builder_.emit_output if is_result else self.builder_.emit
        self.set_var_remap(binding.var, emit(new, binding.var.name))

    def _others(self) -> Any:
        others = [self.visit_expr(other) for other in self.found.others]
        return others[0] if len(others) == 1 else relax.Tuple(others)

    def _appended(self, cache: FoundCache, binding: Any) -> Any:
        """Store the new rows, and return a view of those in use."""
        param = self.params[list(self.params)[cache.param]]
        buffer, new = param, self.visit_expr(cache.new)
        if cache.field is not None:
            buffer = self.builder_.emit(relax.TupleGetItem(param, cache.field))
        gvar = self.kernels.variable(_append(buffer.ty, new.ty, cache.axis))
        args = relax.Tuple([buffer, new, self.found.length])
        written = self.builder_.emit(relax.op.call_tir_inplace(gvar, args, [0], out_ty=buffer.ty))
        end = binding.var.ty.shape[cache.axis]
        return relax.op.strided_slice(written, [cache.axis], [0], [end], assume_inbound=True)


def _append(cache: Any, new: Any, axis: int) -> Any:
    """Return a PrimFunc that stores rows behind the first `length`."""
    sizes = [_size(f"n{k}", e) for k, e in enumerate(new.shape)]
    shape = list(sizes)
    shape[axis] = tirx.Var("capacity", "int64")
    buffer = tirx.decl_buffer(shape, str(cache.dtype), name="cache")
    rows = tirx.decl_buffer(sizes, str(new.dtype), name="rows")
    length = tirx.Var("length", "int64")

    def nest(at: list[Any]) -> Any:
        if len(at) < len(sizes):
            return loop(f"i{len(at)}", sizes[len(at)], length, lambda i: nest([*at, i]))
        place = list(at)
        place[axis] = length + at[axis]
        return tirx.BufferStore(buffer, tirx.BufferLoad(rows, at), place)

    func = tirx.PrimFunc([buffer, rows, length], nest([]))
    opaque = 8  # so that nothing is fused with a call that writes its argument
    return func.with_attr("tirx.noalias", True).with_attr("op_pattern", opaque)


def _size(name: str, extent: Any) -> Any:
    return extent if isinstance(extent, tirx.IntImm) else tirx.Var(name, "int64")


def _global_var(name: str, func: Any) -> Any:
    gvar = ir.GlobalVar(name)
    ty = func.ty if isinstance(func, relax.Function) else relax.BlockBuilder().add_func(
        func, name).ty  # fmt: skip
    relax.expr._update_type(gvar, ty)
    return gvar
