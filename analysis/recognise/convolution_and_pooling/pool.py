"""Pools of one, two and three spatial dimensions.

    max:  out[n, c, y] = max_k x[n, c, s*y + d*k - p]
    avg:  out[n, c, y] = Σ_k x[n, c, s*y + d*k - p] / count

``count`` is the size of the window, or of its part inside x (``count_include_pad=False``). Adaptive
pools have their own window for each output, ``[y*I // O, ceil((y+1)*I / O))``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, Term
from .._forms.reduced_dimensions import swept
from .._forms.sums_of_products import Combined, combined, uncast
from ._pool_attributes import PooledLoad, readings
from ._window import as_coordinate, window
from .conv import DATA, SPATIAL

_AVG = {"strides": (2, 2), "pool_size": (3, 3), "padding": (1, 1, 1, 1)}
_UP = {"ceil_mode": True, "count_include_pad": True}
_SPARSE = {"pool_size": (3,), "strides": (4,), "padding": (1, 1)}
MATCHES = [
    Matches("relax.nn.max_pool2d", ("float32[1, 3, 16, 16]",), _AVG),
    Matches(
        "relax.nn.max_pool2d",
        ("float32[n, 9, 10, 3]",),
        {"pool_size": (2, 3), "strides": (2, 1), "dilation": (2, 1), "layout": "NHWC"},
    ),
    Matches("relax.nn.max_pool2d", ("float32[1, 2, 8, 8, 4]",), {**_AVG, "layout": "NCHW4c"}),
    Matches(
        "relax.nn.avg_pool2d",
        ("float32[2, 2, 9, 8, 8]",),
        {**_AVG, "layout": "NCHW8c", "count_include_pad": True},
    ),
    Matches("relax.nn.max_pool1d", ("int8[2, 3, 16]",), {"pool_size": (3,), "strides": (3,)}),
    Matches("relax.nn.avg_pool2d", ("float32[2, 3, 9, 9]",), _AVG),
    Matches("relax.nn.avg_pool2d", ("float32[2, 3, 9, 9]",), {**_AVG, "count_include_pad": True}),
    Matches(
        "relax.nn.avg_pool3d",
        ("float32[1, 2, 4, 5, 6]",),
        {"pool_size": (2, 2, 3), "strides": (1, 2, 3)},
    ),
    Matches("relax.nn.adaptive_avg_pool2d", ("float32[1, 3, 9, 10]",), {"output_size": (2, 4)}),
    Matches("relax.nn.adaptive_avg_pool1d", ("float32[n, 3, 10]",), {"output_size": (3,)}),
    Matches(
        "relax.nn.adaptive_avg_pool3d", ("float32[1, 2, 4, 5, 6]",), {"output_size": (2, 2, 4)}
    ),
    Matches(
        "relax.nn.avg_pool1d",
        ("float32[2, 3, 16]",),
        {"pool_size": (3,), "strides": (3,), "padding": (1, 1)},
    ),
    Matches(
        "relax.nn.max_pool3d",
        ("float32[1, 2, 4, 5, 6]",),
        {"pool_size": (2, 2, 3), "padding": (1,) * 6},
    ),
    Matches(
        "relax.nn.max_pool1d",
        ("float32[n, 3, 8]",),
        {"pool_size": (8,), "strides": (2,), "padding": (2, 0)},
    ),
    Matches(
        "relax.nn.max_pool2d",
        ("float32[n, 3, h, w]",),
        {"pool_size": (3, 2), "strides": (2, 2), "padding": (0, 1, 2, 0), "ceil_mode": True},
    ),
    Matches(
        "relax.nn.avg_pool2d",
        ("float16[n, 3, h, w]",),
        {
            "pool_size": (3, 2),
            "strides": (2, 2),
            "padding": (0, 1, 2, 0),
            "ceil_mode": True,
            "count_include_pad": True,
        },
    ),
    Matches(
        "relax.nn.avg_pool2d",
        ("float32[2, 9, 8, 3]",),
        {**_AVG, "padding": (1, 0, 0, 1), "layout": "NHWC", **_UP},
    ),
    Matches("relax.nn.avg_pool1d", ("float16[n, 8, 3]",), {"layout": "NWC", **_SPARSE, **_UP}),
    Matches("relax.nn.avg_pool1d", ("int32[2, 3, 8]",), {"pool_size": (3,), "dilation": (2,)}),
    Matches("relax.nn.avg_pool1d", ("int32[2, 3, 9]",), {**_SPARSE, "count_include_pad": False}),
    Matches(
        "relax.nn.avg_pool2d",
        ("int32[2, 3, 9, 8]",),
        {"pool_size": (1, 1), "strides": (2, 2), "padding": (1, 0, 0, 1)},
    ),
]

_MEANS = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 1, 7), "{0}"), out: T.Buffer((2, 1, 3), "{0}")):
    s = T.alloc_buffer((2, 3), "{0}")
    for n, i, k in T.grid(2, 3, 3):
        with T.sblock("c"):
            vn, vi, vk = T.axis.remap("SSR", [n, i, k])
            with T.init():
                s[vn, vi] = T.{0}(0)
            s[vn, vi] = s[vn, vi] + x[vn, 0, 2 * vi + vk]
    for n, i in T.grid(2, 3):
        with T.sblock("d"):
            vn, vi = T.axis.remap("SS", [n, i])
            out[vn, 0, vi] = {1}
"""

