"""Constraints: the layouts that operators must have, by the recovered operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...analysis.answer.recovered import Recovered
from ...analysis.recognise import recognisers
from ...analysis.results.op_info import OpInfo
from ...analysis.support.wording import did_you_mean
from ...analysis.terms.term import TensorVar
from ..alternatives.layout_constraint import LayoutConstraint
from ..model.digit import Digit
from ..model.layout import Layout
from ..model.string import parse
from .implementations import IMPLEMENTATIONS, NamedImplementation, iterations, named_implementation

Desired = Mapping[str, Sequence[str] | str]


@dataclass(frozen=True)
class LayoutRequest:
    """The layout strings for an operator, or a named implementation with its layout strings."""

    strings: tuple[str, ...]
    implementation: NamedImplementation | None = None


LayoutRequests = Mapping[str, LayoutRequest]


def check(desired: Desired | str) -> dict[str, LayoutRequest]:
    """The desired layouts by full operator name; a string names an implementation.

    Raises:
        TypeError: A layout is not a string.
        ValueError: An operator, layout or implementation is unknown.
    """
    if isinstance(desired, str):
        implementation = named_implementation(desired)
        return {
            op: LayoutRequest(strings, implementation)
            for op, strings in implementation.layouts.items()
        }
    out = {}
    for name, layouts in desired.items():
        op = full(name, "requested layouts")
        if isinstance(layouts, str) and layouts in IMPLEMENTATIONS:
            implementation = named_implementation(layouts)
            if op not in implementation.layouts:
                raise ValueError(f"requested layouts: {layouts} has no implementation of {op}")
            out[op] = LayoutRequest(implementation.layouts[op], implementation)
            continue
        if isinstance(layouts, str):
            layouts = [layouts]
        if not all(isinstance(x, str) for x in layouts):
            raise TypeError(f"layouts of {op}: expected strings, got {list(layouts)!r}")
        for text in layouts:
            parse(text)
        out[op] = LayoutRequest(tuple(layouts))
    return out


def full(name: str, argument: str) -> str:
    """The full name of an operator: ``relax.nn.conv2d`` for ``conv2d`` and ``nn.conv2d``.

    Raises ``ValueError`` for an unknown operator; the message names the argument.
    """
    from tvm.ir import Op

    recovered = {
        op for recogniser in recognisers() for op in recogniser.ops
    }  # relax.nn.relu6 is not in TVM's registry
    for full_name in (name, f"relax.{name}", f"relax.nn.{name}", f"relax.image.{name}"):
        if full_name in recovered or full_name in Op.list_op_names():
            return full_name
    known = {n.rpartition(".")[2] for n in (*recovered, *map(str, Op.list_op_names()))}
    near = did_you_mean(name.rpartition(".")[2], sorted(known), 3)
    raise ValueError(f"{argument}: unknown Relax operator {name!r}{near}")


def constraint_on(
    recovered: Recovered, desired: LayoutRequests, func: Any
) -> LayoutConstraint | None:
    """The constraint on a PrimFunc; None if there is none. Without strings it stays unchanged.

    Raises ``ValueError`` if the strings do not fit the operator's layouts.
    """
    info = recovered.info
    if recovered.operator is None or recovered.operator.name not in desired:
        return None
    request = desired[recovered.operator.name]
    if not isinstance(info, OpInfo):
        return _without_attributes(recovered, request)
    if request.implementation is not None:
        return _of_implementation(recovered, info, request, request.implementation, func)
    strings = request.strings
    if not strings:
        return _unchanged(recovered)
    if not _has_layout(recovered, info):
        raise ValueError(f"requested layouts: {info.name} has no layout attribute to choose")
    return LayoutConstraint(
        _param_layouts(recovered, info, strings), f"{info.name} is requested in {' '.join(strings)}"
    )


def _unchanged(recovered: Recovered) -> LayoutConstraint:
    """The constraint that leaves an operator unchanged."""
    tensors = [k for k, p in enumerate(recovered.params) if isinstance(p, TensorVar)]
    return LayoutConstraint(
        {k: Layout.identity(_rank(recovered, k)) for k in tensors}, "to stay as given"
    )


def _without_attributes(recovered: Recovered, request: LayoutRequest) -> LayoutConstraint | None:
    """The constraint on an operator whose attributes cannot express its buffers' layouts."""
    if request.implementation is not None:
        return None
    if not request.strings:
        return _unchanged(recovered)
    assert recovered.operator is not None
    raise ValueError(
        f"layouts {', '.join(request.strings)} of {recovered.operator.name}: a layout attribute "
        f"cannot express the PrimFunc's buffers: {recovered.info!r}"
    )


