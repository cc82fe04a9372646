"""Import an ONNX graph into a Relax function, node by node.

Each node is first evaluated on the elements of its inputs (`shape_values`, `folding`); otherwise a
converter of ours, or one of TVM's, emits Relax operators for it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import tvm
from tvm import relax

from ...analysis.lifting.tir.without_scopes import without_scopes
from ..checks.node_description import describe
from ..converters.sizes.derived_sizes import bind_derived, in_parameters, with_variables
from ..onnx_checks.onnx_refusals import REASONS, why_unsupported
from ..onnx_checks.onnx_schema import STANDARD, check_function, check_graph, check_node
from ..onnx_functions import functions
from ..onnx_graph import attributes
from ..onnx_graph.control_flow.branches import branch_values
from ..onnx_graph.control_flow.recursion import loop_values
from ..onnx_graph.conversion import half_types, tvm_converters
from ..onnx_graph.conversion.converter_table import RUNTIME_DOMAINS, Converter
from ..onnx_graph.folding import folded
from ..onnx_graph.legality import TOLERATED, contradicts_types, why_illegal
from ..onnx_graph.narrow_types import NARROW
from ..onnx_graph.onnx_node import OnnxNode
from ..onnx_graph.scalars import Unknown
from ..onnx_graph.shape_values import RULES, evaluate
from ..onnx_graph.size_arithmetic import SizeArithmetic
from ..onnx_graph.values import (
    NodeError,
    NotConvertible,
    TensorValue,
    constant,
    elements_value,
    kind,
    of_expr,
)
from ..onnx_operators import CONVERTERS
from ..reading import crash_place
from .emitted_values import as_values, elements_expr
from .onnx_scope import (
    check_declared,
    check_operands,
    declared_types,
    define,
    has_elements,
    lookup,
    node_error,
)

#: Limit on the nodes that are converted, copies in unrolled loops and inlined functions included.
NODES = 50_000
#: Limit on the functions, branches and loops that are in each other.
DEPTH = 50


class NeedsBranches(Exception):
    """A conditional stays; the function must not be one dataflow block."""


class GraphImport:
    """The import of one model; see `node.Graph`."""

    def __init__(self, model: Any, dataflow: bool) -> None:
        self.builder = relax.BlockBuilder()
        self.arithmetic = SizeArithmetic()
        self.names: dict[Any, str] = {}
        self.opsets = {entry.domain: entry.version for entry in model.opset_import} or {"": 1}
        self.opset = self.opsets.get("", self.opsets.get("ai.onnx", 1))
        self.functions = functions.local(model)
        self.dataflow = dataflow
        #: What a user should know of the module: one line each.
        self.warnings: list[str] = []
        self._depth = 0
        self._count = 0
        self._calls: list[str] = []
        #: How many functions, which import operator sets of their own, are being inlined.
        self._functions = 0
        #: The types that the graph whose nodes are imported declares, by name.
        self._declared: dict[str, str] = {}

    def function(self, graph: Any, params: Mapping[str, Any]) -> tvm.IRModule:
        """Return a module whose `main` computes the graph of the given parameters."""
        own, types = with_variables(params)
        with self.builder.function("main", params=list(own.values())), ExitStack() as stack:
            if self.dataflow:
                stack.enter_context(self.builder.dataflow())
            try:
                bound = bind_derived(self.builder, own, types)
            except NotImplementedError as error:
                raise NodeError(f"an input: {error}; or name it by --shape", ()) from error
            scope = {k: of_expr(v) for k, v in bound.items()}
            values = self.run(graph, [], scope)
            outputs = [self.tensor(_tensor_output(graph, k, v)) for k, v in enumerate(values)]
            result = outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
            if self.dataflow:
                result = self.builder.emit_output(result)
            stack.close()
            self.builder.emit_func_output(result)
        return in_parameters(without_scopes(self.builder.get()))

    # node.Graph

    def tensor(self, value: TensorValue) -> Any:
        """Return a Relax expression for a value."""
        if value.expr is not None:
            return value.expr
        assert value.elements is not None
        if value.dtype in NARROW:
            raise NotConvertible(f"a tensor of {value.dtype}, which only Cast and DequantizeLinear "
                                 "read, as a constant")  # fmt: skip
        if value.is_constant and value.elements.size:
            same = str(value.elements.dtype) == value.dtype  # TVM's `const` would copy it twice
            elements = tvm.runtime.tensor(value.elements) if same else value.elements
            value.expr = relax.const(elements, value.dtype)
            return value.expr
        if value.is_constant:  # TVM saves no constant without elements
            return self.builder.emit(relax.op.zeros(value.elements.shape, value.dtype))
        expr = elements_expr(self.builder, value.elements, value.dtype)
        if self._depth == 0:  # a variable of a branch is not visible outside
            value.expr = expr
        return expr

    def run(self, graph: Any, inputs: Sequence[Any], scope: Mapping[str, Any]) -> list[Any]:
        """Import the nodes of a graph and return the values of its outputs."""
        check_graph(graph)
        if inputs and len(inputs) != len(graph.input):
            raise NotConvertible(f"its graph has {len(graph.input)} inputs, got {len(inputs)}")
        own = {v.name: scope[v.name] for v in graph.input if not inputs and v.name in scope}
        inner: Any = ChainMap(own, scope)  # type: ignore[arg-type]
        for entry, value in zip(graph.input, inputs, strict=False):
            inner[entry.name] = value
        for tensor in graph.initializer:
            inner[tensor.name] = constant(attributes.array(tensor))
        for sparse in graph.sparse_initializer:
            inner[sparse.values.name] = constant(attributes.dense(sparse))
        with self._call(f"a graph '{graph.name}'", declared_types(graph)):
            for proto in graph.node:
                self._node(proto, inner, {})
        return [lookup(inner, output.name, "an output") for output in graph.output]

    @contextmanager
    def _call(self, what: str, declared: dict[str, str]) -> Iterator[None]:
        """Enter a graph or function, whose nodes may not be nested too deeply."""
        if len(self._calls) > DEPTH:
            raise NotConvertible(f"more than {DEPTH} functions, branches and loops in each other")
        self._calls.append(what)
        outer, self._declared = self._declared, declared
        try:
            yield
        finally:
            self._declared = outer
            self._calls.pop()

    def branches(
        self, condition: Any, graphs: Sequence[Any], scope: Mapping[str, Any]
    ) -> list[Any]:
        """Import two graphs as the branches of a conditional and return its values."""
        if self.dataflow:
            raise NeedsBranches
        self._depth += 1
        try:
            return branch_values(self, condition, graphs, scope)
        finally:
            self._depth -= 1

    def recursion(self, node: OnnxNode) -> list[Any]:
        """Import a Loop as a recursive function and return its values."""
        if self.dataflow:
            raise NeedsBranches
        self._depth += 1
        try:
            return loop_values(self, node)
        finally:
            self._depth -= 1

    # nodes

    def _node(self, proto: Any, scope: Any, bound: Mapping[str, Any]) -> None:
        """Convert a node and define its outputs; `bound` are attributes of a function's call."""
        self._count += 1
        crash_place.note(describe(proto))
        try:
            if self._count > NODES:
                raise NotConvertible(f"the model has more than {NODES} nodes after unrolling")
            node = self._read(proto, scope, bound)
            values = self._values(node, proto)
            if len(values) < len(proto.output):
                raise NotConvertible(f"it has {len(proto.output)} outputs, expected {len(values)}")
            check_declared(proto.output, values, self._declared)
            define(proto, values, scope)
        except (NodeError, NeedsBranches):
            raise
        except Exception as error:  # TVM's converters and type inference raise various types
            raise node_error(proto, error, scope, self.opset) from error
        for value in values:
            if isinstance(value, TensorValue) and isinstance(value.expr, relax.Var):
                self.names.setdefault(value.expr, proto.name or proto.output[0])

    def _read(self, proto: Any, scope: Any, bound: Mapping[str, Any]) -> OnnxNode:
        """Return a node that agrees with its operator's schema."""
        domain = "" if proto.domain in STANDARD else proto.domain
        opset = self.opsets.get(domain, 1) if domain else self.opset
        if not domain and not self.opsets.keys() & set(STANDARD):
            raise NotConvertible("the model imports no operator set of domain ''")
        if domain not in ("", *RUNTIME_DOMAINS, *self.opsets) and not self._functions:
            raise NotConvertible(f"the model imports no operator set of domain '{domain}'")
        if (domain, proto.op_type) not in self.functions:
            check_node(proto, opset, domain)
        inputs = [lookup(scope, name, "its input") if name else None for name in proto.input]
        node = OnnxNode(proto.op_type, domain, opset, attributes.parsed(proto.attribute, bound),
                        inputs, list(proto.output), self, scope)  # fmt: skip
        if not domain:
            check_operands(node)
            judged = proto.op_type not in TOLERATED
            plain = attributes.without_references(proto, node.attrs)
            if judged and (reason := why_illegal(plain, scope, opset)):
                raise NotConvertible(reason)
        return node

    def _values(self, node: OnnxNode, proto: Any) -> list[Any]:
        """Convert a node: from known elements, by a converter, or as a function."""
        known = self._evaluated(node, proto)
        if known is not None:
            return known
        if (node.domain, node.op) in CONVERTERS:
            return self._converted(node, CONVERTERS[node.domain, node.op])
        body = functions.body(node, self.functions)
        if (node.domain, node.op) in self.functions:
            return self._inlined(node, body)
        if tvm_converters.has(node):
            return self._converted(node, tvm_converters.convert)
        if body is not None and node.op not in REASONS:
            return self._inlined(node, body)
        raise NotConvertible(why_unsupported(node.op, node.domain))

    def _converted(self, node: OnnxNode, convert: Converter) -> list[Any]:
        inner = half_types.widened(node)
        return half_types.rounded(node, as_values(self.builder, inner, convert(inner)))

    def _evaluated(self, node: OnnxNode, proto: Any) -> list[Any] | None:
        """Return the values of a node whose result is known element by element."""
        if node.domain or not all(v is None or has_elements(v) for v in node.inputs):
            return None
        if all(v is None or v.is_constant for v in node.inputs):
            inner = half_types.widened(node, products=False)
            arrays = [None if v is None else v.elements for v in inner.inputs]
            plain = attributes.without_references(proto, node.attrs)
            results = folded(plain, arrays, self.opset)
            if results and contradicts_types(plain, inner.inputs, results, self.opset):
                return None  # the reference is wrong there
            return results and half_types.rounded(node, [constant(x) for x in results])
        if node.op not in RULES:
            return None
        try:
            attrs = attributes.for_elements(node)
            elements = evaluate(node.op, [None if v is None else v.elements for v in node.inputs],
                                attrs, self.arithmetic)  # fmt: skip
        except Unknown:
            return None
        return [elements_value(elements, attributes.result_dtype(node))]

    def _inlined(self, node: OnnxNode, body: Any) -> list[Any]:
        """Import the nodes of a function in place of its call."""
        if len(node.inputs) > len(body.input):
            raise NotConvertible(f"it has {len(node.inputs)} inputs, expected {len(body.input)}")
        name = f"{node.domain}.{node.op}"
        if name in self._calls:
            raise NotConvertible(f"the function {node.op} calls itself")
        inner: Any = dict(zip(body.input, node.inputs, strict=False))
        for absent in body.input:
            inner.setdefault(absent, None)
        bound = {**functions.defaults(node, body, self.functions), **node.attrs}
        outer, self.opset = self.opset, functions.opset(body, self.opset)
        self._functions += 1
        try:
            if (node.domain, node.op) in self.functions:
                check_function(body.node, self.opset, outer)
            with self._call(name, {}):
                for proto in body.node:
                    self._node(proto, inner, bound)
        finally:
            self._functions -= 1
            self.opset = outer
        wanted = zip(body.output, node.outputs, strict=False)
        return [lookup(inner, output, "an output") if name else None for output, name in wanted]


def _tensor_output(graph: Any, k: int, value: Any) -> TensorValue:
    name = graph.output[k].name
    if not isinstance(value, TensorValue):
        raise NodeError(f"output '{name}' is {kind(value)}, expected a tensor", ())
    return value
