"""What the arguments of a function must be, as plain data that travels beside a compiled model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

FORMAT = 1

#: A number, the name of a symbolic extent, an expression of them like ("+", "n", 1), or None for
#: an expression that only TVM can check.
Extent = int | str | tuple[Any, ...] | None

OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Max": "max",
             "Min": "min"}  # fmt: skip


@dataclass(frozen=True)
class Param:
    """A tensor; ``shape`` None: of any rank; ``dtype`` None: of any, or no tensor at all."""

    name: str
    dtype: str | None
    shape: tuple[Extent, ...] | None
    device: str = "cpu"

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.dtype or 'anything'}"
        return f"{self.name}: {self.dtype or 'any'}[{', '.join(map(spelled, self.shape))}]"


@dataclass(frozen=True)
class Signature:
    """A function's name and its parameters."""

    function: str
    params: tuple[Param, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.params))})"

    @classmethod
    def of(cls, func: Any, name: str | None = None) -> Signature:
        """Of a Relax function. Raises ``TypeError`` for something else."""
        from tvm import relax

        if not isinstance(func, relax.Function):
            raise TypeError(f"Signature.of: expected a Relax function, got {type(func).__name__}")
        attrs = func.attrs or {}
        told = name or str(attrs.get("global_symbol", "main"))
        names: dict[Any, str] = {}
        return cls(told, tuple(_param(p, names) for p in func.params))

    def symbols(self) -> dict[str, tuple[int, int]]:
        """Each symbolic extent, and the parameter and dimension where it stands alone first."""
        out: dict[str, tuple[int, int]] = {}
        for k, p in enumerate(self.params):
            for axis, extent in enumerate(p.shape or ()):
                if isinstance(extent, str):
                    out.setdefault(extent, (k, axis))
        return out

    def to_json(self) -> dict[str, Any]:
        params = [{"name": p.name, "dtype": p.dtype, "device": p.device,
                   "shape": None if p.shape is None else list(map(_listed, p.shape))}
                  for p in self.params]  # fmt: skip
        return {"format": FORMAT, "function": self.function, "params": params}

    @classmethod
    def from_json(cls, told: Any) -> Signature:
        """Raises ``ValueError`` for what :meth:`to_json` does not write."""
        try:
            if told["format"] != FORMAT:
                raise ValueError(f"format {told['format']!r} instead of {FORMAT}")
            params = tuple(_read(p) for p in told["params"])
            return cls(_text(told["function"]), params)
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"not a signature: {type(e).__name__}: {e}") from e


def variable_names(func: Any) -> dict[Any, str]:
    """The variables of the parameters' shapes of a Relax function, by names that are unique."""
    names: dict[Any, str] = {}
    for p in func.params:
        _param(p, names)
    return names


def spelled(extent: Extent) -> str:
    """For people: ``n``, ``(n + 1)``, ``?``."""
    if not isinstance(extent, tuple):
        return "?" if extent is None else str(extent)
    op, a, b = extent
    if op in ("max", "min"):
        return f"{op}({spelled(a)}, {spelled(b)})"
    return f"({spelled(a)} {op} {spelled(b)})"


def value(extent: Extent, values: Mapping[str, int]) -> int | None:
    """None where a symbol in it is not known, or it divides by zero."""
    if extent is None or isinstance(extent, int):
        return extent
    if isinstance(extent, str):
        return values.get(extent)
    op, a, b = extent[0], value(extent[1], values), value(extent[2], values)
    if a is None or b is None or (op in ("//", "%") and b == 0):
        return None
    return int(_COMPUTE[op](a, b))


_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}


def _param(p: Any, names: dict[Any, str]) -> Param:
    from tvm import relax

    if not isinstance(p.ty, relax.TensorType):
        return Param(str(p.name), None, None)
    shape = p.ty.shape
    extents = None
    if isinstance(shape, relax.ShapeExpr):
        extents = tuple(_extent(e, names) for e in shape.values)
    elif p.ty.ndim >= 0:
        extents = (None,) * p.ty.ndim
    device = p.ty.vdevice
    kind = "cpu" if device is None else str(device.target.kind.name)
    return Param(str(p.name), None if p.ty.dtype is None else str(p.ty.dtype), extents,
                 "cpu" if kind in ("llvm", "c") else kind)  # fmt: skip


def _extent(e: Any, names: dict[Any, str]) -> Extent:
    """An extent; the second of two variables ``n`` is called ``n_1``."""
    from tvm import tirx

    if isinstance(e, int | tirx.IntImm):
        return int(e)
    if isinstance(e, tirx.Var):
        taken = (n for k in count() if (n := f"{e.name}_{k}" if k else str(e.name))
                 not in names.values())  # fmt: skip
        return names[e] if e in names else names.setdefault(e, next(taken))
    op = OPERATORS.get(type(e).__name__)
    if op is None:
        return None
    a, b = _extent(e.a, names), _extent(e.b, names)
    return None if a is None or b is None else (op, a, b)


def _listed(extent: Extent) -> Any:
    return [extent[0], *map(_listed, extent[1:])] if isinstance(extent, tuple) else extent


def _read(told: Mapping[str, Any]) -> Param:
    dtype, shape = told["dtype"], told["shape"]
    extents = None if shape is None else tuple(map(_read_extent, shape))
    return Param(_text(told["name"]), None if dtype is None else _text(dtype), extents,
                 _text(told["device"]))  # fmt: skip


def _read_extent(told: Any) -> Extent:
    if isinstance(told, list):
        op, a, b = told
        if op not in _COMPUTE:
            raise ValueError(f"operator {op!r}")
        return op, _read_extent(a), _read_extent(b)
    if told is not None and (isinstance(told, bool) or not isinstance(told, int | str)):
        raise TypeError(f"an extent, got {told!r}")
    return told


def _text(told: Any) -> str:
    if not isinstance(told, str):
        raise TypeError(f"expected a text, got {told!r}")
    return told