Offers = Sequence[Mapping[str, Sequence[str]]]
"""Layouts by full operator name that a backend can take."""


def offered(recovered: Recovered, offers: Offers) -> tuple[LayoutConstraint, ...]:
    """The offers for a PrimFunc; those that do not fit it are left out."""
    info = recovered.info
    if not isinstance(info, OpInfo) or not _has_layout(recovered, info):
        return ()
    out = []
    for strings in filter(None, (o.get(info.name) for o in offers)):
        with suppress(ValueError):
            out.append(
                LayoutConstraint(
                    _param_layouts(recovered, info, strings), f"offered {' '.join(strings)}"
                )
            )
    return tuple(out)


def _of_implementation(
    recovered: Recovered,
    info: OpInfo,
    request: LayoutRequest,
    implementation: NamedImplementation,
    func: Any,
) -> LayoutConstraint | None:
    """The constraint of a named implementation; None if it would not be faster."""
    if info.relaid or _narrow(recovered, info):
        return None
    saved_bytes = implementation.saved * iterations(func)
    why = f"{info.name} is faster as {implementation.name}"
    if request.strings:
        layouts = (
            _param_layouts(recovered, info, request.strings) if _has_layout(recovered, info) else {}
        )
        return LayoutConstraint(layouts, why, saved_bytes=saved_bytes) if layouts else None
    right, out = info.operands[-1], recovered.outputs[0]
    if not isinstance(right, int) or _rank(recovered, right) < 2 or _rank(recovered, out) < 2:
        return None
    last = {k: _rank(recovered, k) - 1 for k in (right, out)}
    return LayoutConstraint({}, why, last=last, saved_bytes=saved_bytes)


#: The least number of output channels of a group for which a loop over them pays.
WIDE = 8


def _narrow(recovered: Recovered, info: OpInfo) -> bool:
    """Whether an operator is grouped with few channels in each group, but not depthwise."""
    groups = info.attrs.get("groups", 1)
    before = _channels(recovered, info, info.operands[0])
    after = _channels(recovered, info, recovered.outputs[0])
    if groups == 1 or groups == before == after:
        return False
    return not isinstance(groups, int) or after is None or after // groups < WIDE


def _channels(recovered: Recovered, info: OpInfo, position: object) -> int | None:
    if not isinstance(position, int) or "C" not in info.layouts[position]:
        return None
    param = recovered.params[position]
    assert isinstance(param, TensorVar)
    return param.shape[info.layouts[position].index("C")].const


def _has_layout(recovered: Recovered, info: OpInfo) -> bool:
    """Whether some parameter has a layout to choose."""
    return any(isinstance(k, int) and k < len(info.layouts) and info.layouts[k]
               for k in (*info.operands, *recovered.outputs))  # fmt: skip


def _param_layouts(recovered: Recovered, info: OpInfo, strings: Sequence[str]) -> dict[int, Layout]:
    operands = [k for k in info.operands if isinstance(k, int) and info.layouts[k]]
    outputs = [k for k in recovered.outputs if info.layouts[k]]
    texts = dict(zip(operands, strings, strict=False))
    for k in outputs:
        texts[k] = strings[len(operands)] if len(strings) > len(operands) else strings[0]
    return {k: _layout(recovered, info, k, text) for k, text in texts.items()}


def _layout(recovered: Recovered, info: OpInfo, k: int, text: str) -> Layout:
    """The layout over the buffer's dimensions; an axis of extent 1 is not split."""
    current = info.layouts[k]
    letters = "".join(c for c in text if c.isupper())
    if sorted(letters) != sorted(current):
        raise ValueError(
            f"layout {text!r} of {info.name}: expected a permutation of the axes of {current!r}; "
            "an axis may be split, as in 'NCHW4c'"
        )
    param = recovered.params[k]
    assert isinstance(param, TensorVar)
    dims = []
    for axis, div, extent in parse(text, current):
        if param.shape[axis].const == 1:
            if extent is not None:
                continue
            div = 1
        dims.append((Digit(axis, div, extent),))
    return Layout(tuple(dims))


def _rank(recovered: Recovered, k: int) -> int:
    param = recovered.params[k]
    assert isinstance(param, TensorVar)
    return len(param.shape)
