"""What operators are asked to be: the layouts of their operands, by recovered op name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...analysis.answer.recovered import Recovered
from ...analysis.recognise import recognisers
from ...analysis.results.op_info import OpInfo
from ...analysis.terms.term import TensorVar
from ..model.digit import Digit
from ..model.layout import Layout
from ..model.string import parse
from .implementations import IMPLEMENTATIONS, Named, iterations, named

Desired = Mapping[str, Sequence[str] | str]


@dataclass(frozen=True)
class Wish:
    """The layout strings for an operator, or those of the implementation that is named."""

    strings: tuple[str, ...]
    by: Named | None = None


Wishes = Mapping[str, Wish]


@dataclass(frozen=True)
class Want:
    """Layouts by parameter of a PrimFunc; a parameter that is not there is free.

    ``exact``: not even the order of elements inside a dimension may be another. ``last``: the axis
    that is innermost in a parameter, whatever else its layout is. ``worth`` is what a named
    implementation saves against the given form, in bytes; None: the layouts are asked for at any
    price, and loops stay as they are where nothing moves.
    """

    layouts: Mapping[int, Layout]
    why: str
    exact: bool = False
    last: Mapping[int, int] = field(default_factory=dict)
    worth: float | None = None

    def takes(self, param: int, layout: Layout) -> bool:
        """Whether a parameter may have this layout.

        Inside a dimension the elements may be in another order: what reads such a buffer along it
        is the same operator with a permuted operand.
        """
        if param in self.last:
            return layout.dims[-1:] == ((Digit(self.last[param]),),)
        wanted = self.layouts.get(param)
        if wanted is None or layout.dims == wanted.dims:
            return True
        axes = [tuple({d.axis for d in dim}) for dim in layout.dims]
        whole = [(dim[0].axis,) for dim in wanted.dims]
        return not self.exact and wanted.permutation is not None and axes == whole


def check(desired: Desired | str) -> dict[str, Wish]:
    """By full op name (``relax.nn.conv2d`` for ``conv2d``); raises for what is no layout.

    A string instead of layouts names an implementation.
    """
    if isinstance(desired, str):
        by = named(desired)
        return {op: Wish(strings, by) for op, strings in by.layouts.items()}
    out = {}
    for name, layouts in desired.items():
        op = full(name, "desired")
        if isinstance(layouts, str) and layouts in IMPLEMENTATIONS:
            by = named(layouts)
            if op not in by.layouts:
                raise ValueError(f"desired: {layouts} has no implementation of {op}")
            out[op] = Wish(by.layouts[op], by)
            continue
        if isinstance(layouts, str):
            layouts = [layouts]
        if not all(isinstance(x, str) for x in layouts):
            raise TypeError(f"desired[{name!r}]: expected layout strings, got {list(layouts)!r}")
        for text in layouts:
            parse(text)
        out[op] = Wish(tuple(layouts))
    return out


def full(name: str, argument: str) -> str:
    """``conv2d`` and ``nn.conv2d`` are ``relax.nn.conv2d``.

    Raises ``ValueError`` for what is no operator, naming the argument that it was given in.
    """
    from tvm.ir import Op

    recovered = {op for r in recognisers() for op in r.ops}  # relax.nn.relu6 is a function of TVM
    for known in (name, f"relax.{name}", f"relax.nn.{name}", f"relax.image.{name}"):
        if known in recovered or known in Op.list_op_names():
            return known
    raise ValueError(f"{argument}: there is no Relax operator {name!r}")


def want(found: Recovered, desired: Wishes, func: Any) -> Want | None:
    """What is asked of a PrimFunc, None if nothing; no strings at all: that it stays as it is.

    Raises ``ValueError`` if the strings do not fit the layouts that the operator has.
    """
    info = found.info
    if found.operator is None or found.operator.name not in desired:
        return None
    wish = desired[found.operator.name]
    if not isinstance(info, OpInfo):
        return _elsewhere(found, wish)
    if wish.by is not None:
        return _named(found, info, wish, wish.by, func)
    strings = wish.strings
    if not strings:
        return _staying(found)
    if not _laid(found, info):
        raise ValueError(f"desired: {info.name} has no layout to choose")
    return Want(_wanted(found, info, strings), f"{info.name} wants {' '.join(strings)}")


def _staying(found: Recovered) -> Want:
    tensors = [k for k, p in enumerate(found.params) if isinstance(p, TensorVar)]
    return Want({k: Layout.identity(_rank(found, k)) for k in tensors}, "to stay as given")


def _elsewhere(found: Recovered, wish: Wish) -> Want | None:
    """What is asked of an operator whose buffers lie as no attributes of it say."""
    if wish.by is not None:
        return None
    if not wish.strings:
        return _staying(found)
    raise ValueError(f"desired: {wish.strings} for what is {found.info!r}")


Offers = Sequence[Mapping[str, Sequence[str]]]
"""Layouts by full operator name that somebody could use."""


def offered(found: Recovered, offers: Offers) -> tuple[Want, ...]:
    """What is offered to a PrimFunc; what does not fit it is nothing to it."""
    info = found.info
    if not isinstance(info, OpInfo) or not _laid(found, info):
        return ()
    out = []
    for strings in filter(None, (o.get(info.name) for o in offers)):
        with suppress(ValueError):
            out.append(Want(_wanted(found, info, strings), f"offered {' '.join(strings)}"))
    return tuple(out)


def _named(found: Recovered, info: OpInfo, wish: Wish, by: Named, func: Any) -> Want | None:
    """What a named implementation wants, None where it would not be faster."""
    if info.relaid or _narrow(found, info):
        return None
    worth = by.saved * iterations(func)
    told = f"{info.name} is faster as {by.name}"
    if wish.strings:
        wanted = _wanted(found, info, wish.strings) if _laid(found, info) else {}
        return Want(wanted, told, worth=worth) if wanted else None
    right, out = info.operands[-1], found.outputs[0]
    if not isinstance(right, int) or _rank(found, right) < 2 or _rank(found, out) < 2:
        return None
    last = {k: _rank(found, k) - 1 for k in (right, out)}
    return Want({}, told, last=last, worth=worth)


#: Output channels of a group over which a loop is worth its while.
WIDE = 8


def _narrow(found: Recovered, info: OpInfo) -> bool:
    """Whether an operator has groups of few channels, and not one group for each."""
    groups = info.attrs.get("groups", 1)
    before = _channels(found, info, info.operands[0])
    after = _channels(found, info, found.outputs[0])
    if groups == 1 or groups == before == after:
        return False
    return not isinstance(groups, int) or after is None or after // groups < WIDE


def _channels(found: Recovered, info: OpInfo, k: object) -> int | None:
    if not isinstance(k, int) or "C" not in info.layouts[k]:
        return None
    param = found.params[k]
    assert isinstance(param, TensorVar)
    return param.shape[info.layouts[k].index("C")].const


def _laid(found: Recovered, info: OpInfo) -> bool:
    """Whether some parameter has a layout to choose."""
    return any(isinstance(k, int) and k < len(info.layouts) and info.layouts[k]
               for k in (*info.operands, *found.outputs))  # fmt: skip


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
    assert isinstance(param, TensorVar)
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
    assert isinstance(param, TensorVar)
    return len(param.shape)
