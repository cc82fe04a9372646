"""Whether exponentials below 2^-126 may be 0 in a kernel whose results are halves.

    T.exp(x - m) / s                 m a maximum, s a sum: it may
    T.exp(x) / T.exp(y)              0 / 0 for x = y = -90, where 1 is expected: it may not
    T.exp(x) * T.exp(y)              0 for x = -88, y = 88: it may not

A function that is steep near 0 may not follow either, such as a logarithm or a comparison.
Exponentials and sigmoids of float16 are rounded to it at once, and so are not meant. That factors
apart from exponentials are below 2^100, and that a maximum is that of the same row, is not proved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.tir import loads, mentions
from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.call_ops import op_name

#: Functions whose results are far from 0 for arguments that are nearly 0.
STEEP = ("log", "log2", "log10", "log1p", "pow", "sqrt", "rsqrt", "ceil", "atan2")
COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
#: Functions with tiny results, and those of them that may be huge.
TINY, HUGE = ("exp", "exp2", "exp10", "sigmoid"), ("exp", "exp2", "exp10")


def may_be_0(body: Any) -> bool:
    """Return whether no result of a kernel depends on how tiny an exponential is.

    Args:
        body: The body of a PrimFunc, whose results are halves.
    """
    return _Kernel(body).may_be_0()


class _Kernel:
    """The values of a kernel: ``named`` are those of variables, ``stored`` those of buffers."""

    def __init__(self, body: Any) -> None:
        self.named: NodeDict[Any] = NodeDict()
        self.stored: list[tuple[Any, Any]] = []
        self.calls: list[Any] = []
        self.quotients: list[Any] = []
        self.products: list[Any] = []
        self.comparisons: list[Any] = []
        tvm_ffi.structural_walk(body, [
            (tirx.Bind, lambda b: self.named.__setitem__(b.var, b.value)),
            (tirx.BufferStore, lambda s: self.stored.append((s.buffer, s.value))),
            (tvm.ir.Call, self.calls.append), (tirx.Div, self.quotients.append),
            (tirx.Mul, self.products.append),
            *((kind, self.comparisons.append) for kind in COMPARISONS)])  # fmt: skip
        self.largest, self.sums = self.accumulated(tirx.Max), self.accumulated(tirx.Add)
        self.tiny, self.huge = self.depending(self.is_tiny), self.depending(self.is_huge)

    def may_be_0(self) -> bool:
        if any(_name(call) in STEEP for call in self.calls):
            return False
        if any(self.depends(e, self.is_tiny, self.tiny) for e in self.comparisons):
            return False
        if any(self.counts(a, b) for e in self.products for a, b in ((e.a, e.b), (e.b, e.a))):
            return False
        return all(self.divides(e.b) for e in self.quotients)

    def counts(self, factor: Any, other: Any) -> bool:
        """Whether a factor may be tiny, and the other one huge."""
        return self.depends(factor, self.is_tiny, self.tiny) and self.depends(
            other, self.is_huge, self.huge)  # fmt: skip

    def divides(self, divisor: Any) -> bool:
        """Whether a divisor is none of tiny exponentials."""
        divisor = self.value(divisor)
        if not self.depends(divisor, self.is_tiny, self.tiny):
            return True
        if isinstance(divisor, tirx.Add):  # 1 + exp(x)
            pairs = ((divisor.a, divisor.b), (divisor.b, divisor.a))
            return any(isinstance(a, tirx.FloatImm) and a.value >= 1 and self.is_tiny(self.value(b))
                       for a, b in pairs)  # fmt: skip
        total = isinstance(divisor, tvm.ir.TensorLoad) and divisor.source in self.sums
        return total and not self.depends(divisor, self.is_huge, self.huge)

    def is_tiny(self, e: Any) -> bool:
        return isinstance(e, tvm.ir.Call) and _name(e) in TINY and str(e.ty.dtype) != "float16"

    def is_huge(self, e: Any) -> bool:
        """Whether it is an exponential of what is not a difference from a maximum."""
        if not self.is_tiny(e) or _name(e) not in HUGE:
            return False
        x = self.value(items(e.args)[0])
        m = self.value(x.b) if isinstance(x, tirx.Sub) else None
        return not (isinstance(m, tvm.ir.TensorLoad) and m.source in self.largest)

    def value(self, expr: Any) -> Any:
        """What a variable names, before casts."""
        while True:
            known = self.named.get(expr) if isinstance(expr, tirx.Var) else None
            if known is None and not isinstance(expr, tirx.Cast):
                return expr
            expr = expr.value if known is None else known

    def accumulated(self, kind: Any) -> NodeDict[None]:
        """The buffers in which terms are combined one by one, and those that they are copied to."""
        out: NodeDict[None] = NodeDict()

        def is_such(buffer: Any, e: Any) -> bool:
            e = self.value(e)
            if isinstance(e, tvm.ir.TensorLoad):
                return e.source in out
            parts = (self.value(e.a), self.value(e.b)) if isinstance(e, kind) else ()
            return any(isinstance(p, tvm.ir.TensorLoad) and p.source.same_as(buffer) for p in parts)

        return self.grown(out, is_such)

    def depending(self, holds: Callable[[Any], bool]) -> NodeDict[None]:
        """The buffers whose values are computed from such expressions."""
        out: NodeDict[None] = NodeDict()
        return self.grown(out, lambda _, e: self.depends(e, holds, out))

    def grown(self, out: NodeDict[None], is_such: Callable[[Any, Any], bool]) -> NodeDict[None]:
        before = -1
        while before < len(out.items()):
            before = len(out.items())
            for buffer, value in self.stored:
                if buffer not in out and is_such(buffer, value):
                    out[buffer] = None
        return out

    def depends(self, expr: Any, holds: Callable[[Any], bool], among: NodeDict[None]) -> bool:
        """Whether an expression is computed from such expressions, or from these buffers."""
        parts, seen = [expr], NodeDict[None]()
        while parts:
            part = parts.pop()
            calls: list[Any] = []
            tvm_ffi.structural_walk(part, (tvm.ir.Call, calls.append))
            if any(map(holds, calls)) or any(e.source in among for e in loads(part)):
                return True
            for var, _ in mentions(part).items():
                if var in self.named and var not in seen:
                    seen[var] = None
                    parts.append(self.named[var])
        return False


def _name(call: Any) -> str:
    return str(op_name(call).rpartition(".")[2])
