"""Gradients of two-dimensional pools: each window passes its gradient to the elements it read.

    avg:  out[n, c, y] = Σ_r g[n, c, (y + p) // s - r] / count    for windows that contain y
    max:  the same sum without the division, of windows whose largest element is at y

A window contains y if ``y + p - s * w`` is less than the kernel's extent k, so r takes
``ceil(k / s)`` values, and k stands in the guard. Where windows do not divide the input, TVM's
lowering of the maximum reads past the end of its buffer of positions and has no defined meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined, flags
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.quotient import is_div
from ...terms.term import CallTerm, Fold, Int, Load, TensorVar, Term, as_int
from ...terms.traversal import subterms
from .._forms.sums_of_products import affine
from ._window import Fitted, WindowAxis, fit

AVG, MAX = "relax.grad.avg_pool2d_backward", "relax.grad.max_pool2d_backward"
#: The largest number of kernels to try.
TRIED = 12


def _case(op: str, grad: str, data: str, attrs: dict[str, Any], **expect: Any) -> Matches:
    return Matches(op, (grad, data), attrs, {**attrs, **expect})


MATCHES = [
    _case(
        AVG,
        "float32[1, 2, 3, 3]",
        "float32[1, 2, 6, 6]",
        {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
        count_include_pad=False,
    ),
    _case(
        AVG,
        "float32[1, 2, 3, 3]",
        "float32[1, 2, 6, 6]",
        {
            "pool_size": (3, 3),
            "strides": (2, 2),
            "padding": (1, 1, 1, 1),
            "count_include_pad": True,
        },
    ),
    _case(
        AVG,
        "float16[n, 3, 2, 2]",
        "float16[n, 6, 6, 2]",
        {"pool_size": (2, 3), "strides": (2, 3), "layout": "NHWC"},
    ),
    _case(
        AVG,
        "float32[1, 2, 4, 4]",
        "float32[1, 2, 7, 7]",
        {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True},
    ),
    _case(
        AVG,
        "float32[1, 2, 6, 6]",
        "float32[1, 2, 6, 6]",
        {"pool_size": (3, 3), "strides": (1, 1), "padding": (1, 1, 1, 1)},
    ),
    _case(
        AVG,
        "float32[1, 2, 3, 3]",
        "float32[1, 2, 9, 9]",
        {"pool_size": (2, 2), "strides": (3, 3)},
        ceil_mode=False,
    ),
    _case(
        MAX,
        "float32[n, 2, 3, 3]",
        "float32[n, 2, 6, 6]",
        {"pool_size": (2, 2), "strides": (2, 2)},
    ),
    _case(
        MAX,
        "float32[1, 3, 2, 2]",
        "float32[1, 9, 8, 2]",
        {"pool_size": (2, 3), "strides": (3, 4), "layout": "NHWC"},
    ),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(g: T.Buffer((1, 2, 3, 3), "float32"), x: T.Buffer((1, 2, 6, 6), "float32"),
         out: T.Buffer((1, 2, 6, 6), "float32")):
    for c, i, j in T.grid(2, 6, 6):
        out[0, c, i, j] = {value}
"""


def spread(value: str) -> str:
    """A hand-written gradient: that of a 2x2 window to each of its elements."""
    return _HEAD.format(value=value)


REFUSES = [
    Refuses("each element gets the whole gradient", spread("g[0, c, i // 2, j // 2]")),
    Refuses("of another window", spread("g[0, c, j // 2, i // 2] / T.float32(4)")),
]


@dataclass(frozen=True)
class _GradientWindow:
    """How one dimension of the gradients is read: ``(y + before) // stride - r``."""

    stride: int
    before: int
    taps: int


