"""take, gather_elements, gather_nd, index_tensor: coordinates of the input come from a tensor.

- take: ``out[a, i, b] = x[a, t[i], b]`` for groups of axes a, i, b; the mode says how
  ``t[i]`` is transformed;
- gather_elements: ``out[y] = x[…, t[y], …]``;
- index_tensor: ``out[i, b] = x[s[i], t[i], …, b]``, the index tensors broadcast against each other;
- gather_nd: ``out[a, i, b] = x[a, t[a, i, 0], t[a, i, 1], …, b]``.

With one index tensor for the first axis, take is canonical. ``fast`` is undefined out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...certify.assumed_sizes import lone_size
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.order import is_closed
from ...terms.term import ONE, ZERO, CallTerm, Int, Load, Term, bare
from ...terms.traversal import subterms
from .._forms.access_functions import AccessRead, plain, single_read

MATCHES = [
    Matches("relax.take", ("float32[10, n]", "int64[3]"), {"axis": 0, "mode": "fast"}),
    Matches("relax.take", ("float16[2, 10, n]", "int32[3, 4]"), {"axis": 1, "mode": "fast"}),
    Matches("relax.take", ("int64[5, 7]", "int64[]"), {"axis": 1, "mode": "fast"}),
    Matches("relax.take", ("float32[10, 4]", "int64[1]"), {"axis": 0, "mode": "fast"}),
    Matches("relax.take", ("float32[10, n]", "int64[3, 2]"), {"axis": 0, "mode": "clip"}),
    Matches("relax.take", ("bool[10, n]", "int32[3]"), {"axis": 1, "mode": "wrap"}),
    Matches("relax.take", ("float32[10, n]", "int32[3]"), {"axis": 1, "mode": "nan"}),
    Matches("relax.take", ("float32[10]", "int32[3]"), {"axis": None, "mode": "fast"}),
    Matches("relax.gather_elements", ("float32[10, n]", "int64[10, 3]"), {"axis": 1}),
    Matches("relax.gather_elements", ("int64[1, 8]", "int64[1, 3]"), {"axis": 1}),
    Matches("relax.gather_nd", ("float32[10, n]", "int64[7, 2]"), {"batch_dims": 0}),
    Matches("relax.gather_nd", ("float32[4, 9, n]", "int64[4, 7, 1]"), {"batch_dims": 1}),
    Matches("relax.index_tensor", ("float32[10, 9, n]", "int64[2, 1]", "int64[1, 3]")),
    Matches("relax.index_tensor", ("bool[8, 8]", "int64[4, 1, 1, 1]", "int64[1, 1, 1, m]")),
]

REFUSES = [
    Refuses(
        "each index is too large by one",
        """
@T.prim_func(s_tir=True)
def f(
    x: T.Buffer((9, 4), "float32"), t: T.Buffer((3,), "int64"), out: T.Buffer((3, 4), "float32")
):
    for i, j in T.grid(3, 4):
        out[i, j] = x[t[i] + T.int64(1), j]
""",
    ),
    Refuses(
        "the indices are read in reverse",
        """
@T.prim_func(s_tir=True)
def f(
    x: T.Buffer((9, 4), "float32"), t: T.Buffer((3,), "int64"), out: T.Buffer((3, 4), "float32")
):
    for i, j in T.grid(3, 4):
        out[i, j] = x[t[2 - i], j]
