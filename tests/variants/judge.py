"""What became of a variant: recovered, recovered as another reading, refused, or wrong.

What was built is compared with what was answered as calls of Relax, after TVM filled in defaults.
Where they differ, both are run on random inputs: only equal numbers make it another reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tvm import relax

from opinfo.analysis import LayoutNormalised, OpInfo, Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.answer.recovered import Recovered
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.analysis.proposal.call_op import call_op
from opinfo.analysis.terms.term import TensorVar
from opinfo.testing.strip import strip

from . import Variant
from .canonical import canonical, plain_call
from .compare_values import size_values, unequal
from .expected import kinds, layouts_of
from .lower import Lowered, Unlowered, lower

Grade = Literal["exact", "open", "same op", "other op", "refused", "unlowered", "wrong"]


@dataclass(frozen=True)
class Verdict:
    """``exact``: as built. ``open``: but for attributes that the answer says are not determined.
    ``same op``, ``other op``: another reading that computes the same numbers."""

    variant: str
    grade: Grade
    note: str = ""
    symbolic: bool = False
    dtype: str = ""
    certificate: str = ""


def judge(v: Variant) -> Verdict:
    """Build, legalise, strip, recognise, compare."""

    def graded(grade: Grade, note: str = "") -> Verdict:
        return Verdict(str(v), grade, note, v.symbolic, v.dtype, certificate)

    certificate = ""

    try:
        low = lower(v)
    except Unlowered as e:
        return graded("unlowered", str(e))
    try:
        found = analyse(strip(low.func))
    except Exception as e:
        return graded("wrong", f"raised {type(e).__name__}: {str(e)[:100]}")
    info = found.info
    if isinstance(info, Refusal):
        return graded("refused", info.reason)
    if isinstance(info, LayoutNormalised):
        return graded("refused", f"answered as {info.label}")
    try:
        certificate = info.certificate.kind
        grade, note = compare(v, low, found, info)
    except Exception as e:
        return graded("wrong", f"not comparable: {type(e).__name__}: {str(e)[:100]}")
    if grade != "wrong":
        fault = kinds(v, info) or layouts_of(v, info)
        if fault:
            return graded("wrong", fault)
    return graded(grade, note)


def compare(v: Variant, low: Lowered, found: Recovered, info: OpInfo) -> tuple[Grade, str]:
    """The grade of an answer, and what is different."""
    if info.relaid:
        return "refused", f"answered as {info.name} in other layouts"
    note = info.name
    if info.name == v.op and tuple(o for o in info.operands if isinstance(o, int)) == low.operands:
        theirs = answered(v, low, found, info)
        if isinstance(theirs, str):
            return "wrong", theirs
        wrong = different(v, low.call, theirs, info)
        if not wrong:
            return "exact", ""
        if all(allowed for _, allowed in wrong):
            return "open", ", ".join(name for name, _ in wrong)
        note = ", ".join(name for name, _ in wrong)
    fault = unequal(v, low, found, info)
    if fault:
        return "wrong", f"{note}: {fault}"
    same = info.name == v.op
    return ("same op", note) if same else ("other op", note)


# ---------------------------------------------------------------------------- attributes


def answered(v: Variant, low: Lowered, found: Recovered, info: OpInfo) -> Any:
    """The call that the answer stands for, over sizes that are named as the variant's."""
    sizes = size_values(low, found)
    args = []
    for o in info.operands:
        if not isinstance(o, int):
            args.append(relax.const(o.value, o.dtype))
            continue
        t = found.params[o]
        assert isinstance(t, TensorVar)
        args.append(
            relax.Var(f"p{o}", relax.TensorType([to_prim(e, sizes) for e in t.shape], t.dtype))
        )
    attrs = {k: to_prim(a, sizes) for k, a in info.attrs.items()}
    return relax.BlockBuilder().normalize(call_op(info.name, args, attrs, v.literal))


def different(v: Variant, mine: Any, theirs: Any, info: OpInfo) -> list[tuple[str, bool]]:
    """Attributes in which two calls differ, and whether the answer leaves room for mine."""
    a, b = plain_call(mine), plain_call(theirs)
    ranks = [len(x.ty.shape) for x in mine.args if isinstance(x.ty, relax.TensorType)]
    rank = ranks[0] if ranks else 0
    for side in (a, b):
        canonical(v, side, rank, mine)
    together = _together(a, b, info) if v.op == info.name else []
    return together + [
        (key, allowed(key, a.get(key), b.get(key), info))
        for key in sorted({*a, *b})
        if a.get(key) != b.get(key)
    ]


def allowed(key: str, mine: Any, theirs: Any, info: OpInfo) -> bool:
    """Whether the value that was built is in what the answer says is not determined."""
    for u in info.undetermined:
        if u.attribute == key and u.position is None and u.allows(mine):
            return True
    if not (isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs)):
        return False
    return all(
        x == y
        or any(u.attribute == key and u.position == k and u.allows(x) for u in info.undetermined)
        for k, (x, y) in enumerate(zip(mine, theirs, strict=True))
    )


def _together(a: dict[str, Any], b: dict[str, Any], info: OpInfo) -> list[tuple[str, bool]]:
    """Entries that may change by as much as each other, made the same where they did."""
    found = []
    for u in info.undetermined:
        if u.partner is None or u.position is None:
            continue
        (key, k), own, at = u.partner, u.attribute, u.position
        change = a[own][at] - b[own][at]
        if change and u.allows(a[own][at]) and a[key][k] - b[key][k] == change:
            a[own][at], a[key][k] = b[own][at], b[key][k]
            found.append((own, True))
    return found


# ---------------------------------------------------------------------------- numbers
