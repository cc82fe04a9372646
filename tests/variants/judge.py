"""What became of a variant: recovered, recovered as another reading, refused, or wrong.

What was built is compared with what was answered as calls of Relax, after TVM filled in defaults.
Where they differ, both are run on random inputs: only equal numbers make it another reading.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase as LETTERS
from typing import Any, Literal

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import LayoutNormalised, OpInfo, Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.answer.recovered import Recovered
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.analysis.proposal.call_op import call_op, constructor
from opinfo.analysis.support.tvm_compat import GenericConst, array_of
from opinfo.analysis.terms.term import Int, TensorVar, Var
from opinfo.testing.strip import strip

from ..common.run import run
from . import Variant, fill
from .expected import kinds, layouts_of
from .lower import Lowered, Unlowered, dimensions, lower, tensor, unlegalised, with_sizes

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


def size_values(low: Lowered, found: Recovered) -> dict[Var, Any]:
    """Each size of the answer as an expression over the variant's letters."""
    values: dict[Var, Any] = {}
    for p, mine in zip(low.func.params, found.params, strict=True):
        if isinstance(mine, Var):
            values.setdefault(mine, low.sizes[str(p.name)])
        else:
            for e, f in zip(p.ty.shape, mine.shape, strict=True):
                if isinstance(f.atom, Var):
                    values.setdefault(f.atom, _over_letters(e, low.sizes))
    return values


def _over_letters(expr: Any, letters: Mapping[str, Any]) -> Any:
    def letter(var: Any) -> Any:
        return letters.get(str(var.name), var)

    return tvm_ffi.structural_map(expr, (tvm.ir.Var, letter))


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


def plain_call(call: Any) -> dict[str, Any]:
    """Everything in a call but its tensors, by the names of the constructor's parameters."""
    names = list(inspect.signature(constructor(str(call.op.name))).parameters)
    out: dict[str, Any] = {}
    for k, a in enumerate(call.args):
        if not _tensors(a):
            out[names[k] if k < len(names) else str(k)] = plain(a)
    for f in type(call.attrs).__tvm_ffi_type_info__.fields if call.attrs is not None else ():
        out[str(f.name)] = plain(getattr(call.attrs, f.name))
    return out


def _tensors(a: Any) -> bool:
    if isinstance(a, relax.Tuple):
        return bool(a.fields) and all(map(_tensors, a.fields))
    return isinstance(a, tvm.ir.Var) and isinstance(a.ty, relax.TensorType)


def plain(a: Any) -> Any:
    """A value of Python; a symbolic one is what it is at some points."""
    if a is None or isinstance(a, (bool, int, float, str)):
        return a
    if isinstance(a, (tirx.IntImm, tirx.FloatImm)):
        return bool(a.value) if str(a.ty.dtype) == "bool" else a.value
    if isinstance(a, relax.ShapeExpr):
        return [plain(x) for x in a.values]
    if isinstance(a, relax.Tuple):
        return [plain(x) for x in a.fields]
    if isinstance(a, GenericConst):
        return [str(array_of(a).dtype), array_of(a).numpy().tolist()]
    if isinstance(a, tirx.IndexMap):
        return _moved(a)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return [plain(x) for x in a]
    if type(getattr(a, "ty", None)).__name__ == "PrimType":
        return [at(a, point) for point in POINTS]
    return str(a)


POINTS = tuple({c: p + 3 * (ord(c) % 7) for c in LETTERS} for p in (5, 31, 58))


def at(e: Any, sizes: Mapping[str, int]) -> int:
    """A dimension for sizes given by name."""
    kind = type(e).__name__
    if kind in ("IntImm", "int"):
        return int(e)
    if kind == "Var":
        return sizes[str(e.name)]
    if kind == "Cast":
        return at(e.value, sizes)
    if kind == "Call":
        return at(e.args[1 if at(e.args[0], sizes) else 2], sizes)
    return int(_ARITHMETIC[kind](at(e.a, sizes), at(e.b, sizes)))


_ARITHMETIC: dict[str, Any] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod, "Min": min, "Max": max, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


def _moved(m: Any) -> list[list[int]]:
    """An index map at some coordinates."""
    points = [
        [(7 * k + 3 * d + k * d) % 5 for d in range(len(m.initial_indices))] for k in range(9)
    ]
    return [[int(x) for x in m.map_indices(p)] for p in points]


def canonical(v: Variant, attrs: dict[str, Any], rank: int, call: Any) -> None:
    """Write in one way what TVM lets be written in several: negative axes, all axes, defaults."""
    for key in ("axis", "axes", "channel_axis"):
        value = attrs.get(key)
        if isinstance(value, int) and value < 0:
            attrs[key] = value + rank + (v.op in ("relax.stack", "relax.one_hot"))
        elif isinstance(value, list) and all(isinstance(a, int) for a in value):
            attrs[key] = [a + rank if a < 0 else a for a in value]
            if v.op not in ("relax.permute_dims", "relax.strided_slice"):
                attrs[key] = sorted(attrs[key])
    if v.op in SWEEPS and attrs.get("axis") is None:
        attrs["axis"] = list(range(rank))
    if v.op in ("relax.argmax", "relax.argmin") and attrs.get("axis") is None and rank == 1:
        attrs["axis"] = 0
    if v.op == "relax.permute_dims" and attrs.get("axes") is None:
        attrs["axes"] = list(range(rank))[::-1]
    if v.op == "relax.strided_slice":
        _slices(attrs, call)
    for key in ("out_dtype", "dtype"):
        if attrs.get(key) in ("", "void", None) and key in attrs:
            attrs[key] = str(_first(call.ty).dtype)


