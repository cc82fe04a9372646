"""Parameters and buffers of a symbolically executed PrimFunc, and views of them."""

from __future__ import annotations

from typing import Any

from tvm.tirx.buffer import is_buffer_var

from ..support.ir.call_ops import op_name
from ..support.tvm_compat import source_of
from ..terms.term import ZERO, Int, Load, TensorVar, Term, Var
from .effects.effects import Effects
from .parallel.concurrent import Iterations
from .parallel.threads import KernelLaunch
from .size_scope import SizeScope
from .tir.annotations import check_layout
from .tir.facts import simplify_index
from .tir.node import NodeDict, items, lanes_of
from .tir.unliftable import Unliftable
from .views import Index, View, contiguous, flat, injective, region, row_major, whole_view


class Parameters(SizeScope):
    """The scope: values of variables, tensors of buffers, and the effects so far."""

    def __init__(self) -> None:
        super().__init__()
        self.values = NodeDict[TensorVar | Var]()
        self.frames.append(Effects())
        self.inputs: set[TensorVar] = set()
        self.scopes: dict[TensorVar, str] = {}
        self.views = NodeDict[View]()
        self.kernel: KernelLaunch | None = None
        self.concurrent: list[Iterations] = []  # enclosing loops with concurrent iterations
        self.running: list[Var] = []  # the variables of the enclosing loops
        self.facts: list[Term] = []  # enclosing conditions, over loops and sizes
        #: Not in row-major order from the start of their memory.
        self.strided: set[TensorVar] = set()
        self.aliased: set[TensorVar] = set()  # two elements may have the same address

    @property
    def effects(self) -> Effects:
        """The effects so far of the innermost frame."""
        return self.frames[-1]

    def read(self, buffer: Any, index: tuple[Int, ...]) -> Term:
        """Return the present element of a buffer."""
        tensor, index = self.locate(buffer, index)
        if self.kernel is not None:
            self.kernel.read(tensor, index, self.running)
        for loop in self.concurrent:
            loop.read(tensor, index, (*self.facts, *self.reader.conditions), self.frames)
        return self.effects.read(tensor, index)

    def locate(self, buffer: Any, index: Index) -> tuple[TensorVar, Index]:
        """Return the tensor, and the index in it, of an element of a buffer."""
        view = self.views.get(buffer)
        if view is None:
            tensor = self.tensor(buffer)
            shape = tensor.shape
        else:
            tensor, shape = view.tensor, view.shape
        if len(index) != len(shape):
            raise Unliftable("an access has another rank than its buffer", tensor.name)
        if view is not None:
            index = view.place(index)
        if view is not None or self.kernel is not None:
            index = simplify_index([*self.facts, *self.reader.conditions], index)
        if self.kernel is not None and tensor not in self.inputs:
            scope = self.scopes[tensor]
            if scope not in ("", "global"):
                tensor = self.kernel.private(tensor, scope)
                self.scopes[tensor] = scope
                index = (*self.kernel.prefix[tensor], *index)
        return tensor, index

    def bind_param(self, param: Any, position: int, existing: TensorVar | Var | None) -> None:
        if is_buffer_var(param):
            if isinstance(existing, Var):
                raise Unliftable("expected a scalar, got a buffer", param.name)
            self.inputs.add(self.bind_buffer(param, existing, position))
            return
        if param in self.determined:
            if isinstance(existing, Var):
                self.determined[param] = existing
            self.values[param] = self.determined[param]
            return
        value = self.env.get(param)
        if isinstance(value, Load):
            self.values[param] = value.tensor
            self.inputs.add(value.tensor)
            return
        atom = value.atom if isinstance(value, Int) else None
        if not isinstance(atom, Var):
            raise Unliftable("a scalar parameter is not a number of its own", param.name)
        if isinstance(existing, Var) and existing is not atom:
            raise Unliftable("a scalar parameter differs from the expected one", param.name)
        self.values[param] = atom

    def bind_buffer(
        self, buffer: Any, existing: TensorVar | None = None, position: int = -1
    ) -> TensorVar:
        """Create the tensor of a buffer, or bind its symbolic shape to an existing tensor's."""
        ty = buffer.ty
        offset = ty.elem_offset
        free_offset = position >= 0 and self.any_offset(offset)
        if not (free_offset or self.reader.index(offset) is ZERO):
            raise Unliftable("a buffer with an element offset is not supported", buffer.name)
        check_layout(ty, buffer.name)
        dtype = str(ty.dtype)
        if lanes_of(dtype) != 1:
            raise Unliftable("a buffer of vectors is not supported", buffer.name)
        shape = [self.reader.index(e) for e in items(ty.shape)]
        if existing is not None and (tuple(shape) != existing.shape or dtype != existing.dtype):
            got = TensorVar(buffer.name, tuple(shape), dtype)
            raise Unliftable(
                "a parameter has a different shape or dtype than expected",
                f"{got!r} instead of {existing.dtype}[{', '.join(map(repr, existing.shape))}]",
            )
        tensor = existing or TensorVar(buffer.name, tuple(shape), dtype, position)
        self.scopes[tensor] = str(ty.storage_scope)
        self.values[buffer] = tensor
        if free_offset:
            self.strided.add(tensor)
        if len(ty.strides):
            self.bind_strides(buffer, tensor, position >= 0)
        return tensor

    def bind_strides(self, buffer: Any, tensor: TensorVar, parameter: bool) -> None:
        """Bind the strides of a buffer; unbound strides of a parameter are up to the caller."""
        if parameter and any(
            type(stride).__name__ == "Var" and stride not in self.env
            for stride in items(buffer.ty.strides)
        ):
            self.strided.add(tensor)
            self.aliased.add(tensor)
            return
        strides = tuple(self.reader.index(s) for s in items(buffer.ty.strides))
        if strides != row_major(tensor.shape):
            self.strided.add(tensor)
            if len(strides) != len(tensor.shape) or not injective(tensor.shape, strides):
                self.aliased.add(tensor)

    # ------------------------------------------------------------------ views

    def view(self, buffer: Any) -> View:
        """Return a buffer as a view of its tensor."""
        view = self.views.get(buffer)
        if view is not None:
            return view
        tensor = self.tensor(buffer)
        if tensor in self.strided:
            raise Unliftable("a view of a buffer with strides or an offset", buffer.name)
        return whole_view(tensor)

    def bind_view(self, buffer: Any, data: Any) -> None:
        """Bind ``b = decl_buffer(shape, data=data)``: other dimensions over the same memory."""
        source = data.args[0] if op_name(data) == "tirx.buffer_data" else data
        base = self.view(source) if is_buffer_var(source) else None
        if base is None or source in self.views:
            raise Unliftable("a buffer aliases a part of another buffer", buffer.name)
        _check_dtype(buffer, base)
        shape, strides = (
            tuple(map(self.reader.index, dims))
            for dims in (items(buffer.ty.shape), items(buffer.ty.strides))
        )
        self.views[buffer] = flat(base, shape, strides, self.reader.index(buffer.ty.elem_offset))

    def match_buffer(self, buffer: Any, source: Any) -> None:
        """Bind ``b = match_buffer(source[region])``; its unbound variables are the region's."""
        base = self.view(source_of(source))
        _check_dtype(buffer, base)
        mins = tuple(self.reader.index(r.min) for r in items(source.region))
        extents = tuple(self.reader.index(r.extent) for r in items(source.region))
        view = region(base, mins, extents, len(buffer.ty.shape))
        if isinstance(view, str):
            raise Unliftable(view, buffer.name)
        gapless = base.strides == row_major(base.shape) and contiguous(extents, base.shape)
        equal = [
            *zip(items(buffer.ty.shape), view.shape, strict=True),
            (buffer.ty.elem_offset, view.start),
        ]
        if len(buffer.ty.strides):
            equal += zip(items(buffer.ty.strides), view.strides, strict=True)
        elif not gapless:
            raise Unliftable("a matched buffer has no strides and its region has gaps", buffer.name)
        for expression, value in equal:
            if type(expression).__name__ == "Var" and expression not in self.env:
                self.env[expression] = value
            elif self.reader.index(expression) is not value:
                raise Unliftable("a matched buffer is not its region", buffer.name)
        self.views[buffer] = view

    def any_offset(self, offset: Any) -> bool:
        """Whether a parameter's offset is a variable that only the caller's buffer binds.

        An access through the buffer adds the offset implicitly; any other use of it is refused.
        """
        return type(offset).__name__ == "Var" and offset not in self.env

    def tensor(self, buffer: Any) -> TensorVar:
        tensor = self.values.get(buffer)
        if not isinstance(tensor, TensorVar):
            raise Unliftable("a buffer is not allocated in the function", buffer.name)
        return tensor


def _check_dtype(buffer: Any, base: View) -> None:
    if str(buffer.ty.dtype) != base.tensor.dtype:
        raise Unliftable(
            "a buffer reinterprets the bytes of a buffer with another dtype", buffer.name
        )
