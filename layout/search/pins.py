"""Pins: parameters that callers pass in another layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from ..graph.relax_graph import Graph, Value
from ..model.layout import Layout


class Pins:
    """The pinned layouts by parameter name, for functions that callers outside the module use."""

    def __init__(self, mod: Any, layouts: Mapping[str, str]) -> None:
        self.mod, self.layouts = mod, dict(layouts)
        self.used: set[str] = set()

    def of(self, gvar: Any, graph: Graph) -> dict[Value, Layout]:
        """The pins of a function's parameters. Raises ``ValueError`` if one is impossible."""
        pinned = [v for v in graph.values if v.parameter and v.name in self.layouts]
        func = self.mod[gvar]
        if not pinned or not (func.attrs or {}).get("global_symbol"):
            return {}
        if self._called(gvar):
            raise ValueError(f"pins: {gvar.name_hint} cannot be pinned: the module itself calls it")
        if any(map(graph.may_change, pinned)):
            raise ValueError(f"pins: {gvar.name_hint} cannot be pinned: it has impure calls")
        out = {v: self._layout(v) for v in pinned}
        lost = _symbols(e for v in graph.values if v.parameter for e in v.shape) - _bound(
            graph, out
        )
        if lost:
            raise ValueError(
                f"pins: with these layouts, no parameter has the extent {', '.join(sorted(lost))}"
            )
        self.used |= {v.name for v in pinned}
        return out

    def _layout(self, value: Value) -> Layout:
        layout = Layout.parse(self.layouts[value.name])
        if layout.rank != value.rank:
            raise ValueError(
                f"pins[{value.name!r}]: {self.layouts[value.name]} has rank {layout.rank}, "
                f"expected the parameter's rank {value.rank}"
            )
        return layout

    def _called(self, gvar: Any) -> bool:
        names: list[str] = []
        for _, func in self.mod.functions_items():
            tvm_ffi.structural_walk(func, (ir.GlobalVar, lambda g: names.append(g.name_hint)))
        return gvar.name_hint in names

    def check(self) -> None:
        """Raises ``ValueError`` for names that are not parameters."""
        unknown = sorted(set(self.layouts) - self.used)
        if unknown:
            raise ValueError(f"pins: no parameter is named {', '.join(map(repr, unknown))}")


def _symbols(extents: Any) -> set[str]:
    """The variables among the extents."""
    return {e.name for e in extents if isinstance(e, (tirx.Var, relax.Var))}


def _bound(graph: Graph, pins: Mapping[Value, Layout]) -> set[str]:
    shapes = (pins[v].physical(v.shape) if v in pins else v.shape
              for v in graph.values if v.parameter)  # fmt: skip
    return _symbols(e for shape in shapes for e in shape)
