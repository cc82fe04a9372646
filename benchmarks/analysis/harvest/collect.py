"""Write ``calls.jsonl`` from a checkout of TVM: the calls of Relax operators that its tests build.

    python -c "from benchmarks.analysis.harvest.collect import main; main()" CHECKOUT [COMMIT]

Runs ``tests/python/relax/test_op_*.py`` and ``test_transform_legalize_ops*.py`` of the checkout and
records each call that is normalised, and each call of a module that is given to a pass. A call is
stored as a `Variant` if building the variant gives a structurally equal call; calls that TVM does
not lower to one PrimFunc are left out.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import ascii_lowercase as LETTERS
from typing import Any

import pytest
import tvm
from tvm import relax, tirx
from tvm_ffi import structural_equal

from benchmarks.analysis.harvest.calls import FILE, LICENCE
from opinfo.analysis.proposal.call_op import call_op, parameters
from opinfo.analysis.support.tvm_compat import GenericConst, array_of
from tests.variants import Variant
from tests.variants.lower import Unlowered, lower, tensor, with_sizes

TESTS = ("test_op_*.py", "test_transform_legalize_ops*.py")
#: Tests that run what they build are cut short there.
_STOPPED = ("compile", "build")


class Inexpressible(Exception):
    """A call that is not a `Variant`: ``args[0]`` says why."""


# ---------------------------------------------------------------------------- recording


class Recorder:
    """A plug-in of pytest that records the calls of the tests, with the test's name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.test = ""

    def pytest_runtest_setup(self, item: Any) -> None:
        self.test = f"{Path(item.fspath).name}::{item.originalname}"

    def keep(self, value: Any) -> None:
        """Record every call of an operator in an expression or a module."""
        if isinstance(value, tvm.IRModule):
            for func in value.functions.values():
                self.keep(func)
        elif isinstance(value, (tvm.ir.Call, relax.Function)):
            relax.analysis.post_order_visit(value, self._one)

    def _one(self, expr: Any) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            if str(expr.op.name).startswith("relax."):
                self.calls.append((self.test, expr))


def record(checkout: Path) -> list[tuple[str, Any]]:
    """Run the tests of a checkout; return the test and the call of each recorded call."""
    recorder = Recorder()
    folder = checkout / "tests" / "python" / "relax"
    files = sorted(str(f) for pattern in TESTS for f in folder.glob(pattern))
    normalize, apply = relax.BlockBuilder.normalize, tvm.transform.Pass.__call__

    def normalized(builder: Any, expr: Any) -> Any:
        out = normalize(builder, expr)
        recorder.keep(out)
        return out

    def applied(transform: Any, mod: Any) -> Any:
        recorder.keep(mod)
        return apply(transform, mod)

    def stopped(*_: Any, **__: Any) -> Any:
        pytest.skip("only calls are collected")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relax.BlockBuilder, "normalize", normalized)
        patch.setattr(tvm.transform.Pass, "__call__", applied)
        patch.setattr(tvm.ir, "VDevice", relax.VDevice, raising=False)  # moved after the commit
        for name in _STOPPED:
            patch.setattr(tvm, name, stopped, raising=False)
        options = [
            "-q",
            "-x",
            "--maxfail=10000",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
        ]
        pytest.main([*options, *files], plugins=[recorder])
    return recorder.calls


# ---------------------------------------------------------------------------- as variants


