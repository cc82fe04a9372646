"""Parse requested input shapes, and bind them to a module's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import tvm
from tvm import relax

from ...analysis.support.wording import did_you_mean
from .error import FrontendError

#: The largest extent, and its digits.
LARGEST = 2**63 - 1
DIGITS = len(str(LARGEST))
Shapes: TypeAlias = dict[str, tuple[int | str, ...]]
#: The attributes of a function with bounds of sizes by name.
LOWER, UPPER = "tir_var_lower_bound", "tir_var_upper_bound"
#: The bound that torch writes for sizes without one; it does not restrict them.
SPECIALISED = 2
#: A requested dimension that stays as the file has it.
KEPT = "?"


def parse_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Parse `name:1,3,n,n`, where the name may contain colons; raises `FrontendError`.

    >>> parse_shape("x:1,3,n,224")
    ('x', (1, 3, 'n', 224))
    >>> parse_shape("x:1,3,?,?")
    ('x', (1, 3, '?', '?'))
    """
    name, colon, dims = text.rpartition(":")
    if not colon or not name:
        raise FrontendError(f"shape '{text}': expected the form NAME:1,3,224,224")
    return name, tuple(_dim(part.strip(), text) for part in dims.split(",")) if dims else ()


def _dim(part: str, text: str) -> int | str:
    if part.isidentifier() or part == KEPT:
        return part
    if part.isdecimal() and len(part) <= DIGITS and 0 < int(part) <= LARGEST:
        return int(part)
    shown = part if len(part) <= 40 else f"{part[:39]}…"
    raise FrontendError(
        f"shape '{text[:200]}': expected an integer from 1 to 2**63 - 1, a name or ?, got '{shown}'"
    )


def check_shapes(
    requested: Shapes, inputs: Mapping[str, Sequence[object] | None], symbolic: bool = False
) -> None:
    """Raise `FrontendError` for unknown inputs, and for ranks or extents that do not fit.

    `inputs` maps names to dimensions, an `int` if static, or to None if the rank is unknown.
    `symbolic`: whether a name makes a static dimension symbolic.
    """
    for name, shape in requested.items():
        if name not in inputs:
            names = ", ".join(inputs) or "none"
            near = did_you_mean(name, inputs)
            raise FrontendError(f"unknown input '{name}'; the model's inputs are: {names}{near}")
        dims = inputs[name]
        if dims is None:
            continue
        if len(dims) != len(shape):
            shown = ",".join(map(str, dims))
            raise FrontendError(
                f"input '{name}' has {len(dims)} dimensions ({shown}), got {len(shape)}"
            )
        for k, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            if isinstance(dim, int) and isinstance(extent, int) and dim != extent:
                raise FrontendError(
                    f"input '{name}': dimension {k} is static, {dim}; got {extent}"
                    f"{_renamed(name, shape, k) if symbolic else ''}"
                )


def _renamed(name: str, shape: Sequence[int | str], k: int) -> str:
    """Return a hint with the option that makes dimension `k` symbolic."""
    words = ",".join(["n" if k == j else str(d) for j, d in enumerate(shape)])
    return f" (a name makes it symbolic: --shape {name}:{words})"


def bind_shapes(mod: tvm.IRModule, requested: Shapes) -> tvm.IRModule:
    """Bind symbolic dimensions of `main`'s inputs to the requested extents.

    A requested name leaves a symbolic dimension symbolic.

    Raises:
        FrontendError: A static dimension differs from the requested one, or a symbolic one is out
            of the bounds that `main` declares.
    """
    if not requested:
        return mod
    main = mod.functions.get(mod.global_var_map_.get("main"))
    if not isinstance(main, relax.Function):
        raise FrontendError(f"unknown input '{next(iter(requested))}'; the module has no Relax "
                            "function main")  # fmt: skip
    count = int((main.attrs or {}).get("num_input", len(main.params)))
    params = {p.name: p for p in main.params[:count]}
    dims = {name: _dims_of(p) for name, p in params.items()}
    names = {name: key for name in requested for key in (name, _plain(name)) if key in params}
    check_shapes({names.get(k, k): v for k, v in requested.items()}, dims)
    binding: dict[tvm.ir.Var, int] = {}
    for name, shape in requested.items():
        for dim, extent in zip(dims[names[name]] or (), shape, strict=True):
            _bind_dim(name, dim, extent, binding)
    _check_bounds(main, binding)
    return relax.transform.BindSymbolicVars(binding)(mod) if binding else mod


def _bind_dim(name: str, dim: object, extent: int | str, binding: dict[tvm.ir.Var, int]) -> None:
    if isinstance(extent, str) or not isinstance(dim, tvm.ir.Var):
        return
    if binding.setdefault(dim, extent) != extent:
        raise FrontendError(
            f"input '{name}': dimension {dim.name} is {binding[dim]} elsewhere, got {extent}"
        )


def _check_bounds(main: relax.Function, binding: Mapping[tvm.ir.Var, int]) -> None:
    """Raise `FrontendError` for extents that a function is not declared for.

    What was exported for a size above 4 may have branched on it, and computes another function.
    """
    attrs = main.attrs or {}
    lower, upper = attrs.get(LOWER) or {}, attrs.get(UPPER) or {}
    for dim, extent in binding.items():
        least, most = int(lower.get(dim.name, 0)), int(upper.get(dim.name, extent))
        if (extent < least and least > SPECIALISED) or extent > most:
            bounds = [*([f"at least {least}"] if least > SPECIALISED else []),
                      *([f"at most {most}"] if dim.name in upper else [])]  # fmt: skip
            raise FrontendError(f"dimension {dim.name} is {' and '.join(bounds)} in the model, "
                                f"got {extent}")  # fmt: skip


def _dims_of(param: relax.Var) -> tuple[object, ...] | None:
    shape = getattr(param.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    return tuple(d.value if isinstance(d, tvm.tirx.IntImm) else d for d in shape.values)


def _plain(name: str) -> str:
    """Return the importer's spelling of an input name: letters, digits and underscores."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)
