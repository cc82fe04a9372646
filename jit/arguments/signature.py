"""Signatures of functions as plain data, stored in a compiled library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .checked_extents import conditions_of
from .extent import Extent, extent_of, listed, read_extent, spelled
from .index_ranges import IndexRange, index_ranges_of

FORMAT = 4
#: The attribute of a Relax function that writes to caches; see `jit.caches`.
CACHES = "opinfo.caches"
#: The function attribute with the ranges of indices, if the function is lowered.
INDICES = "opinfo.indices"
#: The parameter with the lengths of the caches, and the first rows of those that slide.
LENGTH = "cache_length"

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

    The lengths of the ``groups`` of caches are the parameter ``length``, a shape. The
    ``conditions`` on symbolic extents, such as ``("==", "n", "m")``, hold in each call that the
    function accepts; it checks them itself, with a worse message. It does not check the
    ``indices``, ranges of the elements of parameters.
    """

    function: str
    params: tuple[Param, ...]
    caches: tuple[Cache, ...] = ()
    groups: tuple[CacheGroup, ...] = ()
    conditions: tuple[Extent, ...] = ()
    indices: tuple[IndexRange, ...] = ()

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
        caches = json.loads(str(attrs[CACHES])) if CACHES in attrs else {"caches": [], "groups": []}
        indices = (tuple(map(_read_range, json.loads(str(attrs[INDICES])))) if INDICES in attrs
                   else index_ranges_of(func, names))  # fmt: skip
        return cls(
            function,
            params,
            tuple(map(_read_cache, caches["caches"])),
            _read_groups(caches["groups"]),
            conditions_of(func, names),
            indices,
        )

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
        caches = [[c.param, c.field, c.axis, listed(c.count), c.group] for c in self.caches]
        groups = [[listed(e) for e in ((g.length, g.kept) if g.slides else (g.length,))]
                  for g in self.groups]  # fmt: skip
        return {"format": FORMAT, "function": self.function, "params": params, "caches": caches,
                "groups": groups, "conditions": list(map(listed, self.conditions)),
                "indices": ranges_to_json(self.indices)}  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Signature:
        """Read what `to_json` writes; raises ``ValueError`` for anything else."""
        try:
            if data["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {data['format']!r}")
            params = tuple(_read(p) for p in data["params"])
            return cls(_text(data["function"]), params, tuple(map(_read_cache, data["caches"])),
                       _read_groups(data["groups"]),
                       tuple(map(read_extent, data.get("conditions", ()))),
                       tuple(map(_read_range, data.get("indices", ()))))  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a signature: {type(error).__name__}: {error}") from error


def ranges_to_json(ranges: Sequence[IndexRange]) -> list[Any]:
    """Return ranges of indices for JSON."""
    return [[r.param, listed(r.low), listed(r.high), r.component] for r in ranges]


def variable_names(func: Any) -> dict[Any, str]:
    """Map the shape variables of a Relax function's parameters to unique names."""
    names: dict[Any, str] = {}
    for param in func.params:
        _param(str(param.name), param.ty, names)
    return names


def extents_of(func: Any, extents: Sequence[Any]) -> list[Any]:
    """Return extents in a Relax function for JSON, by the names that its signature uses."""
    names = variable_names(func)
    return [listed(extent_of(e, names)) for e in extents]


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
        return tuple(extent_of(e, names) for e in shape)
    return (None,) * ndim if ndim >= 0 else None


def _to_json(param: Param) -> dict[str, Any]:
    shape = None if param.shape is None else list(map(listed, param.shape))
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
    extents = None if shape is None else tuple(map(read_extent, shape))
    return Param(_text(data["name"]), None if dtype is None else _text(dtype), extents,
                 _text(data["device"]), kind, tuple(map(_read, data["fields"])))  # fmt: skip


def _read_cache(data: Any) -> Cache:
    param, field, axis, count, group = data
    return Cache(int(param), int(field), int(axis), read_extent(count), int(group))


def _read_range(data: Any) -> IndexRange:
    param, low, high, *component = data
    return IndexRange(int(param), read_extent(low), read_extent(high),
                      *(None if c is None else int(c) for c in component))  # fmt: skip


def _read_groups(data: Any) -> tuple[CacheGroup, ...]:
    groups: list[CacheGroup] = []
    at = 0
    for length, *kept in data:
        slides = len(kept) == 1
        groups.append(CacheGroup(at, read_extent(length), slides,
                                 read_extent(kept[0]) if slides else None))  # fmt: skip
        at += 1 + slides
    return tuple(groups)


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise TypeError(f"expected a string, got {data!r}")
    return data
