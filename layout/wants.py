"""What operators are asked to be: the layouts of their operands, by recovered op name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis.op_info import OpInfo
from ..analysis.recover import Recovered
from ..analysis.terms.term import Tensor
from .layout import Digit, Layout
from .string import parse

Desired = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Want:
    """Layouts by parameter of a PrimFunc; a parameter that is not there is free.

    ``exact``: not even the order of elements inside a dimension may be another.
    """

    layouts: Mapping[int, Layout]
    why: str
    exact: bool = False

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout.

        Inside a dimension the elements may be in another order: what reads such a buffer along it
        is the same operator with a permuted operand.
        """
        wanted = self.layouts.get(param)
        if wanted is None or layout.dims == wanted.dims:
            return True
        axes = [tuple({d.axis for d in dim}) for dim in layout.dims]
        whole = [(dim[0].axis,) for dim in wanted.dims]
        return not self.exact and wanted.permutation is not None and axes == whole


def check(desired: Desired) -> dict[str, tuple[str, ...]]:
    """By full op name (``relax.nn.conv2d`` for ``conv2d``); raises for what is no layout."""
    out = {}
    for name, layouts in desired.items():
        if isinstance(layouts, str):
            layouts = [layouts]
        if not all(isinstance(x, str) for x in layouts):
            raise TypeError(f"desired[{name!r}]: expected layout strings, got {list(layouts)!r}")
        for text in layouts:
            parse(text)
        out[full(name)] = tuple(layouts)
    return out


def full(name: str) -> str:
    """``conv2d`` and ``nn.conv2d`` are ``relax.nn.conv2d``. Raises ``ValueError`` for no op."""
    from tvm.ir import Op

    for known in (name, f"relax.{name}", f"relax.nn.{name}", f"relax.image.{name}"):
        if known in Op.list_op_names():
            return known
    raise ValueError(f"desired: there is no Relax operator {name!r}")


def want(found: Recovered, desired: Mapping[str, Sequence[str]]) -> Want | None:
    """What is asked of a PrimFunc, None if nothing; no strings at all: that it stays as it is.

    Raises ``ValueError`` if the strings do not fit the layouts that the operator has.
    """
    info = found.info
    if not isinstance(info, OpInfo) or info.name not in desired:
        return None
    strings = desired[info.name]
    tensors = [k for k, p in enumerate(found.params) if isinstance(p, Tensor)]
    if not strings:
        return Want({k: Layout.identity(_rank(found, k)) for k in tensors}, "to stay as given")
    laid = [k for k in (*info.operands, *found.outputs)
            if isinstance(k, int) and k < len(info.layouts) and info.layouts[k]]  # fmt: skip
    if not laid:
        raise ValueError(f"desired: {info.name} has no layout to choose")
    return Want(_wanted(found, info, strings), f"{info.name} wants {' '.join(strings)}")


def _wanted(found: Recovered, info: OpInfo, strings: Sequence[str]) -> dict[int, Layout]:
    operands = [k for k in info.operands if isinstance(k, int) and info.layouts[k]]
    outputs = [k for k in found.outputs if info.layouts[k]]
    wanted = dict(zip(operands, strings, strict=False))
    for k in outputs:
        wanted[k] = strings[len(operands)] if len(strings) > len(operands) else strings[0]
    return {k: _layout(found, k, text, info.layouts[k]) for k, text in wanted.items()}


def _layout(found: Recovered, k: int, text: str, current: str) -> Layout:
    """The layout over the buffer's own dimensions; an axis of extent 1 is not split."""
    letters = "".join(c for c in text if c.isupper())
    if sorted(letters) != sorted(current):
        raise ValueError(f"desired: {text!r} for a tensor in the layout {current!r}")
    param = found.params[k]
    assert isinstance(param, Tensor)
    dims = []
    for axis, div, extent in parse(text, current):
        if param.shape[axis].const == 1:
            if extent is not None:
                continue
            div = 1
        dims.append((Digit(axis, div, extent),))
    return Layout(tuple(dims))


def _rank(found: Recovered, k: int) -> int:
    param = found.params[k]
    assert isinstance(param, Tensor)
    return len(param.shape)
