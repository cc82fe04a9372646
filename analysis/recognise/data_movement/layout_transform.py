"""layout_transform: the elements under another index map, ``out[m(x)] = in[x]``.

The compute reads ``in[g(y)]``, with ``g`` the inverse of the map; solving ``g(y) = x`` gives ``m``.
Reshapes and permutations are layout_transforms too, and canonical.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ...index_map.maps.from_terms import to_tvm
from ...index_map.maps.to_terms import Unsupported
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...solving.integer_equations import solve
from ...terms.row_major import volume
from ...terms.term import ONE, ZERO, Int, Load, Var, as_int, fresh
from ...terms.traversal import free
from .._forms.access_functions import literal, pieces

OP = "relax.layout_transform"


def _nchw4c(n: Any, c: Any, h: Any, w: Any) -> Any:
    return n, c // 4, h, w, c % 4


def _oihw_packed(o: Any, i: Any, h: Any, w: Any) -> Any:
    return o // 8, i // 4, h, w, i % 4, o % 8


MATCHES = [
    Matches(OP, ("float32[1, 8, 5, 5]",), {"index_map": _nchw4c}, {}),
    Matches(OP, ("float16[16, 8, 3, 3]",), {"index_map": _oihw_packed}, {}),
    Matches(OP, ("float32[1, 7, 5, 5]",), {"index_map": _nchw4c, "pad_value": 2.0}, {}),
]

REFUSES = [
    Refuses(
        "elements are read twice",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((8, 4), "float32"), out: T.Buffer((4, 4, 2), "float32")):
    for i, j, k in T.grid(4, 4, 2):
        out[i, j, k] = x[i + k, j]
""",
    ),
]


@recogniser("layout_transform", precedence=390, ops=(OP,))
def layout_transform(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Solve the access function for the output's coordinates."""
    (definition,) = expression.outputs[:1]
    leaves = [p.value for p in pieces(definition.body)]
    loads = [x for x in leaves if isinstance(x, Load)]
    fills = {x for x in leaves if not isinstance(x, Load)}
    if len(expression.outputs) != 1 or len(loads) != 1 or len(fills) > 1:
        return Refusal("the compute is not one load, or one load and a literal")
    load = loads[0]
    if not fills and volume(load.tensor.shape) is not volume(definition.out.shape):
        return Refusal("input and output differ in their number of elements")
    inputs = [ZERO if e is ONE else as_int(fresh(e, "x")) for e in load.tensor.shape]
    ys = [y.atom for y in definition.axes if isinstance(y.atom, Var)]
    solution = solve(ys, list(zip(load.indices, inputs, strict=True)))
    if any(y not in solution for y in ys) or any(free(p) & set(ys) for p in solution.values()):
        return Refusal("the access function has no inverse")
    try:
        index_map = _index_map(
            inputs, [solution[y.atom] if y.atom in solution else y for y in definition.axes]
        )
    except Unsupported as error:
        return Refusal(f"the index map has no expression: {error}")
    attrs = {"index_map": index_map}
    if fills:
        attrs["pad_value"] = literal(fills.pop())
    return [Proposal(OP, (load.tensor.position,), attrs)]


def _index_map(inputs: Sequence[Int], outputs: Sequence[Int]) -> Any:
    """The map as a TVM `IndexMap`; axes of extent 1 map to axes of extent 1 where possible."""
    names = [tirx.Var(f"i{k}", "int64") for k in range(len(inputs))]
    leaves = {x.atom: v for x, v in zip(inputs, names, strict=True) if isinstance(x.atom, Var)}
    units = iter([v for x, v in zip(inputs, names, strict=True) if x is ZERO])
    zero = tirx.IntImm("int64", 0)
    final = [next(units, zero) if p is ZERO else to_tvm(p, leaves) for p in outputs]
    return tirx.IndexMap(names, final, None)
