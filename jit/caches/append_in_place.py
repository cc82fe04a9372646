"""Write the rows that a function adds to its caches in place, instead of returning copies.

Before: `main(ids, keys: (1, h, p, d)) -> logits, concat((keys, new), axis=2)`
After:  `main(ids, keys: (1, h, c, d), cache_length: Shape([p])) -> logits`, where `keys` has room
        for c rows, of which p are in use; `new` is stored behind them, and readers see p + s rows.

If only the last rows are kept, `cache_length` is `Shape([p, f])`: those in use begin with row f.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm import relax, tirx

from ...analysis.support.warn import warn
from ..arguments.signature import CACHES, LENGTH, extents_of
from .cache_forms import FoundCache, place_of
from .cache_kernels import CacheKernels, append, global_var, keep, update
from .find_caches import NO_CACHE, FoundCaches, find_caches, keeper


def append_in_place(mod: Any) -> Any:
    """Return a module whose functions write to their caches; see `opinfo.transform`.

    A function with a cache that cannot be written in place stays, with a warning that says why.

    Raises:
        ValueError: No function has a cache; the message has the reasons.
    """
    functions = {g: f for g, f in mod.functions_items() if isinstance(f, relax.Function)}
    results = {g: find_caches(f) for g, f in functions.items()}
    with_caches = {g: r for g, r in results.items() if isinstance(r, FoundCaches)}
    if not with_caches:
        reasons = "; ".join(f"{g.name_hint}: {r}" for g, r in results.items())
        raise ValueError("AppendToCaches: no function returns a parameter with new rows: "
                         f"{reasons or 'there is no Relax function'}")  # fmt: skip
    for gvar, reason in results.items():
        if isinstance(reason, str) and reason != NO_CACHE:
            warn(f"AppendToCaches does not change {gvar.name_hint}: {reason}")
    out = dict(mod.functions_items())
    kernels = CacheKernels({g.name_hint for g in out})
    for gvar, caches in with_caches.items():
        written = _rewritten(mod, functions[gvar], caches, kernels)
        del out[gvar]
        out[global_var(gvar.name_hint, written)] = written
    out |= kernels.functions
    return tvm.IRModule(out, attrs=mod.attrs, global_infos=mod.global_infos)


def _rewritten(mod: Any, func: Any, caches: FoundCaches, kernels: CacheKernels) -> Any:
    """Return a function that writes to its caches."""
    rooms = [tirx.Var("capacity", "int64") for _ in caches.groups]
    firsts = [None if g.kept is None else tirx.Var("first", "int64") for g in caches.groups]
    params = list(func.params)
    for k in dict.fromkeys(c.param for c in caches.caches):
        mine = [(c, rooms[caches.group(c)]) for c in caches.caches
                if c.param == k and c.length is not None]  # fmt: skip
        params[k] = relax.Var(params[k].name, _roomy(params[k].ty, mine))
    writer = _CacheRewriter(mod, func, caches, params, firsts, kernels)
    body = writer.visit_expr(func.body)
    attrs = dict(func.attrs or {})
    if caches.groups:
        state = [v for g, f in zip(caches.groups, firsts, strict=True)
                 for v in (g.length, f) if v is not None]  # fmt: skip
        length = relax.Var(LENGTH, relax.ShapeType(state))
        place = int(attrs.get("num_input", len(params)))  # weights follow the inputs
        params.insert(place, length)
        if "num_input" in attrs:
            attrs["num_input"] = place + 1
    out = relax.Function(params, body, is_pure=func.is_pure).with_attrs(attrs)
    return out.with_attr(CACHES, json.dumps(_described(out, caches)))


def _described(func: Any, found: FoundCaches) -> dict[str, Any]:
    """Return the caches for the attribute of a function."""
    rows = [c.new.ty.shape[0 if c.length is None else c.axis] for c in found.caches]
    caches = [[c.param, -1 if c.field is None else c.field, c.axis, n, found.group(c)]
              for c, n in zip(found.caches, extents_of(func, rows), strict=True)]  # fmt: skip
    groups = [extents_of(func, [g.length] if g.kept is None else [g.length, g.kept])
              for g in found.groups]  # fmt: skip
    return {"caches": caches, "groups": groups}


def _roomy(ty: Any, caches: list[tuple[FoundCache, Any]]) -> Any:
    """Return the type of a parameter with room behind the rows of its caches."""
    if isinstance(ty, relax.TupleType):
        fields = list(ty.fields)
        for cache, room in caches:
            k = cache.field or 0
            fields[k] = _with_extent(fields[k], cache.axis, room)
        return relax.TupleType(fields)
    for cache, room in caches:
        ty = _with_extent(ty, cache.axis, room)
    return ty


def _with_extent(ty: Any, axis: int, extent: Any) -> Any:
    shape = list(ty.shape)
    shape[axis] = extent
    return relax.TensorType(shape, ty.dtype)


@relax.expr_functor.mutator
class _CacheRewriter(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the concatenations, the updates and the result."""

    def __init__(
        self, mod: Any, func: Any, caches: FoundCaches, params: list[Any], firsts: list[Any],
        kernels: CacheKernels,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.func, self.found, self.firsts, self.kernels = func, caches, firsts, kernels
        self.params = dict(zip(func.params, params, strict=True))
        self.joined = {c.joined: c for c in caches.caches}
        self.updated = {c.result: c for c in caches.caches if c.length is None}
        self.reread = {c.place: c for c in caches.caches if c.place in caches.reread}
        self.written: dict[FoundCache, Any] = {}
        self.result: Any = None

    def visit_var_(self, var: Any) -> Any:
        param = self.params.get(var)
        if param is None:
            return super().visit_var_(var)
        cache = self.reread.get(place_of(self.func, var) or (-1, None))
        return param if cache is None else self._in_use(cache, param, cache.length)

    def visit_tuple_getitem_(self, item: Any) -> Any:
        cache = self.reread.get(place_of(self.func, item) or (-1, None))
        if cache is None:
            return super().visit_tuple_getitem_(item)
        return self._in_use(cache, self._buffer(cache), cache.length)

    def visit_seq_expr_(self, seq: Any) -> Any:
        if self.result is None:
            self.result = seq.body
        return super().visit_seq_expr_(seq)

    def visit_var_binding_(self, binding: Any) -> None:
        cache = self.joined.get(binding.var)
        if cache is not None:
            new = self._stored(cache, binding)
        elif binding.var.same_as(self.result):
            new = self._others()
        elif binding.var in self.updated:
            new = self.written[self.updated[binding.var]]
        else:
            super().visit_var_binding_(binding)
            return
        inside = self.builder_.current_block_is_dataflow()
        is_result = inside and not isinstance(binding.var, relax.DataflowVar)
        emit = self.builder_.emit_output if is_result else self.builder_.emit
        self.set_var_remap(binding.var, emit(new, binding.var.name))

    def _others(self) -> Any:
        kept = keeper(self.found.others) if self.found.unread else None
        others = []
        for other in self.found.others:
            new = self.visit_expr(other)
            others.append(self._depending(new) if other is kept else new)
            kept = None if other is kept else kept
        return others[0] if len(others) == 1 else relax.Tuple(others)

    def _depending(self, result: Any) -> Any:
        """Return a result that keeps the stores to all caches."""
        caches = list(self.written.values())
        gvar = self.kernels.variable(keep(result.ty, [c.ty for c in caches]), "keep_caches")
        args = relax.Tuple([result, *caches])
        return self.builder_.emit(relax.op.call_tir_inplace(gvar, args, [0], out_ty=result.ty))

    def _buffer(self, cache: FoundCache) -> Any:
        param = self.params[self.func.params[cache.param]]
        if cache.field is None:
            return param
        return self.builder_.emit(relax.TupleGetItem(param, cache.field))

    def _stored(self, cache: FoundCache, binding: Any) -> Any:
        """Store the new rows; return a view of those in use, or the updated cache."""
        buffer, new = self._buffer(cache), self.visit_expr(cache.new)
        if cache.length is not None:
            func, last = append(buffer.ty, new.ty, cache.axis), self._first(cache) + cache.length
        else:
            last = self.visit_expr(cache.positions)
            func = update(buffer.ty, new.ty, last.ty, cache.order)
        gvar = self.kernels.variable(func)
        args = relax.Tuple([buffer, new, last])
        written = self.builder_.emit(relax.op.call_tir_inplace(gvar, args, [0], out_ty=buffer.ty))
        self.written[cache] = written
        if cache.length is not None:
            return self._in_use(cache, written, binding.var.ty.shape[cache.axis])
        order = list(cache.order)
        if order == sorted(order):
            return written
        return relax.op.permute_dims(written, order)

    def _in_use(self, cache: FoundCache, buffer: Any, count: Any) -> Any:
        """Return so many rows of a buffer, from the first one in use."""
        first = self._first(cache)
        part = relax.op.strided_slice(buffer, [cache.axis], [first], [first + count],
                                      assume_inbound=True)  # fmt: skip
        return self.builder_.emit(part)

    def _first(self, cache: FoundCache) -> Any:
        first = self.firsts[self.found.group(cache)]
        return tirx.const(0, "int64") if first is None else first
