"""Prove, stage by stage, that two PrimFuncs in standard form compute the same.

Two states correspond if every buffer of the new function holds, at ``forward(i)`` of its layout,
what the old one holds at ``i``. Each stage is proved to take corresponding states to corresponding
states; so the functions compute the same. With ``at`` giving the old iterators as terms over the
new ones, a stage must satisfy two conditions:

- ``at`` is a bijection of the iterations. It keeps the order of reductions, unless they may run in
  any order.
- The old and new statements are equal terms once every load and store of the new one is taken back
  to logical coordinates, and no access falls between elements.

An inner buffer of the old function may be missing in the new one if a stage only defines it: a load
from it then stands for its definition (`analysis.blocks.definitions`).

The layouts of inner buffers and ``at`` come from the rewriter and are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.blocks import (
    BlockAccess,
    BlockEnv,
    Opaque,
    SizeTerms,
    Stage,
    Standard,
    standard,
)
from ...analysis.blocks.definitions import BlockDefinition, Undefined, resolve
from ...analysis.certify.assumptions import data_assumptions
from ...analysis.certify.certify import proof_assumptions
from ...analysis.lifting.tir.from_tir import ExpressionReader, Unliftable
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.proofs.equal import Proof
from ...analysis.results.op_info import ASSUMED, Certificate, Refusal
from ...analysis.support.tvm_compat import TensorLoad, same_access, source_of
from ...analysis.terms.integer import floordiv
from ...analysis.terms.order import nonneg
from ...analysis.terms.quotient import is_div
from ...analysis.terms.term import (
    ONE,
    ZERO,
    CallTerm,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    integer,
    load,
    raw_call,
    variable,
)
from ...analysis.terms.traversal import free, ints
from ..model.extents import literal, physical, term
from ..model.layout import Layout

Index = tuple[Int, ...]


class Disagree(Exception):
    """The proof fails; the message says where."""


@dataclass(frozen=True)
class Correspondence:
    """How a rewriter claims two functions to correspond; the proof does not trust it.

    Attributes:
        buffers: Each old buffer with its new one and the layout. Missing buffers are inlined, as
            are the stages that define them.
        iterators: For each stage, the old iterators as terms over those of the new block: ``v0``,
            ``v1``, … in its order.
    """

    buffers: tuple[tuple[Any, Any, Layout], ...]
    iterators: tuple[Mapping[Var, Int], ...]


def prove_stages(
    func: Any, new: Any, correspondence: Correspondence, form: Standard | None = None
) -> Certificate | Refusal:
    """Whether ``new`` computes ``func`` over buffers in the layouts of the correspondence.

    ``form`` has the stages of ``func`` if they were read before.
    """
    try:
        return _proved(func, new, correspondence, form or standard(func))
    except (Disagree, Undefined, Opaque, Unliftable) as error:
        return Refusal(str(error))
    except RecursionError:
        return Refusal("the compute is nested too deeply")


def _proved(func: Any, new: Any, correspondence: Correspondence, form: Standard) -> Certificate:
    (before, sizes), (after, new_sizes) = form, standard(new)
    buffers = _Buffers(func, new, correspondence, sizes, new_sizes)
    remaining, buffers.defined = resolve(before, buffers.inlined)
    if not len(remaining) == len(after) == len(correspondence.iterators):
        raise Disagree("the functions differ in their number of stages")
    shapes = [t.shape for t in buffers.tensors] + [sizes.shape(b) for b in buffers.inlined]
    proof, symbolic = Proof(), any(e.const is None for shape in shapes for e in shape)
    from_data: dict[str, None] = {}
    for old_stage, new_stage, at in zip(remaining, after, correspondence.iterators, strict=True):
        stage = _StagePair(old_stage, new_stage, at, buffers, sizes, new_sizes)
        stage.check(proof)
        from_data |= dict.fromkeys(stage.assumptions)
    assumptions = ["symbolic dimensions are at least 1"] if symbolic else []
    assumptions += from_data
    contracted = any(_contractible(d.value) for _, d in buffers.defined.items())
    assumptions += (
        ["no compiler contracts what is now one expression (a * b + c)"] if contracted else []
    )
    exact = not (proof.reassociated or proof.ordered or contracted)
    return Certificate("proved", exact, (*ASSUMED, *assumptions, *proof_assumptions(proof)))


def _contractible(value: Any) -> bool:
    """Whether a value may be contracted with the sum that reads it: a product of floats."""
    return isinstance(value, tirx.Mul) and "float" in str(value.ty.dtype)


class _Buffers:
    """The buffers of both functions, with one tensor for each pair."""

    def __init__(
        self,
        func: Any,
        new: Any,
        correspondence: Correspondence,
        sizes: SizeTerms,
        new_sizes: SizeTerms,
    ) -> None:
        self.old, self.new = NodeDict[TensorVar](), NodeDict[tuple[TensorVar, Layout]]()
        self.tensors: list[TensorVar] = []
        for old_buffer, new_buffer, layout in correspondence.buffers:
            shape = sizes.shape(old_buffer)
            if (
                old_buffer in self.old
                or new_buffer in self.new
                or old_buffer.ty.dtype != new_buffer.ty.dtype
            ):
                raise Disagree(
                    f"{old_buffer.name} does not have exactly one new buffer of its dtype"
                )
            if physical(shape, layout) != new_sizes.shape(new_buffer):
                raise Disagree(f"{old_buffer.name} does not have the physical shape of {layout}")
            if layout.padded(literal(shape)):
                raise Disagree(f"{old_buffer.name} has padding")
            tensor = TensorVar(old_buffer.name, shape, str(old_buffer.ty.dtype))
            self.old[old_buffer], self.new[new_buffer] = tensor, (tensor, layout)
            self.tensors.append(tensor)
        pairs = list(zip(items(func.params), items(new.params), strict=True))
        for param, new_param in pairs:
            if not is_buffer_var(param):
                same = not is_buffer_var(new_param) and _value(sizes, param) is _value(
                    new_sizes, new_param
                )
            else:
                same = new_param in self.new and self.old[param] is self.new[new_param][0]
            if not same:
                raise Disagree(f"parameter {param.name} has a different counterpart")
        if any(b not in self.new for b in items(new.body.block.alloc_buffers)):
            raise Disagree("an inner buffer has no counterpart")
        self.inlined = [b for b in items(func.body.block.alloc_buffers) if b not in self.old]
        self.defined = NodeDict[BlockDefinition]()


def _value(sizes: SizeTerms, param: Any) -> Term | None:
    return sizes.env.get(param)


@dataclass
class _StagePair:
    """An old and a new stage."""

    old: Stage
    new: Stage
    at: Mapping[Var, Int]
    buffers: _Buffers
    sizes: SizeTerms
    new_sizes: SizeTerms
    assumptions: tuple[str, ...] = ()

    def check(self, proof: Proof) -> None:
        if set(self.at) != set(self.old.axes):
            raise Disagree("the correspondence does not define exactly the old iterators")
        old_block, new_block = self.old.block, self.new.block
        old_statements = _Statements(
            self.old, self.at, self.sizes, self.buffers.old.get, self.logical_old,
            self.buffers.defined,
        )  # fmt: skip
        new_statements = _Statements(
            self.new, {v: as_int(v) for v in self.new.axes}, self.new_sizes,
            self.buffers.new.get, self.logical,
        )  # fmt: skip
        if (old_block.init is None) != (new_block.init is None):
            raise Disagree("only one of the two blocks has an init")
        if old_block.init is not None and old_statements(old_block.init) != new_statements(
            new_block.init
        ):
            raise Disagree(f"the inits of {old_block.name_hint} differ")
        if old_statements(old_block.body) != new_statements(new_block.body):
            raise Disagree(f"the statements of {old_block.name_hint} differ")
        self.assumptions = data_assumptions(old_statements.values)
        if not self.same_loops():
            self.spatial()
        if not self.in_order():
            self.regroups(proof)

    # ------------------------------------------------------------------ loads and stores

    def logical_old(self, tensor: Any, index: Index) -> tuple[TensorVar, Index]:
        return tensor, index

    def logical(self, entry: Any, index: Index) -> tuple[TensorVar, Index]:
        """An access of a physical buffer as one of the logical buffer."""
        tensor, layout = entry
        if layout.is_identity:
            return tensor, index
        shape = literal(tensor.shape)
        back = tuple(map(term, layout.backward(index, shape)))
        forward = map(term, layout.forward(back, shape))
        if any(p is not q for p, q in zip(index, forward, strict=True)):
            raise Disagree(f"an access of {tensor.name} may fall between its elements")
        return tensor, back

    # ------------------------------------------------------------------ iterations

    def same_loops(self) -> bool:
        """Whether the loops are the same, in the same order."""
        same = all(
            poly is as_int(new_var)
            and old_var.kind == new_var.kind
            and old_var.extent is new_var.extent
            for (old_var, poly), new_var in zip(self.at.items(), self.new.axes, strict=False)
        )
        return (
            same
            and len(self.old.axes) == len(self.new.axes)
            and list(self.at) == list(self.old.axes)
            and self.old.order == self.new.order
        )

    def spatial(self) -> None:
        """Check that spatial iterators are a bijection, and that each stores its own elements.

        The coordinates of a store are the new iterators, and these determine the old ones, so
        distinct iterations stay distinct. The old ones stay in their domain, and both functions
        have equally many iterations.
        """
        old, new = self.old, self.new
        written = {a.buffer.__chandle__() for a in old.writes}
        if any(a.buffer.__chandle__() in written for a in old.reads):
            raise Disagree("a stage reads other elements of a buffer that it stores")
        if len(written) < len(old.writes) or any(
            _coordinates(access) != _wide(old, reduced=False) for access in old.writes
        ):
            raise Disagree("an element is not stored by exactly one iteration")
        new_iterators = _wide(new, reduced=False)
        if not new.writes or _coordinates(new.writes[0]) != new_iterators:
            raise Disagree("the new iterators are not the coordinates of the store")
        if _count(new_iterators) is not _count(_wide(old, reduced=False)):
            raise Disagree("the functions differ in their number of iterations")
        for var in old.axes:
            poly, extent = self.at[var], var.extent
            if extent is None or not _inside(poly, extent):
                raise Disagree("an old iterator may be outside its domain")
            if var.kind != "reduce" and any(w.kind == "reduce" for w in free(poly)):
                raise Disagree("spatial iterators and reductions are mixed")

    def digits(self) -> list[Var]:
        """The new reductions, in the order in which the old loops run through them.

        Each old one is a mixed-radix number of new ones.
        """
        out: list[Var] = []
        for var in _order(self.old):
            if var.kind != "reduce" or var.extent is ONE:
                continue
            parts = [(c, m[0]) for m, c in self.at[var].terms if len(m) == 1]
            if len(parts) != len(self.at[var].terms):
                raise Disagree("an old reduction is not a mixed-radix number of new ones")
            scale: Int = ONE
            digits: list[Var] = []
            for coef, atom in sorted(parts, key=lambda p: p[0]):
                if not isinstance(atom, Var) or atom.kind != "reduce" or scale.const != coef:
                    raise Disagree("an old reduction is not a mixed-radix number of new ones")
                assert atom.extent is not None
                digits.insert(0, atom)
                scale = scale * atom.extent
            if scale is not var.extent:
                raise Disagree("a reduction runs over a different range")
            out += digits
        if len(set(out)) < len(out) or set(out) != _wide(self.new, reduced=True):
            raise Disagree("the reductions differ from those of the new block")
        return out

    def in_order(self) -> bool:
        """Whether reductions keep their order."""
        new_order = [v for v in _order(self.new) if v.kind == "reduce" and v.extent is not ONE]
        return self.digits() == new_order

    def regroups(self, proof: Proof) -> None:
        """Check that a reduction may run in another order: a sum, a product or an extreme."""
        store = self.old.block.body
        kind = type(getattr(store, "value", None)).__name__
        if type(store).__name__ != "BufferStore" or kind not in _COMBINERS:
            raise Disagree("a reduction runs in a different order")
        sides = [store.value.a, store.value.b]
        own_sides = [k for k, e in enumerate(sides) if _is_own(e, store)]
        if len(own_sides) != 1 or _reads(sides[1 - own_sides[0]], store.buffer):
            raise Disagree("a reduction runs in a different order")
        if "float" in str(store.value.ty.dtype):
            proof.reassociated |= kind in ("Add", "Mul")
            proof.ordered |= kind in ("Min", "Max")


def _inside(poly: Int, extent: Int) -> bool:
    """Whether ``0 <= poly < extent``, directly or over the digits of its variables."""
    return any(nonneg(q) and nonneg(extent - 1 - q) for q in (poly, _over_digits(poly)))


def _over_digits(poly: Int) -> Int:
    """The term with each variable that it divides written as digits, which may show its bounds.

    4*v - 7*(v // 2)  is  q + 4*r  with v = 2*q + r
    """
    cuts: dict[Var, set[int]] = {}
    for atom in (a for m, _ in poly.terms for a in m):
        if isinstance(atom, CallTerm) and is_div(atom):
            var, k = as_int(atom.args[0]).atom, as_int(atom.args[1]).const
            if isinstance(var, Var) and var.extent is not None and k is not None and k > 1:
                cuts.setdefault(var, set()).add(k)
    return ints(poly, {v: _number(v, v.extent, sorted(c)) for v, c in cuts.items() if v.extent})


def _number(var: Var, extent: Int, cuts: list[int]) -> Int:
    """``Σ place * digit``, which takes every value of the variable.

    Returns the variable itself if the cuts do not nest.
    """
    if any(b % a for a, b in pairwise(cuts)):
        return as_int(var)
    places = [1, *cuts]
    sizes = [integer(b // a) for a, b in pairwise(places)]
    sizes.append(floordiv(extent + (places[-1] - 1), integer(places[-1])))
    digits = [as_int(variable("loop", f"{var.name}.{k}", e)) for k, e in enumerate(sizes)]
    return sum((d * k for d, k in zip(digits, places, strict=True)), start=ZERO)


_COMBINERS = frozenset({"Add", "Mul", "Min", "Max"})


def _wide(stage: Stage, *, reduced: bool) -> set[Var]:
    """The iterators of one kind that run over more than one value."""
    return {v for v in stage.axes if (v.kind == "reduce") == reduced and v.extent is not ONE}


def _coordinates(access: BlockAccess) -> set[Var] | None:
    """The iterators that are the coordinates of an access; None if others occur in them."""
    atoms = [p.atom for p in access.indices if p is not None and p.const is None]
    if len(atoms) < sum(p is None or p.const is None for p in access.indices):
        return None
    iterators = {p for p in atoms if isinstance(p, Var)}
    return iterators if len(iterators) == len(set(atoms)) else None


def _count(iterators: set[Var]) -> Int:
    out: Int = ONE
    for var in iterators:
        assert var.extent is not None
        out = out * var.extent
    return out


def _order(stage: Stage) -> list[Var]:
    """The iterators in the order of their loops, those without a loop first."""
    looped = list(dict.fromkeys(v for v, _ in stage.order))
    return [v for v in stage.axes if v not in looped] + looped


def _is_own(expr: Any, store: Any) -> bool:
    return (
        isinstance(expr, TensorLoad)
        and source_of(expr).same_as(store.buffer)
        and same_access(expr.indices, store.indices)
    )


def _reads(expr: Any, buffer: Any) -> bool:
    buffers: list[Any] = []
    tvm_ffi.structural_walk(expr, (TensorLoad, lambda x: buffers.append(source_of(x))))
    return any(b.same_as(buffer) for b in buffers)


class _Statements:
    """The statements of a block as nested tuples of terms, over logical buffers."""

    def __init__(
        self,
        stage: Stage,
        at: Mapping[Var, Int],
        sizes: SizeTerms,
        find: Callable[[Any], Any],
        logical: Callable[[Any, Index], tuple[TensorVar, Index]],
        defined: NodeDict[BlockDefinition] | None = None,
    ) -> None:
        self.sizes, self.defined = sizes, defined or NodeDict()
        self.env = BlockEnv(sizes.env)
        for iv, var in zip(items(stage.block.iter_vars), stage.axes, strict=True):
            self.env.axes[iv.var] = at[var]
        self.find, self.logical = find, logical
        self.reader = ExpressionReader(self.env, self.read)
        self.values: list[Term] = []

    def read(self, buffer: Any, index: Index) -> Term:
        definition = self.defined.get(buffer)
        if definition is None:
            return load(*self.place(buffer, index))
        env = BlockEnv(self.sizes.env)
        for iterator in definition.units:
            env.axes[iterator] = ZERO
        for iterator, poly in zip(definition.iterators, index, strict=True):
            if iterator is not None:
                env.axes[iterator] = poly
        return ExpressionReader(env, self.read)(definition.value)

    def place(self, buffer: Any, index: Index) -> tuple[TensorVar, Index]:
        entry = self.find(buffer)
        if entry is None:
            raise Disagree(f"{buffer.name} has no counterpart")
        return self.logical(entry, index)

    def __call__(self, stmt: Any) -> tuple[Any, ...]:
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            return (kind, *(self(part) for part in items(stmt.seq)))
        if kind == "BufferStore":
            where = self.place(stmt.buffer, tuple(map(self.reader.index, items(stmt.indices))))
            return (kind, where, self.value(stmt.value))
        if kind == "IfThenElse":
            else_case = () if stmt.else_case is None else self(stmt.else_case)
            return (kind, self.value(stmt.condition), self(stmt.then_case), else_case)
        if kind == "Bind":
            value = self.value(stmt.value)  # evaluated here: a store may follow before it is used
            name = f"bound{len(self.values)}"
            bound = raw_call(name, (), value.dtype)
            self.env.axes[stmt.var] = as_int(bound) if isinstance(value, Int) else bound
            return (kind, value)
        raise Disagree(f"unsupported statement {kind}")

    def value(self, expr: Any) -> Term:
        self.values.append(self.reader(expr))
        return self.values[-1]