def _first(ty: Any) -> Any:
    return ty.fields[0] if hasattr(ty, "fields") else ty


SWEEPS = tuple(f"relax.{n}" for n in ("sum", "prod", "max", "min", "mean", "variance", "std"))


def _slices(attrs: dict[str, Any], call: Any) -> None:
    """Ranges by axis, from 0 to the extent; a negative bound counts from the end."""
    if attrs.get("strides") is None:
        attrs["strides"] = [1] * len(attrs["axes"])
    shape = [plain(e) for e in call.args[0].ty.shape.values]
    order = sorted(range(len(attrs["axes"])), key=lambda k: attrs["axes"][k])
    for key in ("axes", "begin", "end", "strides"):
        attrs[key] = [attrs[key][k] for k in order]
    for k, axis in enumerate(attrs["axes"]):
        extent = shape[axis]
        if not isinstance(extent, int):
            continue
        for key in ("begin", "end"):
            value, down = attrs[key][k], attrs["strides"][k] < 0
            if isinstance(value, int):
                value = value + extent if -extent <= value < 0 else value
                low, high = (-extent - 1, extent - 1) if down else (0, extent)
                attrs[key][k] = max(min(value, high), low)


# ---------------------------------------------------------------------------- numbers


def unequal(v: Variant, low: Lowered, found: Recovered, info: OpInfo) -> str:
    """Why two calls are not the same function, found by running both; empty if they are."""
    try:
        mine = concrete(
            v, v.op, v.operands, {k: with_sizes(a, _sizes(v)) for k, a in v.attrs.items()}
        )
    except Exception as e:
        return f"what was built does not run: {type(e).__name__} {str(e)[:80]}"
    operands: list[Any] = []
    fixed = {x: at(e, _sizes(v)) for x, e in size_values(low, found).items()}
    places = []
    for o in info.operands:
        if not isinstance(o, int):
            operands.append(relax.const(o.value, o.dtype))
            continue
        t = found.params[o]
        assert isinstance(t, TensorVar)
        shape = [_value(e, fixed) for e in t.shape]
        operands.append(f"{t.dtype}[{', '.join(map(str, shape))}]")
        places.append(low.operands.index(o))
    attrs = {k: _fixed(a, fixed) for k, a in info.attrs.items()}
    try:
        theirs = concrete(v, info.name, operands, attrs)
    except Exception as e:
        return f"the answer does not run: {type(e).__name__} {str(e)[:80]}"
    inputs = [random_input(t, k) for k, t in enumerate(concrete_types(v))]
    return _compare(outputs(mine, inputs), outputs(theirs, [inputs[k] for k in places]))


def _compare(a: list[Any], b: list[Any]) -> str:
    if len(a) != len(b):
        return f"{len(a)} outputs and {len(b)}"
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape:
            return f"shapes {x.shape} and {y.shape}"
        tolerance = 2e-2 if "16" in str(x.dtype) or "16" in str(y.dtype) else 1e-4
        if not np.allclose(x.astype("float64"), y.astype("float64"), tolerance, tolerance, True):
            return "other numbers"
    return ""


def _sizes(v: Variant) -> dict[str, Any]:
    return dict(v.sizes)


def _value(e: Any, fixed: Mapping[Any, Any]) -> int:
    return at(to_prim(e, {x: tirx.IntImm("int64", n) for x, n in fixed.items()}), {})


def _fixed(a: Any, fixed: Mapping[Any, Any]) -> Any:
    if isinstance(a, Int):
        return _value(a, fixed)
    if isinstance(a, (list, tuple)):
        return type(a)(_fixed(x, fixed) for x in a)
    return a


def concrete_types(v: Variant) -> list[str]:
    return [fill(t, v.sizes) for t in v.operands]


def concrete(v: Variant, op: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The module of a call over operands with literal shapes, given as types or constants."""
    args = [
        tensor(f"p{k}", fill(t, v.sizes), {}) if isinstance(t, str) else t
        for k, t in enumerate(operands)
    ]
    params = [a for a in args if isinstance(a, relax.Var)]
    return unlegalised(op, args, attrs, v.literal, params=params)


def random_input(text: str, seed: int) -> Any:
    """Small numbers, so that neither types nor indices overflow."""
    dtype, _, rest = text.partition("[")
    shape = tuple(dimensions(rest[:-1], {}))
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return np.asarray(rng.integers(0, 3, shape)).astype(dtype)
    return np.asarray(rng.uniform(0.25, 2.0, shape)).astype(dtype)


def outputs(mod: Any, inputs: list[Any]) -> list[Any]:
    """Compiled: TVM's own numbers."""
    return run(mod, inputs)
