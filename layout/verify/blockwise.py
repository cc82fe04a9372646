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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.block_terms import Opaque, SizeTerms
from ...analysis.blocks.blocks import Stage, Standard, standard
from ...analysis.blocks.definitions import Undefined, resolve
from ...analysis.certify.assumptions import data_assumptions
from ...analysis.certify.stated_assumptions import proof_assumptions
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.proofs.proof import Proof
from ...analysis.results.op_info import ASSUMED, Certificate, Refusal
from ...analysis.support.tvm_compat import TensorLoad, same_access, source_of
from ...analysis.terms.term import ONE, Int, TensorVar, Var, as_int
from ...analysis.terms.traversal import free
from ..model.extents import literal, term
from .block_statements import BlockStatements
from .iterators import coordinates, in_loop_order, is_inside, iteration_count, iterators_of
from .paired_buffers import Correspondence, Disagree, Index, PairedBuffers


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
    buffers = PairedBuffers(func, new, correspondence, sizes, new_sizes)
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


@dataclass
class _StagePair:
    """An old and a new stage."""

    old: Stage
    new: Stage
    at: Mapping[Var, Int]
    buffers: PairedBuffers
    sizes: SizeTerms
    new_sizes: SizeTerms
    assumptions: tuple[str, ...] = ()

    def check(self, proof: Proof) -> None:
        if set(self.at) != set(self.old.axes):
            raise Disagree("the correspondence does not define exactly the old iterators")
        old_block, new_block = self.old.block, self.new.block
        old_statements = BlockStatements(
            self.old, self.at, self.sizes, self.buffers.old.get, self.logical_old,
            self.buffers.defined,
        )  # fmt: skip
        new_statements = BlockStatements(
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
            coordinates(access) != iterators_of(old, reduced=False) for access in old.writes
        ):
            raise Disagree("an element is not stored by exactly one iteration")
        new_iterators = iterators_of(new, reduced=False)
        if not new.writes or coordinates(new.writes[0]) != new_iterators:
            raise Disagree("the new iterators are not the coordinates of the store")
        if iteration_count(new_iterators) is not iteration_count(iterators_of(old, reduced=False)):
            raise Disagree("the functions differ in their number of iterations")
        for var in old.axes:
            poly, extent = self.at[var], var.extent
            if extent is None or not is_inside(poly, extent):
                raise Disagree("an old iterator may be outside its domain")
            if var.kind != "reduce" and any(w.kind == "reduce" for w in free(poly)):
                raise Disagree("spatial iterators and reductions are mixed")

    def digits(self) -> list[Var]:
        """The new reductions, in the order in which the old loops run through them.

        Each old one is a mixed-radix number of new ones.
        """
        out: list[Var] = []
        for var in in_loop_order(self.old):
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
        if len(set(out)) < len(out) or set(out) != iterators_of(self.new, reduced=True):
            raise Disagree("the reductions differ from those of the new block")
        return out

    def in_order(self) -> bool:
        """Whether reductions keep their order."""
        new_order = [
            v for v in in_loop_order(self.new) if v.kind == "reduce" and v.extent is not ONE
        ]
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


_COMBINERS = frozenset({"Add", "Mul", "Min", "Max"})


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