@recogniser("pool_backward", precedence=645, ops=(AVG, MAX))
def pool_backward(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Derive stride and padding from the single read of the gradients, and try kernels."""
    (definition,) = expression.outputs[:1]
    inputs = [t for t in expression.inputs if isinstance(t, TensorVar)]
    if len(expression.outputs) != 1 or len(definition.axes) != 4 or len(inputs) != 2:
        return Refusal("a gradient of a pool has two operands and one output of rank 4")
    loads = [s for s in subterms(definition.body) if isinstance(s, Load)]
    read = {x.tensor for x in loads}
    proposals: list[Proposal] = []
    for grad, data in (inputs, inputs[::-1]):
        grad_loads = [s for s in loads if s.tensor is grad]
        if len(grad_loads) == 1 and data.shape == definition.out.shape and len(grad.shape) == 4:
            proposals += _proposals(definition, grad_loads[0], data, MAX if data in read else AVG)
    return proposals or Refusal("gradients are not spread over windows")


def _proposals(
    definition: OutputDefinition, load: Load, tensor: TensorVar, name: str
) -> Iterator[Proposal]:
    for layout in ("NCHW", "NHWC"):
        places = [layout.index("H"), layout.index("W")]
        if any(
            load.indices[layout.index(letter)] is not definition.axes[layout.index(letter)]
            for letter in "NC"
        ):
            continue
        dims = [_windows(load.indices[d], definition.axes[d]) for d in places]
        if any(d is None for d in dims):
            continue
        windows = [d for d in dims if d is not None]
        for kernel in _kernels(definition, windows, places, name):
            fitted = [
                fit(
                    WindowAxis(window.stride, 1, window.before, None, None),
                    tensor.shape[d],
                    load.tensor.shape[d],
                    k,
                )
                for window, d, k in zip(windows, places, kernel, strict=True)
            ]
            if all(s is not None for s in fitted):
                complete = [s for s in fitted if s is not None]
                yield from _attributes(
                    definition, load.tensor, tensor, name, layout, kernel, complete
                )
        return


def _windows(index: Int, coordinate: Int) -> _GradientWindow | None:
    """Stride, leading padding and number of windows, of ``(y + p) // s - r``."""
    quotients = [a for m, k in index.terms for a in m if k == 1 and len(m) == 1 and is_div(a)]
    remaining, stride, before = index, 1, 0
    if len(quotients) == 1 and isinstance(quotients[0], CallTerm):
        inner, divisor = map(as_int, quotients[0].args)
        shift = (inner - coordinate).const
        if shift is None or divisor.const is None:
            return None
        remaining, stride, before = index - as_int(quotients[0]), divisor.const, shift
    elif coordinate.const is None:
        remaining = index - coordinate
    form = affine(remaining)
    if form is None or any(k != -1 for k in form[0].values()) or len(form[0]) > 1:
        return None
    taps = [v.extent.const for v in form[0] if v.extent is not None]
    before += form[1] * stride
    if None in taps or before < 0:
        return None
    return _GradientWindow(stride, before, taps[0] if taps else 1)  # type: ignore[arg-type]


def _kernels(
    definition: OutputDefinition,
    windows: Sequence[_GradientWindow],
    places: Sequence[int],
    name: str,
) -> Iterator[tuple[int, ...]]:
    """Kernels with this number of windows; those that occur in guards come first."""
    terms = list(subterms(definition.body))
    volume = _volume(terms) if name == MAX else None
    ranges = []
    for window, d in zip(windows, places, strict=True):
        guards = [b + window.before + 1 for b in _bounds(terms, definition.axes[d])]
        extents = range(window.taps * window.stride, (window.taps - 1) * window.stride, -1)
        ranges.append(
            [*(k for k in extents if k in guards), *(k for k in extents if k not in guards)]
        )
    tried = [k for k in product(*ranges) if volume is None or k[0] * k[1] == volume]
    yield from tried[:TRIED]


def _bounds(terms: Sequence[Term], coordinate: Int) -> Iterator[int]:
    """The bounds b of conditions ``y <= b``."""
    for term in terms:
        if isinstance(term, CallTerm) and term.op == "ge0":
            bound = (as_int(term.args[0]) + coordinate).const
            if bound is not None:
                yield bound


def _volume(terms: Sequence[Term]) -> int | None:
    """The number of elements compared for the maximum; a single one needs no loop."""
    extents = [s.axis.extent.const for s in terms if isinstance(s, Fold) and s.axis.extent]
    return extents[0] if extents else 1


def _attributes(
    definition: OutputDefinition,
    grad: TensorVar,
    data: TensorVar,
    name: str,
    layout: str,
    kernel: tuple[int, ...],
    fitted: Sequence[Fitted],
) -> Iterator[Proposal]:
    before = tuple(s.before for s in fitted)
    attrs = {
        "pool_size": kernel,
        "strides": tuple(s.stride for s in fitted),
        "padding": (*before, *(s.after for s in fitted)),
        "dilation": (1, 1),
        "layout": layout,
        "out_layout": layout,
    }
    positions = (grad.position, data.position)
    layouts = dict.fromkeys((*positions, definition.out.position), layout)
    symmetric = all(s.before == s.after for s in fitted)
    loose = tuple(_loose(grad, data, layout, fitted)) if name == AVG else ()
    variants = [({**attrs, "ceil_mode": False}, loose)]
    if not symmetric:
        variants.insert(0, ({**attrs, "padding": (*before, *before), "ceil_mode": True}, ()))
    unseen = name == MAX or not any(attrs["padding"])
    for variant, notes in variants:
        for include in (False,) if unseen else (False, True):
            open_flags = flags(["count_include_pad"], "no padding is counted") if unseen else ()
            values = {**variant, "count_include_pad": include}
            yield Proposal(name, positions, values, layouts, (*notes, *open_flags))


def _loose(
    grad: TensorVar, data: TensorVar, layout: str, fitted: Sequence[Fitted]
) -> Iterator[Undetermined]:
    """The trailing paddings that add only windows without an input element."""
    rounded = True
    for d, (window, letter) in enumerate(zip(fitted, "HW", strict=True)):
        size, count = (t.shape[layout.index(letter)].const for t in (data, grad))
        if size is None or count is None:
            return
        most = None if count * window.stride - window.before >= size else window.most
        if most is None or window.least < most:
            why = "more windows would have no element"
            yield Undetermined("padding", why, d + len(fitted), window.least, most)
        rounded &= most is None or window.after + window.stride - 1 <= most
    if rounded:
        yield from flags(["ceil_mode"], "more windows would have no element")
