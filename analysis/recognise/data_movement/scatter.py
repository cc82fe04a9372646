"""slice_scatter and reverse_sequence: part of the input is replaced or read in reverse.

- slice_scatter: ``out[y] = src[(y - start) / step] if y is in the range of the axis else x[y]``;
- reverse_sequence: ``out[y] = x[t[b] - 1 - y on the sequence axis if y < t[b] else y]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load
from ...terms.traversal import subterms
from .._forms.access_functions import begin, pieces, plain, single_read

MATCHES = [
    Matches(
        "relax.slice_scatter",
        ("float32[10, 4]", "float32[3, 4]"),
        {"start": 1, "end": 6, "step": 2, "axis": 0},
    ),
    Matches(
        "relax.slice_scatter",
        ("float32[3, 10]", "float32[3, 4]"),
        {"start": 2, "end": 6, "step": 1, "axis": 1},
    ),
    Matches(
        "relax.reverse_sequence",
        ("float32[10, 4]", "int64[4]"),
        {"seq_axis": 0, "batch_axis": 1},
    ),
    Matches(
        "relax.reverse_sequence",
        ("float16[3, n, 2]", "int32[3]"),
        {"seq_axis": 1, "batch_axis": 0},
    ),
]

REFUSES = [
    Refuses(
        "the other elements are shifted",
        """
@T.prim_func(s_tir=True)
def f(
    x: T.Buffer((10,), "float32"), s: T.Buffer((4,), "float32"), out: T.Buffer((10,), "float32")
):
    for i in range(10):
        out[i] = T.if_then_else(2 <= i and i < 6, s[i - 2], x[9 - i])
""",
    ),
]


@recogniser("slice_scatter", precedence=360, ops=("relax.slice_scatter",))
def slice_scatter(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match two loads, one of which is the input at the output's coordinates."""
    (definition,) = expression.outputs[:1]
    leaves = list(pieces(definition.body))
    loads = [p.value for p in leaves if isinstance(p.value, Load)]
    if (
        len(expression.outputs) != 1
        or len({load.tensor for load in loads}) != 2
        or len(loads) != len(leaves)
    ):
        return Refusal("the compute does not select between two inputs")
    out = definition.out
    inputs = [x for x in loads if x.indices == definition.axes and x.tensor.shape == out.shape]
    sources = [p for p in leaves if isinstance(p.value, Load) and p.value not in inputs]
    if len({load.tensor for load in inputs}) != 1 or len(sources) != 1:
        return Refusal("no input is read at the output's own coordinates")
    source = sources[0].value
    assert isinstance(source, Load)
    shape = source.tensor.shape
    axes = [k for k, (a, b) in enumerate(zip(shape, out.shape, strict=False)) if a is not b]
    if len(shape) != len(definition.axes) or len(axes) != 1:
        return Refusal("the source is not shorter on one axis")
    (axis,) = axes
    start = begin(sources[0].conditions, definition.axes[axis])
    step = _step(source.indices[axis])
    end = start + (shape[axis] - 1) * step + 1
    attrs = {"start": plain(start), "end": plain(end), "step": step, "axis": axis}
    operands = (inputs[0].tensor.position, source.tensor.position)
    last = end + (step - 1)
    note = Undetermined("end", "inside the last step", None, plain(end), plain(last))
    notes = (note,) if step > 1 else ()
    return [Proposal("relax.slice_scatter", operands, attrs, undetermined=notes)]


def _step(poly: Int) -> int:
    dens = [s.args[1] for s in subterms(poly) if isinstance(s, CallTerm) and s.op == "floordiv"]
    steps = [d.const for d in dens if isinstance(d, Int) and d.const]
    return steps[0] if steps else 1


@recogniser("reverse_sequence", precedence=362, ops=("relax.reverse_sequence",))
def reverse_sequence(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match an axis read at a coordinate that depends on a length for another axis."""
    reading = single_read(expression)
    if isinstance(reading, Refusal):
        return reading
    if reading.tensor.shape != reading.out.shape:
        return Refusal("input and output have different shapes")
    reversed_axes = [k for k, i in enumerate(reading.index) if i is not reading.axes[k]]
    if len(reversed_axes) != 1:
        return Refusal("not exactly one axis is read at another coordinate")
    lengths = {s for s in subterms(reading.index[reversed_axes[0]]) if isinstance(s, Load)}
    if len(lengths) != 1:
        return Refusal("the coordinate does not depend on exactly one length")
    (load,) = lengths
    batches = [k for k, y in enumerate(reading.axes) if load.indices == (y,)]
    attrs = [{"seq_axis": reversed_axes[0], "batch_axis": k} for k in batches]
    operands = (reading.tensor.position, load.tensor.position)
    return [Proposal("relax.reverse_sequence", operands, a) for a in attrs]
