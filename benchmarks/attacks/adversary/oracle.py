"""Run a program and the operators answered for it on hostile inputs, both compiled with LLVM.

The program is compiled unchanged; the answer becomes a Relax function of the operators, legalised
and compiled by TVM. Both get the same inputs: values that often break code, except those that the
certificate excludes by an assumption. Outputs are filled with other numbers before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Chain, LayoutNormalised, OpInfo
from opinfo.analysis.certify.assumptions import CANCELS, DIVIDES, FITS, SHIFTS
from tests.common.compose import NotComposed, compose
from tests.common.run import flat
from tests.relaid.check import Wrong, check

from .program import Program
from .sized import Sizes, choices, shapes

Array = npt.NDArray[Any]
Answer = OpInfo | LayoutNormalised | Chain
#: Accepted differences of results that are equal up to rounding.
TOLERANCE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}
#: Number of input sets for each program.
DRAWS = 4


@dataclass(frozen=True)
class Claim:
    """An answer to run, with the assumptions and exactness of its certificates."""

    answer: Answer
    certificates: tuple[Any, ...]

    @property
    def exact(self) -> bool:
        return all(c.exact for c in self.certificates)

    @property
    def assumptions(self) -> frozenset[str]:
        return frozenset(a for c in self.certificates for a in c.assumptions)

    @property
    def readings(self) -> tuple[LayoutNormalised, ...]:
        """The readings of buffers in layouts other than the logical ones."""
        infos = infos_of(self.answer)
        readings = (i if isinstance(i, LayoutNormalised) else i.relayout for i in infos)
        return tuple(r for r in readings if r is not None)

    def says(self, *words: str) -> bool:
        """Return whether an assumption contains one of these words."""
        return any(w in a for a in self.assumptions for w in words)


def claim(answer: Answer) -> Claim:
    """Return the claim of an answer."""
    return Claim(answer, tuple(i.certificate for i in infos_of(answer)))


def infos_of(answer: Answer) -> list[OpInfo | LayoutNormalised]:
    """The operators of an answer."""
    return [s.info for s in answer.steps] if isinstance(answer, Chain) else [answer]


# ---------------------------------------------------------------------------- compiling


def compiled(funcs: dict[str, Any]) -> dict[str, Any]:
    """Compile PrimFuncs; those that LLVM rejects are omitted."""
    named = {k: f.with_attr("global_symbol", k) for k, f in funcs.items()}
    if not named:
        return {}
    try:
        lib = tvm.compile(tvm.IRModule(named), target="llvm")
        return {k: lib[k] for k in named}
    except Exception:  # TVM's errors have no common type
        if len(named) == 1:
            return {}
    return {k: g for k, f in funcs.items() for g in compiled({k: f}).values()}


def operators(mods: dict[str, Any]) -> dict[str, Any]:
    """Compile functions of operators together; those that do not compile are omitted."""
    if not mods:
        return {}
    try:
        joined = tvm.IRModule({relax.GlobalVar(k): _public(m["main"], k) for k, m in mods.items()})
        machine = relax.VirtualMachine(tvm.compile(joined, target="llvm"), tvm.cpu())
        return {k: machine[k] for k in mods}
    except Exception:
        if len(mods) == 1:
            return {}
    return {k: g for k, m in mods.items() for g in operators({k: m}).values()}


def _public(func: Any, name: str) -> Any:
    return func.with_attr("global_symbol", name)


def module(func: Any, claimed: Claim) -> Any:
    """The Relax module of an answer over the program's own buffers."""
    answer = claimed.answer
    return compose(func, answer if isinstance(answer, Chain) else _single(func, answer))


def sizes_of(mod: Any) -> tuple[str, ...]:
    """Return the names of the sizes that the last parameter of a module holds, if it has one."""
    params = mod["main"].params
    last = params[-1].ty if len(params) else None
    return tuple(v.name for v in last.values) if isinstance(last, relax.ShapeType) else ()


def _single(func: Any, info: OpInfo | LayoutNormalised) -> Chain:
    """One operator as a chain over the function's own parameters."""
    from opinfo.analysis import Step, StepResult

    buffers = (*range(len(func.params) - 1), StepResult(0))
    return Chain((Step(info, buffers),), (StepResult(0),), info.kind)


# ---------------------------------------------------------------------------- inputs


def draws(program: Program, func: Any, claimed: Claim) -> list[tuple[list[Array], Sizes]]:
    """Return sets of inputs on which the answer must be right, with the values of sizes."""
    out = []
    values = choices(program, len(program.source))
    for k in range(DRAWS):
        rng, sizes = np.random.default_rng([k, len(program.source)]), values[k % len(values)]
        kinds = shapes(func, sizes)[: program.inputs]
        inputs = [_input(rng, program, j, *kind, claimed) for j, kind in enumerate(kinds)]
        out.append((inputs, sizes))
    return out


def _input(
    rng: Any, program: Program, j: int, shape: tuple[int, ...], dtype: str, claimed: Claim
) -> Array:
    if j in program.places:
        low, high = program.places[j]
        if claimed.says("no two iterations"):
            return np.resize(rng.permutation(high - low + 1) + low, shape).astype(dtype)
        return np.asarray(rng.integers(low, high + 1, shape)).astype(dtype)
    pool = _pool(dtype, program, claimed)
    return np.asarray(rng.choice(pool, shape)).astype(dtype)