""",
    ),
]

Outcome = Sequence[Proposal] | Refusal
NO_LOAD = Refusal("no coordinate is read from a tensor")


def indexed(read: AccessRead) -> dict[int, list[Load]]:
    """For each axis of the input whose coordinate is read, the loads in it."""
    by_axis = {}
    for k, poly in enumerate(read.index):
        if loads := [s for s in subterms(poly) if isinstance(s, Load)]:
            by_axis[k] = loads
    return by_axis


@recogniser("take", precedence=300, ops=("relax.take",))
def take(expression: TensorExpression) -> Outcome:
    """Match ``out[a, i, b] = x[a, mode(t[i]), b]``."""
    reading = _outer(expression)
    if isinstance(reading, Refusal):
        return reading
    by_axis = indexed(reading)
    if not by_axis:
        return _at_size(reading)
    if len(by_axis) != 1:
        return NO_LOAD
    ((axis, loads),) = by_axis.items()
    load = loads[0]
    last = axis + len(load.indices)
    if load.indices != reading.axes[axis:last] or reading.index[:axis] != reading.axes[:axis]:
        return Refusal("the index tensor is not read at coordinates in their order")
    if reading.index[axis + 1 :] != reading.axes[last:]:
        return Refusal("the other axes are not read at their own coordinates")
    mode = _mode(expression, reading.index[axis], load)
    if isinstance(mode, Refusal):
        return mode
    attrs = {"axis": None if mode == "flat" else axis, "mode": "fast" if mode == "flat" else mode}
    return [Proposal("relax.take", (reading.tensor.position, load.tensor.position), attrs)]


def _at_size(reading: AccessRead) -> Outcome:
    """Match ``out[a, b] = x[a, i, b]`` with an index i over sizes."""
    if len(reading.index) != len(reading.axes) + 1:
        return NO_LOAD
    pairs = enumerate(zip(reading.index, reading.axes, strict=False))
    axis = next((k for k, (index, y) in pairs if index is not y), len(reading.axes))
    if reading.index[axis + 1 :] != reading.axes[axis:] or not is_closed(reading.index[axis]):
        return NO_LOAD
    attrs = {"indices": plain(reading.index[axis]), "axis": axis, "mode": "fast"}
    return [Proposal("relax.take", (reading.tensor.position,), attrs)]


def _outer(expression: TensorExpression) -> AccessRead | Refusal:
    """The load, for mode ``nan`` inside its bounds check."""
    (definition,) = expression.outputs[:1]
    body = bare(definition.body)
    if len(expression.outputs) == 1 and isinstance(body, CallTerm) and body.op == "ite":
        term = bare(body.args[1])
        if isinstance(term, Load):
            return AccessRead(definition.out, definition.axes, term.tensor, term.indices)
    return single_read(expression)


def _mode(expression: TensorExpression, poly: Int, load: Load) -> str | Refusal:
    """The mode suggested by the operations in the index; the certificate decides."""
    if poly.atom is load:
        return "fast" if isinstance(bare(expression.outputs[0].body), Load) else "nan"
    ops = {s.op for s in subterms(poly) if isinstance(s, CallTerm)}
    if "truncdiv" in ops:
        return "wrap"
    if ops & {"min", "max"}:
        return "clip"
    return "flat" if "floordiv" in ops else Refusal("no mode of take transforms an index like this")


@recogniser("gather_elements", precedence=310, ops=("relax.gather_elements",))
def gather_elements(expression: TensorExpression) -> Outcome:
    """Match ``out[y] = x[y with t[y] on one axis]``."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    by_axis = indexed(reading)
    if len(by_axis) != 1 or len(reading.index) != len(reading.axes):
        return NO_LOAD
    ((axis, loads),) = by_axis.items()
    load = loads[0]
    others = all(
        index is coordinate
        for k, (index, coordinate) in enumerate(zip(reading.index, reading.axes, strict=True))
        if k != axis
    )
    if reading.index[axis].atom is not load or load.indices != reading.axes or not others:
        return Refusal("the index is not read at the output's coordinates")
    operands = (reading.tensor.position, load.tensor.position)
    sizes = {
        variable: extent
        for size, extent in zip(reading.out.shape, load.tensor.shape, strict=True)
        if size is not extent and (variable := lone_size(size)) is not None
    }
    return [Proposal("relax.gather_elements", operands, {"axis": axis}, sizes=sizes)]


@recogniser("index_tensor", precedence=320, ops=("relax.index_tensor",))
def index_tensor(expression: TensorExpression) -> Outcome:
    """Match ``out[i, b] = x[s[i], t[i], …, b]``."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    tensors = [i.atom for i in reading.index if isinstance(i.atom, Load)]
    tensors = [t for t in tensors if isinstance(t, Load)]
    rank = len(reading.axes) - (len(reading.index) - len(tensors))
    if not tensors or reading.index[len(tensors) :] != reading.axes[rank:]:
        return NO_LOAD
    if not all(_broadcasts(t, reading.axes[:rank]) for t in tensors):
        return Refusal("an index tensor is not read at broadcast coordinates")
    operands = (reading.tensor.position, *(t.tensor.position for t in tensors))
    return [Proposal("relax.index_tensor", operands)]


def _broadcasts(load: Load, axes: Sequence[Int]) -> bool:
    lead = len(axes) - len(load.indices)
    if lead < 0:
        return False
    ends = zip(load.indices, axes[lead:], load.tensor.shape, strict=True)
    return all(i is y or (i is ZERO and e is ONE) for i, y, e in ends)


@recogniser("gather_nd", precedence=330, ops=("relax.gather_nd",))
def gather_nd(expression: TensorExpression) -> Outcome:
    """Match ``out[a, i, b] = x[a, t[a, i, 0], t[a, i, 1], …, b]``."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    at: list[Term | None] = [i.atom for i in reading.index]
    loads = {k: t for k, t in enumerate(at) if isinstance(t, Load)}
    if not loads:
        return NO_LOAD
    batch, count = min(loads), len(loads)
    first = loads[batch]
    if not first.indices:
        return Refusal("an index of gather_nd must be a vector")
    rank = len(first.indices) - 1
    for k, load in enumerate(loads.values()):
        if load.tensor is not first.tensor or load.indices[:rank] != reading.axes[:rank]:
            return Refusal("the indices are not read at the output's first coordinates")
        if load.indices[rank].const != k:
            return Refusal("the components of an index are not in order")
    aligned = (
        reading.index[:batch] == reading.axes[:batch]
        and reading.index[batch + count :] == reading.axes[rank:]
    )
    if not aligned or first.tensor.shape[rank].const != count:
        return Refusal("the other axes are not read at their own coordinates")
    operands = (reading.tensor.position, first.tensor.position)
    return [Proposal("relax.gather_nd", operands, {"batch_dims": batch})]