def variant(call: Any) -> Variant:
    """Return a call as text; raises `Inexpressible`."""
    name = str(call.op.name)
    letters: dict[Any, str] = {}
    try:
        names = list(parameters(name))
    except Exception as error:
        raise Inexpressible(str(error)) from None
    operands: list[str] = []
    attrs: dict[str, Any] = {}
    for place, arg in enumerate(call.args):
        if not _operands(arg, operands, letters):
            if place >= len(names):
                raise Inexpressible("an argument that its constructor lacks")
            attrs[names[place]] = _value(arg, letters)
    for field in type(call.attrs).__tvm_ffi_type_info__.fields if call.attrs is not None else ():
        if str(field.name) in names:
            attrs[str(field.name)] = _value(getattr(call.attrs, field.name), letters)
    defaults = {k: p.default for k, p in parameters(name).items()}
    attrs = {
        k: v for k, v in attrs.items()
        if v not in (None, "void", defaults[k]) or (isinstance(v, bool) and v is not defaults[k])
    }  # fmt: skip
    return _checked(Variant(name, tuple(operands), attrs, dict.fromkeys(letters.values(), 0)), call)


def _operands(arg: Any, operands: list[str], letters: dict[Any, str]) -> bool:
    """Append the types of the tensors of an argument; return whether it consists of tensors."""
    if isinstance(arg, relax.Tuple):
        return bool(arg.fields) and all([_operands(f, operands, letters) for f in arg.fields])
    ty = getattr(arg, "ty", None)
    if isinstance(ty, tvm.ir.TupleType) and not isinstance(arg, relax.Tuple):
        raise Inexpressible("an operand is a variable that is a tuple")
    if not isinstance(ty, relax.TensorType) or _scalar(arg):
        return False
    if not isinstance(ty.shape, relax.ShapeExpr) or not str(ty.dtype or ""):
        raise Inexpressible("an operand of unknown shape or dtype")
    dims = ", ".join(_dimension(e, letters) for e in ty.shape.values)
    operands.append(f"{ty.dtype}[{dims}]")
    return True


def _scalar(arg: Any) -> bool:
    return isinstance(arg, GenericConst) and not getattr(array_of(arg), "ndim", 0)


def _dimension(expr: Any, letters: dict[Any, str]) -> str:
    kind = type(expr).__name__
    if isinstance(expr, (int, tirx.IntImm)):
        return str(int(expr))
    if kind == "Var":
        if len(letters) == len(LETTERS) and expr not in letters:
            raise Inexpressible("too many symbols")
        return letters.setdefault(expr, LETTERS[len(letters)])
    if kind in _INFIX:
        return f"({_dimension(expr.a, letters)} {_INFIX[kind]} {_dimension(expr.b, letters)})"
    if kind in ("Min", "Max"):
        return f"{kind.lower()}({_dimension(expr.a, letters)}, {_dimension(expr.b, letters)})"
    raise Inexpressible(f"a dimension that is a {kind}")


_INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}