def _pool(dtype: str, program: Program, claimed: Claim) -> Array:
    if dtype == "bool":
        return np.asarray([False, True])
    if "float" in dtype:
        return _floats(dtype, program, claimed)
    return _integers(dtype, program, claimed)


def _floats(dtype: str, program: Program, claimed: Claim) -> Array:
    if claimed.says(FITS):
        signed = "uint" not in program.source
        return np.asarray([0.0, 0.5, 1.0, 1.5, 2.5, 2.75, 3.0] + [-0.5, -1.0, -2.5] * signed, dtype)
    tame = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, -0.5, -1.0, -1.5, -2.5]
    if not claimed.exact and claimed.says("reassociation", "real arithmetic", CANCELS):
        return np.asarray(tame, dtype)
    info = np.finfo(dtype)
    wild = [0.0, 7.5, 1e-3, float(info.max), float(info.min), float(info.smallest_subnormal)]
    if not claimed.says("finite", CANCELS):
        wild += [np.inf, -np.inf]
    if not claimed.says("NaN", "finite"):
        wild += [np.nan, -0.0]
    return np.asarray([*tame, *wild], dtype)


_ARITHMETIC = re.compile(r" [-+*] |abs|= -|\(-|shift_left")


def _integers(dtype: str, program: Program, claimed: Claim) -> Array:
    bits = np.iinfo(dtype)
    if claimed.says(FITS):
        signed = bits.min < 0 and "uint" not in program.source
        return np.asarray([0, 1, 2, 3, 7, 9] + [-1, -3, -8] * signed, dtype)
    if claimed.says(SHIFTS):
        return np.asarray([0, 1, 2, 3, 5, 7], dtype)
    pool = [0, 1, 2, 3, 5, 7, 9, 100]
    if bits.min < 0:
        pool += [-1, -2, -3, -7, -8, -100]
    if claimed.says(DIVIDES):
        pool.remove(0)
    narrow = bits.bits < 32
    if narrow or not _ARITHMETIC.search(re.sub(r"\[[^\]]*\]", "", program.source)):
        pool += [int(bits.max), int(bits.max) - 1, int(bits.min) + 1]
        pool += [] if claimed.says(DIVIDES) else [int(bits.min)]
    if claimed.says(DIVIDES) and 0 in pool:
        pool = [v for v in pool if v]
    return np.asarray(pool, dtype)


# ---------------------------------------------------------------------------- running


def wrong(
    program: Program, func: Any, run: Any, operator: Any, claimed: Claim,
    named: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return how the program and the operators differ on some inputs; empty if they agree.

    The operators take the values of the sizes ``named`` as their last argument.
    """
    if program.sizes and not claimed.says("are at least 1"):
        return "the certificate does not say that sizes are positive"
    with np.errstate(all="ignore"):
        for values, sizes in draws(program, func, claimed):
            ours = _program(func, run, values, sizes)
            numbers = [tvm.runtime.ShapeTuple([sizes[n] for n in named])] if named else []
            theirs = flat(operator(*map(tvm.runtime.tensor, values), *numbers))[0]
            fault = _differ(ours, theirs, claimed)
            if fault and not _overflows(program, func):
                return f"{fault} on {[v.tolist() for v in values]} {sizes or ''}"
    return ""


def _program(func: Any, run: Any, values: Sequence[Array], sizes: Sizes) -> Array:
    shape, dtype = shapes(func, sizes)[-1]
    out = tvm.runtime.tensor(np.full(shape, 77 if dtype != "bool" else 1, dtype))
    tensors = iter([*map(tvm.runtime.tensor, values), out])
    run(*(next(tensors) if is_buffer_var(p) else sizes[p.name] for p in func.params))
    return np.asarray(out.numpy())


def _overflows(program: Program, func: Any) -> bool:
    """Return whether 32- or 64-bit unsigned subtractions occur, which TVM lets wrap."""
    return bool(re.search(r"'uint(32|64)'", program.source)) and " - " in program.source


def _differ(a: Array, b: Array, claimed: Claim) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    if claimed.exact:
        same = np.asarray(a == b)
        if "float" in str(a.dtype):
            same = (same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    else:
        tolerance = TOLERANCE.get(str(a.dtype), 0.0)
        x, y = a.astype("float64"), b.astype("float64")
        same = np.isclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
        if claimed.says("real arithmetic", "finite"):
            same |= ~(np.isfinite(x) & np.isfinite(y))
    if same.all():
        return ""
    place = np.unravel_index(int(np.argmin(same)), same.shape)
    return f"{a[place]!r} and {b[place]!r} at {tuple(map(int, place))}"


def reading_wrong(program: Program, func: Any, claimed: Claim) -> str:
    """Return how an answer over other layouts is wrong at ordinary numbers; empty if it is right.

    Chains are not checked: their steps have intermediate buffers. Nor are functions of scalars.
    """
    if isinstance(claimed.answer, Chain) or not all(map(is_buffer_var, func.params)):
        return ""
    try:
        for sizes in choices(program, len(program.source))[:2]:
            check(func, claimed.readings[0], sizes, range(len(func.params)))
    except Wrong as error:
        return str(error)
    return ""


__all__ = ["Claim", "NotComposed", "claim", "compiled", "module", "operators", "wrong"]
