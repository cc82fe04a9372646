"""An interpreter for kernels: all threads execute a statement before the next one.

It is independent of the library, the oracle of kernels that no compiler of this machine can run.
Values have an entry for each thread of the grid. Every access of a thread that is active is checked
against the buffer's bounds. Floating-point numbers are computed in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.support.tvm_compat import TENSOR_LOAD, source_of

from .interpret import Undefined

Array = npt.NDArray[Any]
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "LT": np.less, "LE": np.less_equal,
    "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
    "Min": np.minimum, "Max": np.maximum,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "LShift": np.left_shift, "RShift": np.right_shift,
}  # fmt: skip
_CALLS: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "cos": np.cos, "sin": np.sin,
    "pow": np.power, "sqrt": np.sqrt, "tanh": np.tanh, "fabs": np.abs,
    "tvm_thread_invariant": lambda x: x, "likely": lambda x: x,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right": np.right_shift,
}  # fmt: skip


def execute(func: Any, args: list[Any]) -> list[Array]:
    """Return the buffers of a PrimFunc after its execution, in the order of its parameters.

    Args:
        func: The PrimFunc; all loops over threads are in one kernel.
        args: An array for each buffer, which is not changed, and a number for each scalar.

    Raises:
        Undefined: An active thread accesses an element outside a buffer.
    """
    run = _Lockstep()
    buffers = run.bind(func, args)
    with np.errstate(all="ignore"):
        run.launch(func.body)
        run.statement(func.body, np.ones(run.count, bool))
    return buffers


class _Lockstep:
    def __init__(self) -> None:
        self.env: dict[Any, Any] = {}
        self.memory: dict[Any, tuple[Array, tuple[Array, ...]]] = {}  # with indices of the owners
        self.extents: dict[str, int] = {}
        self.threads: dict[str, Array] = {}
        self.count = 1

    def bind(self, func: Any, args: list[Any]) -> list[Array]:
        """Bind the parameters and the sizes in their shapes."""
        buffers: list[Array] = []
        sums: list[tuple[Any, int]] = []
        for param, arg in zip(func.params, args, strict=True):
            if not is_buffer_var(param):
                self.env[param] = np.asarray(arg)
                continue
            data = np.array(arg, np.float64 if "float" in str(arg.dtype) else arg.dtype)
            buffers.append(data)
            self.memory[param] = data, ()
            sums += zip(param.ty.shape, data.shape, strict=True)
        for extent, size in sums:
            if type(extent).__name__ == "Var":
                self.env.setdefault(extent, np.asarray(size))
        for extent, size in sums:
            if (value := int(self.value(extent, np.ones(1, bool)))) != size:
                raise ValueError(f"a dimension is {size} instead of {value}")
        return buffers

    def launch(self, body: Any) -> None:
        """Number the threads of the grid, which are the entries of each value."""
        one = np.ones(1, bool)
        for tag, extent in _launches(body):
            self.extents[tag] = int(self.value(extent, one))
        shape = tuple(self.extents.values())
        grid = np.indices(shape).reshape(len(shape), -1) if shape else np.zeros((0, 1))
        self.threads = dict(zip(self.extents, grid, strict=True))
        self.count = grid.shape[1]

    # ------------------------------------------------------------------ statements

    def statement(self, s: Any, active: Array) -> None:
        getattr(self, type(s).__name__)(s, active)

    def SeqStmt(self, s: Any, active: Array) -> None:
        for part in s.seq:
            self.statement(part, active)

    def For(self, s: Any, active: Array) -> None:
        if s.thread_binding is not None:
            self.env[s.loop_var] = self.threads[str(s.thread_binding.thread_tag)]
            self.statement(s.body, active)
            return
        start, extent = self.value(s.min, active), self.value(s.extent, active)
        step = 1 if s.step is None else self.value(s.step, active)
        times = np.broadcast_to(-(-extent // step), active.shape)
        for k in range(int(times[active].max(initial=0))):
            self.env[s.loop_var] = start + k * step
            self.statement(s.body, active & (times > k))

    def While(self, s: Any, active: Array) -> None:
        while (active := active & self.value(s.condition, active)).any():
            self.statement(s.body, active)

    def SBlockRealize(self, s: Any, active: Array) -> None:
        block = s.block
        first = np.ones(active.shape, bool)
        for iv, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.env[iv.var] = self.value(value, active)
            if int(iv.iter_type) == 2:
                first &= self.env[iv.var] == self.value(iv.dom.min, active)
        for buffer in block.alloc_buffers:
            self.allocate(buffer)
        active = active & self.value(s.predicate, active)
        if block.init is not None:
            self.statement(block.init, active & first)
        self.statement(block.body, active)

    def BufferStore(self, s: Any, active: Array) -> None:
        data, place = self.element(s.buffer, s.indices, active)
        value = np.broadcast_to(self.value(s.value, active), active.shape)
        data[tuple(i[active] for i in place)] = value[active]

    def IfThenElse(self, s: Any, active: Array) -> None:
        condition = self.value(s.condition, active)
        self.statement(s.then_case, active & condition)
        if s.else_case is not None:
            self.statement(s.else_case, active & ~condition)

    def AllocBuffer(self, s: Any, active: Array) -> None:
        self.allocate(s.buffer)

    def Bind(self, s: Any, active: Array) -> None:
        self.env[s.var] = self.value(s.value, active)

    def AttrStmt(self, s: Any, active: Array) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread"):
            self.env[s.node.var] = self.threads[str(s.node.thread_tag)]
        self.statement(s.body, active)

    def AssertStmt(self, s: Any, active: Array) -> None:
        if not np.all(self.value(s.condition, active) | ~active):
            raise Undefined(str(s.message))

    def Evaluate(self, s: Any, active: Array) -> None:
        name = str(getattr(getattr(s.value, "op", None), "name", ""))
        if name == "tirx.tvm_thread_allreduce":
            self.all_reduce(s.value.args, active)

    def all_reduce(self, args: Any, active: Array) -> None:
        """The sum over threads, as these kernels have it."""
        _, source, _, target, *over = args
        tags = list(self.extents)
        axes = tuple(tags.index(self.tag(v)) for v in over)
        shape = tuple(self.extents.values())
        value = np.where(active, self.value(source, active), 0).reshape(shape)
        total = np.broadcast_to(value.sum(axes, keepdims=True), shape).reshape(-1)
        data, place = self.element(source_of(target), target.indices, active)
        data[tuple(i[active] for i in place)] = total[active]

    def tag(self, var: Any) -> str:
        return next(t for t, v in self.threads.items() if v is self.env[var])

    def allocate(self, buffer: Any) -> None:
        """Memory for each thread, each block, or all of them."""
        scope = str(buffer.ty.storage_scope) if hasattr(buffer.ty, "storage_scope") else ""
        scope = scope or str(buffer.scope())
        owners = "blockIdx" if scope.startswith("shared") else "" if scope != "global" else None
        tags = [t for t in self.extents if owners is not None and t.startswith(owners)]
        one = np.ones(1, bool)
        shape = [self.extents[t] for t in tags] + [int(self.value(e, one)) for e in buffer.ty.shape]
        dtype = str(buffer.ty.dtype)
        data = np.full(shape, np.nan) if "float" in dtype else np.zeros(shape, dtype)
        self.memory[buffer] = data, tuple(self.threads[t] for t in tags)

    def element(self, buffer: Any, indices: Any, active: Array) -> tuple[Array, list[Array]]:
        """The memory of a buffer, and the place of each thread's element in it."""
        data, place = self.memory[buffer]
        owners = len(place)
        index = [np.broadcast_to(self.value(i, active), active.shape) for i in indices]
        for i, extent in zip(index, data.shape[owners:], strict=True):
            if (active & ((i < 0) | (i >= extent))).any():
                raise Undefined(f"access outside {buffer}")
        inside = [np.clip(i, 0, e - 1) for i, e in zip(index, data.shape[owners:], strict=True)]
        return data, [*place, *inside]

    # ------------------------------------------------------------------ expressions

    def value(self, e: Any, active: Array) -> Any:
        kind = type(e).__name__
        if kind in ("IntImm", "FloatImm"):
            dtype = str(e.ty.dtype)
            return np.asarray(e.value, np.float64 if "float" in dtype else dtype)
        if kind == "Var":
            return self.env[e]
        if kind == TENSOR_LOAD:
            data, place = self.element(source_of(e), e.indices, active)
            return data[tuple(place)]
        if kind in _BINARY:
            return _BINARY[kind](self.value(e.a, active), self.value(e.b, active))
        if kind in ("And", "Or"):
            first = self.value(e.a, active)
            more = active & (first if kind == "And" else ~first)  # where the second one is needed
            second = self.value(e.b, more)
            return first & second if kind == "And" else first | second
        if kind in ("FloorDiv", "FloorMod", "Div"):
            return self.divided(e, active)
        if kind == "Not":
            return ~self.value(e.a, active)
        if kind == "Cast":
            value, dtype = self.value(e.value, active), str(e.ty.dtype)
            return np.asarray(value).astype(np.float64 if "float" in dtype else dtype)
        if kind == "Select":
            return self.choice(e.condition, e.true_value, e.false_value, active)
        if kind == "Let":
            self.env[e.var] = self.value(e.value, active)
            return self.value(e.body, active)
        assert kind == "Call", f"the interpreter has no {kind}"
        name = str(e.op.name).split(".")[-1]
        if name == "if_then_else":
            condition, yes, no = e.args
            return self.choice(condition, yes, no, active)
        return _CALLS[name](*(self.value(a, active) for a in e.args))

    def divided(self, e: Any, active: Array) -> Any:
        a, b = self.value(e.a, active), self.value(e.b, active)
        if type(e).__name__ == "Div":
            return a / b
        if np.any(active & (b == 0)):
            raise Undefined("a division by 0")
        return (np.floor_divide if type(e).__name__ == "FloorDiv" else np.mod)(a, np.where(b, b, 1))

    def choice(self, condition: Any, yes: Any, no: Any, active: Array) -> Any:
        chosen = self.value(condition, active)
        return np.where(chosen, self.value(yes, active & chosen), self.value(no, active & ~chosen))


def _launches(stmt: Any) -> Iterator[tuple[str, Any]]:
    """The tag and extent of each loop that is bound to a thread."""
    todo = [stmt]
    while todo:
        node = todo.pop(0)
        kind = type(node).__name__
        if kind == "For" and node.thread_binding is not None:
            yield str(node.thread_binding.thread_tag), node.extent
        if kind == "AttrStmt" and node.attr_key == "thread_extent":
            yield str(node.node.thread_tag), node.value
        if kind == "SeqStmt":
            todo += list(node.seq)
        elif kind == "SBlockRealize":
            todo += [p for p in (node.block.init, node.block.body) if p is not None]
        elif kind == "IfThenElse":
            todo += [p for p in (node.then_case, node.else_case) if p is not None]
        elif hasattr(node, "body"):
            todo.append(node.body)
