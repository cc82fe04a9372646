"""Signatures of functions as plain data, stored in a compiled library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, get_args

FORMAT = 4
#: The attribute of a Relax function that writes to caches; see `jit.caches`.
CACHES = "opinfo.caches"
#: The parameter with the lengths of the caches, and the first rows of those that slide.
LENGTH = "cache_length"

#: An integer, the name of a symbol, an expression like ("+", "n", 1), or None for an expression
#: that only TVM can check.
Extent = int | str | tuple[Any, ...] | None

OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Max": "max",
             "Min": "min"}  # fmt: skip

#: An ``object`` is any value, including None.
Kind = Literal["tensor", "tuple", "shape", "number", "function", "object"]


@dataclass(frozen=True)
class Param:
    """A parameter; a tensor by default.

    ``shape`` is the shape of a tensor, or the value of a shape; None means any rank. ``dtype`` is
    that of a tensor or number; None means any. The ``fields`` of a tuple ``t`` are named ``t[0]``,
    ``t[1]`` and so on.
    """

    name: str
    dtype: str | None
    shape: tuple[Extent, ...] | None
    device: str = "cpu"
    kind: Kind = "tensor"
    fields: tuple[Param, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.spelled}"

    @property
    def spelled(self) -> str:
        """The type as shown to users, such as ``float32[n, 4]``."""
        if self.kind == "tuple":
            return f"({', '.join(f.spelled for f in self.fields)})"
        if self.kind == "object":
            return "anything"
        if self.kind not in ("tensor", "shape"):
            return " ".join(filter(None, (self.dtype, self.kind)))
        kind = "shape" if self.kind == "shape" else self.dtype
        if self.shape is None:
            return kind or "tensor"
        return f"{kind or 'any'}[{', '.join(map(spelled, self.shape))}]"

    def leaves(self) -> Iterator[Param]:
        """Yield this parameter, or the leaves of a tuple's fields."""
        if self.kind != "tuple":
            yield self
        for param in self.fields:
            yield from param.leaves()


@dataclass(frozen=True)
class Cache:
    """A tensor that a function stores rows in.

    Attributes:
        param: The index of the parameter.
        field: The index of the field if the parameter is a tuple, and -1 otherwise.
        axis: The axis of the rows.
        count: The number of rows that a call stores.
        group: The index in `Signature.groups`; -1 if the rows have positions that are data.
    """

    param: int
    field: int
    axis: int
    count: Extent
    group: int = 0

    def of(self, values: Sequence[Any]) -> Any:
        """Return the cache from a value for each parameter."""
        value = values[self.param]
        return value if self.field < 0 else value[self.field]


@dataclass(frozen=True)
class CacheGroup:
    """Caches with the same rows in use, to which a function appends.

    Attributes:
        at: The index of their number in the parameter ``length``.
        length: The rows in use before a call, a symbol or a number.
        slides: Whether a call drops the first rows; then the first one in use is at ``at + 1``.
        kept: The rows in use after a call, if it drops rows.
    """

    at: int
    length: Extent
    slides: bool = False
    kept: Extent = None

    def state(self, lengths: Sequence[int]) -> tuple[int, int]:
        """Return the first row in use, and their number, from the parameter ``length``."""
        return (int(lengths[self.at + 1]) if self.slides else 0), int(lengths[self.at])


@dataclass(frozen=True)
class Signature:
    """The name and parameters of a function, and the caches that it stores rows in.

    The lengths of the ``groups`` of caches are the parameter ``length``, a shape.
    """

    function: str
    params: tuple[Param, ...]
    caches: tuple[Cache, ...] = ()
    groups: tuple[CacheGroup, ...] = ()

    @property
    def length(self) -> int | None:
        """The index of the parameter with the lengths of caches; None if none has a length."""
        if not self.groups:
            return None
        return next(k for k, p in enumerate(self.params) if p.kind == "shape" and p.name == LENGTH)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.params))})"

    @classmethod
    def of(cls, func: Any, name: str | None = None) -> Signature:
        """Return the signature of a Relax function; raises ``TypeError`` for another type."""
        from tvm import relax

        if not isinstance(func, relax.Function):
            raise TypeError(f"Signature.of: expected a Relax function, got {type(func).__name__}")
        attrs = func.attrs or {}
        function = name or str(attrs.get("global_symbol", "main"))
        names: dict[Any, str] = {}
        params = tuple(_param(str(p.name), p.ty, names) for p in func.params)
        told = json.loads(str(attrs[CACHES])) if CACHES in attrs else {"caches": [], "groups": []}
        return cls(function, params, tuple(map(_read_cache, told["caches"])),
                   _read_groups(told["groups"]))  # fmt: skip

    def leaves(self) -> Iterator[Param]:
        """Yield the parameters, with tuples replaced by their leaves."""
        for param in self.params:
            yield from param.leaves()

    def symbols(self) -> dict[str, tuple[str, int]]:
        """Map each symbolic extent to the first parameter and axis where it stands alone."""
        out: dict[str, tuple[str, int]] = {}
        for param in self.leaves():
            for axis, extent in enumerate(param.shape or ()):
                if isinstance(extent, str):
                    out.setdefault(extent, (param.name, axis))
        return out

    def to_json(self) -> dict[str, Any]:
        params = [_to_json(p) for p in self.params]
        caches = [[c.param, c.field, c.axis, _listed(c.count), c.group] for c in self.caches]
        groups = [[_listed(e) for e in ((g.length, g.kept) if g.slides else (g.length,))]
                  for g in self.groups]  # fmt: skip
        return {"format": FORMAT, "function": self.function, "params": params, "caches": caches,
                "groups": groups}  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Signature:
        """Read what `to_json` writes; raises ``ValueError`` for anything else."""
        try:
            if data["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {data['format']!r}")
            params = tuple(_read(p) for p in data["params"])
            return cls(_text(data["function"]), params, tuple(map(_read_cache, data["caches"])),
                       _read_groups(data["groups"]))  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a signature: {type(error).__name__}: {error}") from error


