"""Patterns: a gather of matrices, the product that reads it, then elementwise operators."""

from __future__ import annotations

from ...backend.region import Call
from ...patterns.pattern import Node, Pattern, PatternStep, one
from ...patterns.suggest import Unmet
from ..common.epilogue import BINARY, UNARY
from ..weight_only.packed_kernels import PRODUCTS
from ..weight_only.patterns import CASTS, LONGEST, SHORTEST, WORDS, floating, follows
from ..weight_only.stored_words import FLOATS, unreadable
from ..weight_only.weight_panels import COLUMNS, STORED
from .gathered_product import GatheredProduct, read_node, sources

IDS = ("int32", "int64")
BIND = "bind them with relax.transform.BindParams"


def product(node: Node) -> str | Unmet | None:
    """A product of rows of floats with matrices of their experts."""
    of = read_node(node)
    if isinstance(of, str):
        return of
    for value in (node.result, *(node.operand(k) for k in range(2))):
        if value is not None and (reason := floating(value)) is not None:
            return reason
    if of.ids.dtype not in IDS:
        return f"the numbers of the experts are {of.ids.dtype}, expected {' or '.join(IDS)}"
    return _dense(of) if of.group is None else _grouped(of)


def _dense(of: GatheredProduct) -> str | Unmet | None:
    """Matrices of floats; those that are parameters are multiplied as they are stored."""
    matrices = of.matrices[0]
    if matrices.dtype not in FLOATS:
        return f"the matrices are {matrices.dtype}, expected {' or '.join(FLOATS)}"
    if matrices.source != "constant" and matrices.dtype == "float32" and "float16" in of.dtypes:
        return Unmet("the matrices are parameters that are rounded to float16", BIND)
    return None


def _grouped(of: GatheredProduct) -> str | Unmet | None:
    """Groups along the depth of constant matrices whose columns fill panels, or of parameters."""
    assert of.group is not None
    packed = all(t.source == "constant" for t in of.matrices)
    if not packed and (reason := _unreadable(of, of.group)):
        return Unmet(f"{reason} and are parameters, which are not packed when a model is compiled",
                     BIND)  # fmt: skip
    attrs, (words, scales) = of.group.attrs, of.matrices[:2]
    if attrs["bits"] not in STORED or words.dtype not in WORDS:
        return f"{attrs['bits']} bits in {words.dtype}, expected 2, 3, 4 or 8 in integers"
    if attrs["bits"] == 8 and words.dtype == "int32":
        return "8 bits in int32, expected an unsigned integer or int8"
    axes = [attrs[n] for n in ("axis", "packed_axis", "zero_points_axis")]
    if any(a is not None and int(a) % 3 == 0 for a in axes) or int(axes[0]) % 3 != of.axis:
        return "the groups are not along the axis of each matrix that is summed over"
    if scales.dtype not in FLOATS:
        return f"the scales are {scales.dtype}, expected {' or '.join(FLOATS)}"
    if min(int(attrs["group_size"]), of.depth) < SHORTEST:
        return f"groups of {attrs['group_size']} values, expected {SHORTEST} or more"
    if packed and of.columns % COLUMNS:
        return f"the matrices have {of.columns} columns, expected a multiple of {COLUMNS}"
    return None


def _unreadable(of: GatheredProduct, group: Call) -> str:
    """Why a kernel cannot read matrices of few bits as they are stored; empty if it can."""
    if any(t.source == "call" for t in of.matrices):
        return "the words are computed"
    return unreadable([t.dtype for t in of.matrices], group.attrs)


def by_rows(node: Node) -> str | None:
    """The columns are the last axis of the result, so that operands beside it have such rows."""
    of = read_node(node)
    return "the columns are not the last axis" if isinstance(of, str) or of.alone else None


POST = PatternStep(frozenset((*UNARY, *BINARY, *CASTS)), (follows,), 0, LONGEST)
PATTERNS = (
    Pattern("rows", one(PRODUCTS, product, by_rows, takes=sources), POST),
    Pattern("columns", one(PRODUCTS, product, takes=sources)),
)