def _value(value: Any, letters: dict[Any, str]) -> Any:
    """An attribute as a JSON value; sizes are text after ``=``, as `with_sizes` reads them."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (tirx.IntImm, tirx.FloatImm)):
        return bool(value.value) if str(value.ty.dtype) == "bool" else value.value
    if isinstance(value, GenericConst):
        array = array_of(value)
        typed = hasattr(array, "numpy")
        return f"{array.dtype}({array.numpy().item()})" if typed else str(array)
    if isinstance(value, relax.ShapeExpr):
        return [_value(v, letters) for v in value.values]
    if isinstance(value, relax.Tuple):
        return [_value(v, letters) for v in value.fields]
    if isinstance(value, tirx.IndexMap):
        names = {v: f"i{k}" for k, v in enumerate(value.initial_indices)}
        images = ", ".join(_dimension(e, names) for e in value.final_indices)
        return f"{', '.join(names.values())} -> {images}"
    if isinstance(value, tvm.ir.Type):
        dtype = str(getattr(value, "dtype", "") or "")
        if dtype:
            return dtype
    if type(value).__name__ in ("Array", "list", "tuple"):
        return [_value(v, letters) for v in value]
    if type(getattr(value, "ty", None)).__name__ == "PrimType":
        return f"={_dimension(value, letters)}"
    text = str(value)
    if type(value).__name__ in ("DataType", "dtype", "DLDataType"):
        return text
    raise Inexpressible(f"an attribute that is a {type(value).__name__}")


def _checked(made: Variant, call: Any) -> Variant:
    """The variant with numbers for its sizes, after comparing the call it builds with the call."""
    sizes: dict[str, Any] = {}
    operands = [tensor(f"p{k}", text, sizes) for k, text in enumerate(made.operands)]
    try:
        attrs = {k: with_sizes(a, sizes) for k, a in made.attrs.items()}
        built = relax.BlockBuilder().normalize(call_op(made.op, operands, attrs, made.literal))
    except Exception as error:
        raise Inexpressible(f"is not rebuilt: {str(error).strip().splitlines()[-1][:90]}") from None
    if not structural_equal(built.attrs, call.attrs, True) or not _same_type(built.ty, call.ty):
        raise Inexpressible("is rebuilt with other attributes")
    return Variant(made.op, made.operands, made.attrs, _numbers(made))


def _same_type(left: Any, right: Any) -> bool:
    """Whether two calls have tensors of the same rank and dtype as results."""
    if type(left) is not type(right) or not isinstance(left, (relax.TensorType, tvm.ir.TupleType)):
        return False
    if isinstance(left, tvm.ir.TupleType):
        pairs = zip(left.fields, right.fields, strict=True)
        return all(_same_type(a, b) for a, b in pairs)
    return (left.ndim, str(left.dtype)) == (right.ndim, str(right.dtype))


def _numbers(made: Variant) -> dict[str, int]:
    """Numbers for the sizes with which TVM takes the call."""
    rng = random.Random(0)
    tries: list[Mapping[str, int]] = [dict.fromkeys(made.sizes, n) for n in (8, 4, 16, 3)]
    tries[:0] = [{k: rng.randint(3, 9) for k in made.sizes} for _ in range(6)]
    tries += [{k: rng.choice((1, 2, 4, 8, 24)) for k in made.sizes} for _ in range(60)]
    for numbers in tries if made.sizes else ():
        concrete = Variant(made.op, made.operands, made.attrs, numbers)
        try:
            operands = [tensor(f"p{k}", t, dict(numbers)) for k, t in enumerate(made.operands)]
            attrs = {k: with_sizes(a, dict(numbers)) for k, a in made.attrs.items()}
            relax.BlockBuilder().normalize(call_op(made.op, operands, attrs, concrete.literal))
        except Exception:  # TVM rejects calls by all kinds of exceptions
            continue
        return dict(numbers)
    return dict.fromkeys(made.sizes, 8)


# ---------------------------------------------------------------------------- writing


def rows(calls: list[tuple[str, Any]], left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield each different call that lowers to one PrimFunc; count the others by reason."""
    seen: set[str] = set()
    for test, call in calls:
        try:
            made = variant(call)
            if str(made) in seen:
                continue
            seen.add(str(made))
            lower(made)
        except (Inexpressible, Unlowered) as error:
            left_out[f"{call.op.name}: {error.args[0]}"] += 1
            continue
        except Exception as error:  # TVM's errors have no common type
            left_out[f"{call.op.name}: {type(error).__name__}: {str(error)[:60]}"] += 1
            continue
        row = {"op": made.op, "operands": made.operands, "attrs": made.attrs, "sizes": made.sizes}
        yield {"test": test, **{k: v for k, v in row.items() if v}}


def main() -> None:
    """Write the file next to this module; print what was left out."""
    checkout = Path(sys.argv[1])
    git = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    left_out: Counter[str] = Counter()
    found = list(rows(record(checkout), left_out))
    found.sort(key=lambda row: (row["op"], row["test"]))
    head = {**LICENCE, "commit": commit or (sys.argv[2] if len(sys.argv) > 2 else "")}
    FILE.write_text("".join(json.dumps(r) + "\n" for r in (head, *found)), encoding="utf-8")
    print(f"written: {len(found)} calls to {FILE}")
    for reason, count in left_out.most_common():
        print(f"{count:5} {reason}")
