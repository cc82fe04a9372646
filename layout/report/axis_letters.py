"""Names of the axes of values, from operators with layout strings.

x ─ conv2d(data_layout="NHWC") ─ y ─ relu ─ z        x, y and z have the axes N, H, W, C

Letters pass through operators without layout strings, along loops over a whole dimension of two
buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..access.flow import AlignedAccess, BlockGraph
from ..alternatives.op_spec import OpSpec
from ..graph.relax_graph import Graph, Op, Value
from ..model.align import AlignedDim

#: The letter of each axis, by buffer of a flow.
AxisLetters = dict[int, Sequence[str | None]]


def letters(graph: Graph, specs: Mapping[Op, OpSpec]) -> dict[Value, str]:
    """The axes of each value; values without names are left out."""
    out: dict[Value, str] = {}
    for op in graph.ops:
        for value, text in zip(op.values, specs[op].strings, strict=False):
            if value is not None and text and not value.weight:
                out.setdefault(value, text)
    quiet = [op for op in graph.ops if not any(specs[op].strings)]
    for op in (*quiet, *reversed(quiet)):
        _through(op, specs[op].flow, out)
    return out


def _through(op: Op, flow: BlockGraph | None, out: dict[Value, str]) -> None:
    """Pass names from some values of an op to its others."""
    if flow is None:
        return
    values = {b: v for b, v in zip(flow.params, op.values, strict=True) if b is not None and v}
    axis_letters: AxisLetters = {b: out[v] for b, v in values.items() if _plain(out.get(v, ""))}
    for accesses in (*flow.steps, *reversed(flow.steps)) if axis_letters else ():
        loops = {a: c for p in accesses.all for a, c in _loops(p, axis_letters).items()}
        for access in accesses.all:
            if access.buffer not in axis_letters:
                dims = {x.dim.axis: loops.get(x.loop.axis) for x in access.aligned if _is_whole(x)}
                axis_letters[access.buffer] = [dims.get(k) for k in range(access.rank)]
    labelled = [(v, out[v]) for v in values.values() if _plain(out.get(v, ""))]
    for buffer, value in values.items():
        names = _with_units(value, axis_letters.get(buffer, ()), labelled)
        if len(set(names)) == value.rank and value not in out and not value.weight:
            out[value] = "".join(names)


def _with_units(
    value: Value, names: Sequence[str | None], labelled: Sequence[tuple[Value, str]]
) -> list[str]:
    """The letters with those of dimensions of extent 1, which have no loop.

    Such a dimension corresponds to the one at its position in a buffer of equal rank, else to one
    of extent 1.
    """
    out = list(names)
    for k in [k for k, c in enumerate(names) if c is None and value.shape[k] == 1]:
        like = [text[k] for u, text in labelled if u.rank == value.rank]
        ones = [c for u, text in labelled for c, e in zip(text, u.shape, strict=True) if e == 1]
        out[k] = next((c for c in (*like, *ones) if c not in out), None)
    return [c for c in out if c is not None]


def _loops(access: AlignedAccess, axis_letters: AxisLetters) -> dict[int, str]:
    """The letters of loops over a whole dimension of a buffer."""
    named = axis_letters.get(access.buffer, ())
    pairs = ((x.loop.axis, named[x.dim.axis]) for x in access.aligned if _is_whole(x) and named)
    return {a: c for a, c in pairs if c is not None}


def _is_whole(piece: AlignedDim) -> bool:
    return all(d.div == 1 and d.extent is None for d in (piece.dim, piece.loop))


def _plain(text: str) -> bool:
    return text.isalpha() and text.isupper()
