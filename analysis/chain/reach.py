"""What a statement may read and write, whether or not it is understood.

A buffer is followed to the memory that it names, through ``decl_buffer`` and ``match_buffer``. The
stores that a statement names are all that it does only if it is made of what is listed here: no
pointers, no calls with effects, no jump to outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.buffer import is_buffer_var

from ..lifting.from_tir import Unliftable
from ..lifting.hints import NEUTRAL
from ..lifting.node import NodeDict, items
from ..lifting.parameters import Parameters
from ..terms.term import Tensor


class Reach:
    """The memory that a statement names; ``around`` has the buffers outside it."""

    def __init__(self, s: Any, around: Parameters) -> None:
        self.s, self._around = s, around
        self._base = NodeDict[Any]()  # what a buffer is declared over; None if it is allocated here
        for node in _inside(s, (tirx.DeclBuffer, tirx.AllocBuffer, s_tir.SBlock)):
            kind = type(node).__name__
            if kind == "DeclBuffer":
                self._base[node.buffer] = node.data
                continue
            for b in [node.buffer] if kind == "AllocBuffer" else items(node.alloc_buffers):
                self._base[b] = None
            for m in () if kind == "AllocBuffer" else items(node.match_buffers):
                self._base[m.buffer] = m.source.source

    def loads(self) -> list[Tensor]:
        """The tensors outside that are read, in the order in which the statement names them.

        Raises :class:`Unliftable` for memory that is not known.
        """
        return self._memories(e.source for e in _inside(self.s, tvm.ir.TensorLoad))

    def stores(self) -> list[Tensor]:
        """The tensors outside that are written; raises as :meth:`loads` does."""
        return self._memories(e.buffer for e in _inside(self.s, tirx.BufferStore))

    def _memories(self, buffers: Iterable[Any]) -> list[Tensor]:
        found = dict.fromkeys(map(self._memory, buffers))
        return [t for t in found if t is not None]

    def _memory(self, b: Any) -> Tensor | None:
        """The tensor that a buffer is, or is over; None if the statement allocates it."""
        if b in self._base:
            base = self._base[b]
            return None if base is None else self._memory(pointed(base))
        view = self._around.views.get(b)
        return view.tensor if view is not None else self._around.tensor(b)


def _inside(s: Any, kinds: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(s, (kinds, found.append))
    return found


def pointed(data: Any) -> Any:
    """The buffer whose memory is pointed to; raises :class:`Unliftable` if that is not known."""
    op = getattr(data, "op", None)
    source = data.args[0] if str(getattr(op, "name", "")) == "tirx.buffer_data" else data
    if not is_buffer_var(source):
        raise Unliftable("a buffer over memory that is not a whole buffer's")
    return source


_BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "And", "Or",
           "LT", "LE", "GT", "GE", "EQ", "NE", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LShift",
           "RShift")  # fmt: skip
#: The parts of a statement, and of an expression, that may do something.
_PARTS: dict[str, tuple[str, ...]] = {
    "AllocBuffer": (),
    "AttrStmt": ("value", "body"),
    "Bind": ("value",),
    "BufferStore": ("indices", "value"),
    "DeclBuffer": (),
    "Evaluate": ("value",),
    "For": ("min", "extent", "step", "body"),
    "IfThenElse": ("condition", "then_case", "else_case"),
    "SBlock": ("init", "body"),
    "SBlockRealize": ("iter_values", "predicate", "block"),
    "SeqStmt": ("seq",),
    "While": ("condition", "body"),
    "BitwiseNot": ("a",),
    "Broadcast": ("value",),
    "Call": ("args",),
    "Cast": ("value",),
    "FloatImm": (),
    "IntImm": (),
    "Let": ("value", "body"),
    "Not": ("a",),
    "Ramp": ("base", "stride"),
    "Select": ("condition", "true_value", "false_value"),
    "Shuffle": ("vectors", "indices"),
    "TensorLoad": ("indices",),
    "Var": (),
    **dict.fromkeys(_BINARY, ("a", "b")),
}
_LOOPS = ("For", "While")
#: Jumps out of the innermost loop, or to its end.
_JUMPS = ("tirx.break_loop", "tirx.continue_loop")
#: Functions outside TIR, which can do nothing to a buffer that they have no pointer to.
_EXTERN = ("tirx.call_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked")
#: The greatest kind of effect that calls without one have: they read.
_READS = 2
_THREADS = ("thread_extent", "virtual_thread")


def only_stores(node: Any, looped: bool = False) -> bool:
    """Whether all that a statement does outside is the stores that it names.

    ``looped`` says that a loop of the statement is around.
    """
    kind = type(node).__name__
    if kind not in _PARTS or (isinstance(node, tvm.ir.Expr) and not is_number(node)):
        return False
    if kind == "Evaluate" and _jumps(node.value):
        return looped
    if not _RULES.get(kind, _always)(node):
        return False
    looped = looped or kind in _LOOPS
    parts = (getattr(node, name) for name in _PARTS[kind])
    each = (p for part in parts for p in (items(part) if _is_array(part) else [part]))
    return all(p is None or _is_text(p) or only_stores(p, looped) for p in each)


def is_number(e: Any) -> bool:
    """Whether an expression's type is one of numbers: no pointer, buffer or text."""
    return type(e.ty).__name__ == "PrimType"


def _always(node: Any) -> bool:
    return True


def _jumps(e: Any) -> bool:
    return str(getattr(getattr(e, "op", None), "name", "")) in _JUMPS


def _calls_purely(e: Any) -> bool:
    """Whether a call of numbers changes nothing; what it may not take is looked at elsewhere."""
    if not isinstance(e.op, tvm.ir.Op):
        return False
    effect = e.op.get_attr("TCallEffectKind")
    return (effect is not None and int(effect) <= _READS) or str(e.op.name) in _EXTERN


def _placed_freely(buffers: Iterable[Any]) -> bool:
    """Whether no buffer is at an address of its own, where another one may be."""
    return not any(len(b.ty.allocated_addr) for b in buffers)


def _is_array(part: Any) -> bool:
    return isinstance(part, tvm_ffi.Array)


def _is_text(a: Any) -> bool:
    return type(a).__name__ == "StringImm"


_RULES: dict[str, Callable[[Any], bool]] = {
    "AllocBuffer": lambda s: _placed_freely([s.buffer]),
    "AttrStmt": lambda s: s.attr_key in NEUTRAL["AttrStmt"] or s.attr_key in _THREADS,
    "Call": _calls_purely,
    "SBlock": lambda s: _placed_freely(items(s.alloc_buffers)),
}
