"""An interpreter for TIR, independent of the library: the oracle of the mutation tests.

A PrimFunc is written out as a Python function with plain loops over numpy arrays. Every access is
checked against the buffer's bounds, and reading an element that was never written raises too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.support.tvm_compat import TENSOR_LOAD, source_of

Array = npt.NDArray[Any]


class Undefined(Exception):
    """The program reads or writes outside a buffer, or reads an element that was never written."""


BINARY = {
    "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "LT": "<", "LE": "<=",
    "GT": ">", "GE": ">=", "EQ": "==", "NE": "!=", "And": "and", "Or": "or", "BitwiseAnd": "&",
    "BitwiseOr": "|", "BitwiseXor": "^", "LShift": "<<", "RShift": ">>",
}  # fmt: skip
CALLS = {
    "cos": np.cos, "sin": np.sin,
    "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "fabs": abs, "floor": np.floor,
    "ceil": np.ceil, "log": np.log, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x), "pow": lambda a, b: float(np.power(float(a), b)),
    "round": np.round,
    "erf": lambda x: __import__("math").erf(x), "nearbyint": np.rint, "trunc": np.trunc,
}  # fmt: skip


def interpret(func: Any, inputs: list[Array], sizes: dict[str, int] | None = None) -> list[Array]:
    """The output buffers: the trailing parameters after ``inputs``.

    Floating-point outputs are computed in double precision. Raises `Undefined`.
    """
    return compiled(func)(inputs, sizes)


def compiled(func: Any) -> Callable[..., list[Array]]:
    """`interpret` for one PrimFunc, to be called with several inputs."""
    writer = _Writer()
    source = writer.function(func)
    scope: dict[str, Any] = {"np": np, "CALLS": CALLS, "Undefined": Undefined, "alloc": alloc}
    scope.update(load=load, store=store, divide=divide, cast=cast)
    exec(compile(source, "<tir>", "exec"), scope)

    def run(inputs: list[Array], sizes: dict[str, int] | None = None) -> list[Array]:
        outputs: list[Array] = []
        scope["run"](*inputs, outputs=outputs, sizes=sizes or {})
        return outputs

    return run


def alloc(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    kind: Any = np.float64 if "float" in dtype else np.dtype(dtype)
    return np.zeros(shape, kind), np.zeros(shape, bool)


def load(buffer: tuple[Array, Array], *index: int) -> Any:
    values, written = buffer
    if any(i < 0 or i >= e for i, e in zip(index, values.shape, strict=True)):
        raise Undefined("read outside a buffer")
    if not written[index]:
        raise Undefined("read of an element that was not written")
    return values[index].item()


def store(buffer: tuple[Array, Array], value: Any, *index: int) -> None:
    values, written = buffer
    if any(i < 0 or i >= e for i, e in zip(index, values.shape, strict=True)):
        raise Undefined("write outside a buffer")
    values[index] = value
    written[index] = True


def divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return int(a / b)
    return a / b if b else np.float64(a) / np.float64(b)


def cast(value: Any, dtype: str) -> Any:
    if "float" in dtype:
        return float(value)
    return bool(value) if dtype == "bool" else int(np.array(int(value)).astype(dtype))


class _Writer:
    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[str] = []

    def name(self, v: Any) -> str:
        return self.names.setdefault(v, f"v{len(self.names)}")

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def function(self, func: Any) -> str:
        self.line(0, "def run(*given, outputs, sizes):")
        buffers = [p for p in func.params if is_buffer_var(p)]
        for p in func.params:
            if not is_buffer_var(p):
                self.line(1, f"{self.name(p)} = sizes[{p.name!r}]")
        for p in buffers:
            for e in p.ty.shape:
                if type(e).__name__ == "Var" and e not in self.names:
                    self.line(1, f"{self.name(e)} = sizes[{e.name!r}]")
        self.line(1, "given = list(given)")
        for p in buffers:
            shape, n = self.shape(p), self.name(p)
            self.line(1, f"if given: {n} = given.pop(0); {n} = ({n}, np.ones({n}.shape, bool))")
            self.line(1, f"else: {n} = alloc({shape}, {str(p.ty.dtype)!r}); outputs.append({n}[0])")
        self.statement(func.body, 1)
        return "\n".join(self.lines)

    def shape(self, buffer: Any) -> str:
        return f"({''.join(self.expr(e) + ', ' for e in buffer.ty.shape)})"

    # ------------------------------------------------------------------ statements

    def statement(self, s: Any, depth: int) -> None:
        getattr(self, type(s).__name__)(s, depth)

    def SeqStmt(self, s: Any, depth: int) -> None:
        for part in s.seq:
            self.statement(part, depth)

    def For(self, s: Any, depth: int) -> None:
        start, extent = self.expr(s.min), self.expr(s.extent)
        step = "1" if s.step is None else self.expr(s.step)
        span = f"range({start}, {start} + {extent}, {step})"
        self.line(depth, f"for {self.name(s.loop_var)} in {span}:")
        self.statement(s.body, depth + 1)

    def While(self, s: Any, depth: int) -> None:
        self.line(depth, f"while {self.expr(s.condition)}:")
        self.statement(s.body, depth + 1)

    def SBlockRealize(self, s: Any, depth: int) -> None:
        block = s.block
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.line(depth, f"{self.name(iv.var)} = {self.expr(value)}")
        for b in block.alloc_buffers:
            self.line(depth, f"{self.name(b)} = alloc({self.shape(b)}, {str(b.ty.dtype)!r})")
        self.line(depth, f"if {self.expr(s.predicate)}:")
        if block.init is not None:
            first = [
                f"{self.name(iv.var)} == {self.expr(iv.dom.min)}"
                for iv in block.iter_vars
                if int(iv.iter_type) == 2
            ]
            self.line(depth + 1, f"if {' and '.join(first) or 'True'}:")
            self.statement(block.init, depth + 2)
        self.statement(block.body, depth + 1)

    def BufferStore(self, s: Any, depth: int) -> None:
        index = "".join(", " + self.expr(i) for i in s.indices)
        self.line(depth, f"store({self.name(s.buffer)}, {self.expr(s.value)}{index})")

    def IfThenElse(self, s: Any, depth: int) -> None:
        self.line(depth, f"if {self.expr(s.condition)}:")
        self.statement(s.then_case, depth + 1)
        if s.else_case is not None:
            self.line(depth, "else:")
            self.statement(s.else_case, depth + 1)

    def AllocBuffer(self, s: Any, depth: int) -> None:
        b = s.buffer
        self.line(depth, f"{self.name(b)} = alloc({self.shape(b)}, {str(b.ty.dtype)!r})")

    def Bind(self, s: Any, depth: int) -> None:
        self.line(depth, f"{self.name(s.var)} = {self.expr(s.value)}")

    def AttrStmt(self, s: Any, depth: int) -> None:
        self.statement(s.body, depth)

    def Evaluate(self, s: Any, depth: int) -> None:
        self.line(depth, "pass")

    # ------------------------------------------------------------------ expressions

    def expr(self, e: Any) -> str:
        kind = type(e).__name__
        if kind in ("IntImm", "FloatImm"):
            value = e.value if kind == "FloatImm" else int(e.value)
            return f"({value!r})" if np.isfinite(value) else f"float('{value}')"
        if kind == "Var":
            return self.name(e)
        if kind == TENSOR_LOAD:
            return (
                f"load({self.name(source_of(e))}{''.join(', ' + self.expr(i) for i in e.indices)})"
            )
        if kind in BINARY:
            return f"({self.expr(e.a)} {BINARY[kind]} {self.expr(e.b)})"
        if kind in ("Min", "Max"):
            return f"{kind.lower()}({self.expr(e.a)}, {self.expr(e.b)})"
        if kind == "Div":
            return f"divide({self.expr(e.a)}, {self.expr(e.b)})"
        if kind == "Not":
            return f"(not {self.expr(e.a)})"
        if kind == "Cast":
            return f"cast({self.expr(e.value)}, {str(e.ty.dtype)!r})"
        if kind == "Select":
            return self.choice(e.condition, e.true_value, e.false_value)
        if kind == "Let":
            return f"(lambda {self.name(e.var)}: {self.expr(e.body)})({self.expr(e.value)})"
        assert kind == "Call", f"the interpreter has no {kind}"
        name = str(e.op.name).split(".")[-1]
        if name == "if_then_else":
            return self.choice(*e.args)
        return f"CALLS[{name!r}]({', '.join(self.expr(a) for a in e.args)})"

    def choice(self, condition: Any, yes: Any, no: Any) -> str:
        return f"({self.expr(yes)} if {self.expr(condition)} else {self.expr(no)})"