def variable_names(func: Any) -> dict[Any, str]:
    """Map the shape variables of a Relax function's parameters to unique names."""
    names: dict[Any, str] = {}
    for param in func.params:
        _param(str(param.name), param.ty, names)
    return names


def extents_of(func: Any, extents: Sequence[Any]) -> list[Any]:
    """Return extents in a Relax function for JSON, by the names that its signature uses."""
    names = variable_names(func)
    return [_listed(_extent(e, names)) for e in extents]


def spelled(extent: Extent) -> str:
    """Format an extent for messages: ``n``, ``(n + 1)``, ``?``."""
    if not isinstance(extent, tuple):
        return "?" if extent is None else str(extent)
    op, a, b = extent
    if op in ("max", "min"):
        return f"{op}({spelled(a)}, {spelled(b)})"
    return f"({spelled(a)} {op} {spelled(b)})"


def value(extent: Extent, values: Mapping[str, int]) -> int | None:
    """Evaluate an extent; None if a symbol is unknown or it divides by zero."""
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


def _param(name: str, ty: Any, names: dict[Any, str]) -> Param:
    from tvm import ir, relax

    if isinstance(ty, relax.TupleType):
        fields = tuple(_param(f"{name}[{k}]", f, names) for k, f in enumerate(ty.fields))
        return Param(name, None, None, kind="tuple", fields=fields)
    if isinstance(ty, relax.ShapeType):
        return Param(name, None, _extents(ty.values, ty.ndim, names), kind="shape")
    if isinstance(ty, ir.PrimType):
        return Param(name, str(ty.dtype), None, kind="number")
    if not isinstance(ty, relax.TensorType):
        return Param(name, None, None, kind="object" if type(ty) is relax.AnyType else "function")
    shape = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else None
    device = ty.vdevice
    on = "cpu" if device is None else str(device.target.kind.name)
    return Param(name, None if ty.dtype is None else str(ty.dtype),
                 _extents(shape, ty.ndim, names), "cpu" if on in ("llvm", "c") else on)  # fmt: skip


def _extents(shape: Any, ndim: int, names: dict[Any, str]) -> tuple[Extent, ...] | None:
    if shape is not None:
        return tuple(_extent(e, names) for e in shape)
    return (None,) * ndim if ndim >= 0 else None


def _extent(expr: Any, names: dict[Any, str]) -> Extent:
    """Convert an extent; the second of two variables ``n`` is named ``n_1``."""
    from tvm import tirx

    if isinstance(expr, int | tirx.IntImm):
        return int(expr)
    if isinstance(expr, tirx.Var):
        if expr not in names:
            stem = str(expr.name)
            candidates = (f"{stem}_{k}" if k else stem for k in count())
            names[expr] = next(name for name in candidates if name not in names.values())
        return names[expr]
    op = OPERATORS.get(type(expr).__name__)
    if op is None:
        return None
    a, b = _extent(expr.a, names), _extent(expr.b, names)
    return None if a is None or b is None else (op, a, b)


def _listed(extent: Extent) -> Any:
    return [extent[0], *map(_listed, extent[1:])] if isinstance(extent, tuple) else extent


def _to_json(param: Param) -> dict[str, Any]:
    shape = None if param.shape is None else list(map(_listed, param.shape))
    return {
        "name": param.name,
        "dtype": param.dtype,
        "device": param.device,
        "shape": shape,
        "kind": param.kind,
        "fields": list(map(_to_json, param.fields)),
    }


def _read(data: Mapping[str, Any]) -> Param:
    dtype, shape, kind = data["dtype"], data["shape"], data["kind"]
    if kind not in get_args(Kind):
        raise ValueError(f"unknown kind {kind!r}")
    extents = None if shape is None else tuple(map(_read_extent, shape))
    return Param(_text(data["name"]), None if dtype is None else _text(dtype), extents,
                 _text(data["device"]), kind, tuple(map(_read, data["fields"])))  # fmt: skip


def _read_cache(data: Any) -> Cache:
    param, field, axis, count, group = data
    return Cache(int(param), int(field), int(axis), _read_extent(count), int(group))


def _read_groups(data: Any) -> tuple[CacheGroup, ...]:
    groups: list[CacheGroup] = []
    at = 0
    for length, *kept in data:
        slides = len(kept) == 1
        groups.append(CacheGroup(at, _read_extent(length), slides,
                                 _read_extent(kept[0]) if slides else None))  # fmt: skip
        at += 1 + slides
    return tuple(groups)


def _read_extent(data: Any) -> Extent:
    if isinstance(data, list):
        op, a, b = data
        if op not in _COMPUTE:
            raise ValueError(f"unknown operator {op!r}")
        return op, _read_extent(a), _read_extent(b)
    if data is not None and (isinstance(data, bool) or not isinstance(data, int | str)):
        raise TypeError(f"expected an extent, got {data!r}")
    return data


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError(f"expected a string, got {data!r}")
    return data