REFUSES = [
    Refuses(
        "reads outside count as 0 in a max",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 2, 8, 8), "float32"), out: T.Buffer((1, 2, 8, 8), "float32")):
    for n, c, i, j, a, b in T.grid(1, 2, 8, 8, 3, 3):
        with T.sblock("c"):
            vn, vc, vi, vj, va, vb = T.axis.remap("SSSSRR", [n, c, i, j, a, b])
            with T.init():
                out[vn, vc, vi, vj] = T.float32(-3.4028234663852886e+38)
            out[vn, vc, vi, vj] = T.max(out[vn, vc, vi, vj], T.if_then_else(
                1 <= vi + va and vi + va < 9 and 1 <= vj + vb and vj + vb < 9,
                x[vn, vc, vi + va - 1, vj + vb - 1], T.float32(0)))
""",
    ),
    Refuses(
        "a sum of integers divided by one more than the count",
        _MEANS.format("int32", "T.truncdiv(s[vn, vi], 4)"),
    ),
    Refuses("a quotient that is rounded down", _MEANS.format("int32", "s[vn, vi] // 3")),
    Refuses(
        "a last window that counts elements it does not read",
        _MEANS.format("float32", "s[vn, vi] / T.Cast('float32', 3 + vi // 2)"),
    ),
]


@recogniser(
    "pool",
    precedence=640,
    ops=tuple(
        f"relax.nn.{kind}_pool{d}d" for kind in ("max", "avg", "adaptive_avg") for d in (1, 2, 3)
    ),
)
def pool(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match one reduction over a window of one load, divided for an average."""
    if len(expression.outputs) != 1 or len(expression.outputs[0].axes) not in SPATIAL:
        return Refusal("a pool has one output of rank 3 to 5")
    parts = _reduction(expression.outputs[0].body)
    if parts is None:
        return Refusal("the compute is not a maximum or average over a window")
    kind, reduction, load, divisor = parts
    if len(load.indices) != len(expression.outputs[0].axes):
        return Refusal("the input and output of a pool have the same rank")
    out = [
        *_windows(expression, reduction, load, kind, divisor),
        *(_adaptive(expression, load) if kind == "avg" else ()),
    ]
    swept_dims = swept(load, reduction.axes)
    if kind == "avg" and reduction.axes and swept_dims is not None:
        attrs = {"axis": list(swept_dims), "keepdims": True}
        out.append(Proposal("relax.mean", (load.tensor.position,), attrs))
    return out or Refusal("the accesses do not match a pool", repr(load))


def _reduction(body: Term) -> tuple[str, Combined, Load, Term | None] | None:
    """The kind (``max`` or ``avg``), the reduction, its load, and the divisor of an average."""
    term: Term = uncast(body)
    divisor: Term | None = None
    if isinstance(term, CallTerm) and term.op in ("div", "floordiv_elem", "truncdiv"):
        divisor = term.args[1]
        term = uncast(term.args[0])
    for kind, op in (("max", "max"), ("avg", "add")):
        reduction = combined(term, op)
        inner = None if reduction is None else uncast(reduction.body)
        if isinstance(inner, CallTerm) and inner.op == "ite":
            inner = uncast(inner.args[1])
        if reduction is not None and isinstance(inner, Load):
            return kind, reduction, inner, divisor
    inner = uncast(term.args[1]) if isinstance(term, CallTerm) and term.op == "ite" else term
    if "int" in term.dtype and isinstance(inner, Load):  # the maximum or average of one element
        return "max" if divisor is None else "avg", Combined((), term, term), inner, divisor
    return None


def _windows(
    expression: TensorExpression, reduction: Combined, load: Load, kind: str, divisor: Term | None
) -> Iterator[Proposal]:
    axes = expression.outputs[0].axes
    outs = frozenset(a.atom for a in axes if a.atom is not None)
    for layout in (*_packed(load), *DATA[len(axes)]):
        windows = []
        for place, (letter, index, axis) in enumerate(
            zip(re.findall(r"\d*(\w)", layout), load.indices, axes, strict=True)
        ):
            if letter in "NCc":
                if index is not axis:
                    break
                continue
            window_axis = window(index, outs, frozenset(reduction.axes))
            if window_axis is None or as_coordinate(window_axis.axis) is not axis:
                break
            windows.append((window_axis, place))
        else:
            if {w.tap for w, _ in windows} >= set(reduction.axes):
                out = expression.outputs[0].out
                yield from readings(PooledLoad(out, load, kind, divisor, layout, tuple(windows)))
                if layout in DATA[len(axes)]:
                    return


def _packed(load: Load) -> Iterator[str]:
    """The layout of a 2d pool over packed channels, which a 3d pool could compute too."""
    last = load.tensor.shape[-1].const
    if len(load.tensor.shape) == 5 and last is not None and last > 1:
        yield f"NCHW{last}c"


def _adaptive(expression: TensorExpression, load: Load) -> Iterator[Proposal]:
    out = expression.outputs[0].out
    for layout in DATA[len(out.shape)]:
        places = [layout.index(s) for s in SPATIAL[len(out.shape)]]
        kept = [d for d in range(len(out.shape)) if d not in places]
        if any(load.indices[d] is not expression.outputs[0].axes[d] for d in kept):
            continue
        if any(out.shape[d].const is None for d in places):
            continue
        yield Proposal(
            f"relax.nn.adaptive_avg_pool{len(places)}d",
            (load.tensor.position,),
            {
                "output_size": tuple(out.shape[d].const for d in places),
                "layout": layout,
                "out_layout": layout,
            },
            layouts={load.tensor.position: layout, out.position: layout},
        )
        return
