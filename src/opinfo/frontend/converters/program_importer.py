"""An importer of `torch.export` programs: TVM's, with computation in torch's dtypes, and checked.

TVM's importer has one method for each operator. Here each of them runs on operands in the dtype in
which torch computes, and its result is compared with the dtype and shape that the program declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import tvm
from torch import fx
from torch.utils import _pytree as pytree
from tvm import relax
from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

from ..onnx_graph.scalars import Rational
from . import complex_pairs, torch_recurrent
from .families import CONVERTERS
from .images import resizing
from .indexing import rows_at_indices
from .indexing.choices import checks, chosen
from .nodes import assertions
from .nodes.arguments import is_symbolic, number_result, without_axes
from .nodes.computation_types import compared, computed, operand_types
from .nodes.constants import constant, without_data
from .nodes.declared_types import as_declared, in_declared_shapes, reshaped, typed
from .nodes.without_converter import without_converter, without_operands
from .sizes.data_symbols import check_sizes, item_name, size_of_item, sized
from .sizes.derived_sizes import bind_derived, with_variables
from .sizes.equal_extents import equal_extents
from .sizes.program_sizes import expression, real
from .sizes.size_checks import emit_check
from .sizes.size_numbers import number_of_sizes

#: Operators that read a number from a tensor.
_ITEMS = ("item.default", "_local_scalar_dense.default")
#: Operators that a converter reads whole, so that `run_decompositions` leaves them alone; and of
#: which nodes it reads them.
WHOLE: Mapping[str, Callable[[fx.Node], bool]] = {
    **{name: resizing.is_whole(name) for name in resizing.CONVERTERS},
    **dict.fromkeys(torch_recurrent.CONVERTERS, torch_recurrent.is_whole),
    **dict.fromkeys(rows_at_indices.CONVERTERS, lambda node: True),
}


class ProgramImporter(ExportedProgramImporter):  # type: ignore[misc]
    """Imports one `torch.export.ExportedProgram`.

    Args:
        binds_parameters: Whether the parameters become constants.
        guards: Conditions of sympy on the sizes of the inputs, for which the program checks.

    Attributes:
        unchecked: The guards without a check.
        converted: The value of each node, with the node.
    """

    def __init__(self, binds_parameters: bool = True, guards: Sequence[Any] = ()) -> None:
        super().__init__()
        self._binds_parameters = binds_parameters
        self.converted: list[tuple[Any, fx.Node]] = []
        self.unchecked: list[Any] = []
        self._guards = list(guards)
        self._symbols: dict[str, Any] = {}
        self._types: dict[str, relax.TensorType] = {}
        self._constants: dict[str, torch.Tensor] = {}
        #: The tensors from which numbers are read, by the symbols of those.
        self.items: dict[str, Any] = {}
        #: The program's symbols in shapes, and those of them that are data.
        self.sized: set[str] = set()
        self.data_symbols: dict[str, Any] = {}
        #: Sizes that are computed with data and have a check.
        self.checked_sizes: set[Any] = set()
        #: Nodes that are computed for all elements instead of those that a mask chooses.
        self.chosen: set[fx.Node] = set()
        #: The assertions of the graph that is being imported.
        self.assertions: list[assertions.Assertion] = []
        own = {name: lambda node, f=convert: f(self, node) for name, convert in CONVERTERS.items()}
        #: The converters of nodes without complex numbers.
        self.of_real: dict[str, Any] = {**self.create_convert_map(), **own}
        self.convert_map: dict[str, Any] = {
            name: lambda node, f=convert: self._checked(f, node)
            for name, convert in self.of_real.items()
        }

    def _checked(self, convert: Any, node: fx.Node) -> Any:
        """Convert a node in torch's computation dtype; its result has the declared type."""
        declared = node.meta.get("val")
        if node.target.__name__ == "sym_size.int" and node.args[0] in self.chosen:
            return None  # only checks read it
        if is_symbolic(declared) and node.target.__name__ not in _ITEMS:
            try:
                return self._size(declared)
            except NotImplementedError:
                if all(map(checks, node.users)):
                    return None  # an assertion computes it from the tensor
                raise
        if complex_pairs.has_complex(node):
            result = complex_pairs.convert(self, node)
            self.converted.append((result, node))
            return result
        check_sizes(self, declared)
        if node.target.__name__ in _ITEMS:
            symbol = size_of_item(self, node, declared)
            if symbol is not None:
                return symbol
        known = without_data(self, node, declared)
        if known is not None:
            self.converted.append((known, node))
            return known
        with self._replaced(self._operands(node)):
            vectors = {a: reshaped(self, self.env[a], [1]) for a in without_axes(node)}
            with self._replaced(vectors):
                result = convert(node)
        if vectors:
            result = in_declared_shapes(self, result, declared)
        if node in self.chosen:  # of all elements, which is not the declared shape
            return typed(self, result, declared)
        if is_symbolic(declared):
            self.items[item_name(declared)] = result
        result = as_declared(self, result, declared)
        self.converted.append((result, node))
        return result

    @staticmethod
    def _convert_data_type(input_type: Any, env: Any = None) -> Any:
        try:
            return ExportedProgramImporter._convert_data_type(input_type, env)
        except NotImplementedError:
            raise NotImplementedError(f"it has numbers of {input_type}, which are not read; cast "
                                      "them to float16 or float32") from None  # fmt: skip

    @staticmethod
    def _convert_pytorch_tensor_to_tvm(tensor_value: torch.Tensor) -> Any:
        """Return a tensor in TVM; TVM's method takes numpy for views, which has no bfloat16.

        Parts of a file that are mapped into memory are not aligned as TVM's tensors are.
        """
        dense = tensor_value if tensor_value.layout == torch.strided else tensor_value.to_dense()
        dense = dense.detach()
        try:
            return tvm.runtime.from_dlpack(dense)
        except (RuntimeError, BufferError):
            own = torch.empty(dense.shape, dtype=dense.dtype).copy_(dense)
            return tvm.runtime.from_dlpack(own)

    def _check_unsupported_func_type(self, nodes: Any) -> None:
        """Refuse operators without a converter that need one; see `without_converter`."""
        convert = partial(without_operands, self)
        for name in without_converter(nodes, self.convert_map):
            self.convert_map[name] = lambda node: self._checked(convert, node)

    def _size(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return expression(value.node.expr, self._symbols)
        if isinstance(value, torch.SymBool):
            return None  # an assertion on sizes, which torch has checked or the ranges state
        try:
            return real(value.node.expr, self._symbols)
        except NotImplementedError:
            return number_of_sizes(self, value.node.expr, self._symbols)

    def _operands(self, node: fx.Node) -> dict[fx.Node, Any]:
        """Return the operands that a node needs in another dtype, or as tensors."""
        out = {
            arg: self._astype(self.env[arg], dtype) for arg, dtype in operand_types(node).items()
        }
        if torch.Tag.pointwise in getattr(node.target, "tags", ()):
            dtype = str(self._convert_data_type(compared(torch, node)))
            kinds = (torch.SymInt, torch.SymFloat)
            sizes = (a for a in node.all_input_nodes if isinstance(a.meta.get("val"), kinds))
            out |= {arg: self._number(self.env[arg], dtype) for arg in sizes}
        return out | equal_extents(self, node, out)

    @contextmanager
    def _replaced(self, values: Mapping[fx.Node, Any]) -> Iterator[None]:
        """Replace operands for one node."""
        before = {arg: self.env[arg] for arg in values}
        self.env.update(values)
        try:
            yield
        finally:
            self.env.update(before)

    def _astype(self, value: Any, dtype: Any) -> Any:
        return self.block_builder.emit(relax.op.astype(value, self._convert_data_type(dtype)))

    def computed(self, node: fx.Node) -> str:
        """Return the dtype in which a node's elementwise result is computed."""
        return str(self._convert_data_type(computed(torch, node.meta["val"].dtype)))

    def _sizes(self, node: fx.Node) -> list[Any]:
        """Return the declared shape of a node's value."""
        return self._shape(node.meta["val"])

    def _sizes_of(self, node: fx.Node, place: int) -> list[Any]:
        """Return the declared shape of one of a node's results."""
        return self._shape(node.meta["val"][place])

    def _shape(self, value: torch.Tensor) -> list[Any]:
        return [size if isinstance(size, int) else self._size(size) for size in value.shape]

    def _equal(self, left: Any, right: Any) -> bool:
        return bool(tvm.sym.Analyzer().can_prove_equal(left, right))

    def _number(self, size: Any, dtype: str) -> Any:
        """Return a size, or a number of sizes, as a tensor without axes."""
        if isinstance(size, Rational):
            top, bottom = self._number(size.top, dtype), relax.const(size.bottom, dtype)
            return self.block_builder.emit(relax.op.divide(top, bottom))
        if isinstance(size, (int, tvm.tirx.IntImm)):
            return relax.const(int(size), dtype)
        if isinstance(getattr(size, "ty", None), relax.TensorType):
            return self._astype(size, getattr(torch, dtype))
        return self._prim_value_to_scalar_tensor(size, dtype)

    def constant(self, node: fx.Node) -> torch.Tensor | None:
        """Return the value of a node that becomes a constant, or a copy of one; else None."""
        return constant(self._constants, node)

    def _reshape(self, node: fx.Node) -> Any:
        """Convert a view; TVM's method compares extents by ``==``, which fails for expressions.

        For -1, the program declares a size, where TVM has a quotient that it may not simplify.
        """
        x, *dims = self.retrieve_args(node)
        dims = list(dims[0]) if isinstance(dims[0], (tuple, list)) else dims
        if node not in self.chosen and any(isinstance(dim, int) and dim == -1 for dim in dims):
            dims = self._sizes(node)
        shape = x.ty.shape
        if len(shape) == len(dims) and all(map(self._equal, shape, dims)):
            return x
        return self._emit_torch_reshape(x, dims)

    def _empty(self, node: fx.Node) -> Any:
        """Convert an uninitialised tensor to zeros; TVM's method takes no symbolic sizes."""
        dtype = self._convert_data_type(node.meta["val"].dtype)
        return self.block_builder.emit(relax.op.zeros(self._sizes(node), dtype))

    def _getitem(self, node: fx.Node) -> Any:
        value = self.env[node.args[0]]
        if isinstance(value, list):
            part = value[node.args[1]]
            if part is None:
                raise NotImplementedError(f"output {node.args[1]} of {node.args[0].target} is not "
                                          "computed, expected uses of output 0 only")  # fmt: skip
            return part
        return super()._getitem(node)

    def _process_derived_symbol(self, symbol: Any, table: dict[str, Any]) -> tuple[str, Any]:
        self._symbols = table
        if symbol.is_Symbol:
            return str(symbol), None
        for part in symbol.free_symbols:
            table.setdefault(str(part), tvm.tirx.Var(str(part), "int64"))
        return str(symbol), expression(symbol, table)

    def create_input_vars(self, exported_program: Any) -> Any:
        """Return the parameters; see `with_variables`."""
        weights, inputs, ranges = super().create_input_vars(exported_program)
        values = {**dict(exported_program.named_buffers()), **exported_program.constants}
        if self._binds_parameters:
            values |= dict(exported_program.named_parameters())
        self._constants = {spec.arg.name: values[spec.target]
                           for spec in exported_program.graph_signature.input_specs
                           if spec.target in values}  # fmt: skip
        inputs, self._types = with_variables(inputs)
        return weights, inputs, ranges

    def _translate_fx_graph(
        self, graph_module: Any, nodes: Any, inputs_vars: Any, custom_ops: Any = None
    ) -> Any:
        if self._types:
            inputs_vars = bind_derived(self.block_builder, inputs_vars, self._types)
            self._types = {}
        self._check_guards()
        self._check_unsupported_func_type(nodes)  # of the graphs of branches, too
        self.chosen |= chosen(nodes)
        self.sized |= sized(nodes)
        outer, self.assertions = self.assertions, []
        try:
            return super()._translate_fx_graph(graph_module, nodes, inputs_vars, custom_ops)
        finally:
            self.assertions = outer

    def retrieve_args(self, node: fx.Node) -> Any:
        """Return the arguments of a node; the results of a graph fail with its assertions."""
        if node.op != "output" or not self.assertions:
            return super().retrieve_args(node)
        tensors = (a for a in node.all_input_nodes if isinstance(a.meta.get("val"), torch.Tensor))
        first = next(tensors, None)
        if first is None:
            raise NotImplementedError("it asserts conditions on data, and has no tensor as result")
        value = assertions.asserted(self.block_builder, self.env[first], self.assertions)
        with self._replaced({first: value}):
            return super().retrieve_args(node)

    @staticmethod
    def _flatten_output_args(output_args: Any) -> Any:
        """Return the results in one tuple; numbers that a program returns become TVM's."""
        own = pytree.tree_map_only((bool, int, float), number_result, output_args)
        return ExportedProgramImporter._flatten_output_args(own)

    @staticmethod
    def _has_assert_async(graph_module: Any) -> bool:
        return False  # they are operators without effects; see `assertions`

    def size_of(self, expr: Any) -> Any:
        """Return a size of sympy as an expression."""
        return expression(expr, self._symbols)

    def _check_guards(self) -> None:
        """Emit the checks of the guards at the start of the program, and not of its branches."""
        guards, self._guards = self._guards, []
        for guard in guards:
            try:
                emit_check(self.block_builder, guard.condition, self._symbols)
            except NotImplementedError:
                self.unchecked.append(guard)
