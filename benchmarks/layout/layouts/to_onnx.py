"""Convert the models that are built from Relax operators to ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

#: Operators with an ONNX equivalent that takes the same operands.
SAME = {"relax.add": "Add", "relax.matmul": "MatMul", "relax.nn.relu": "Relu"}


class _Writer:
    def __init__(self, nhwc: Callable[..., Any]) -> None:
        self.nhwc = nhwc
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.names: dict[Any, str] = {}

    def name(self, expr: Any) -> str:
        if isinstance(expr, relax.Var):
            return self.names.setdefault(expr, str(expr.name))
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(expr.value.numpy(), name))
        return name

    def emit(self, op: str, inputs: list[str], output: str, **attrs: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], **attrs))

    def call(self, call: Any, output: str) -> None:
        op, attrs = str(call.op.name), call.attrs
        if op == "relax.concat":
            self.emit(
                "Concat", [self.name(f) for f in call.args[0].fields], output, axis=int(attrs.axis)
            )
            return
        args = [self.name(a) for a in call.args]
        if op in SAME:
            self.emit(SAME[op], args, output)
        elif op == "relax.permute_dims":
            self.emit("Transpose", args, output, perm=[int(a) for a in attrs.axes])
        elif op == "relax.mean":
            axes = f"{output}_axes"
            values = [int(a) for a in attrs.axis]
            self.weights.append(helper.make_tensor(axes, TensorProto.INT64, [len(values)], values))
            self.emit("ReduceMean", [*args, axes], output, keepdims=0)
        elif op == "relax.nn.layer_norm":
            self.emit("LayerNormalization", args, output, axis=-1, epsilon=float(attrs.epsilon))
        elif op == "relax.nn.max_pool2d":
            window = {"kernel_shape": attrs.pool_size, "strides": attrs.strides}
            self.emit(
                "MaxPool", args, output, **{k: [int(e) for e in v] for k, v in window.items()}
            )
        elif op == "relax.nn.conv2d":
            self.conv(call, args, output)
        else:
            raise NotImplementedError(op)

    def conv(self, call: Any, args: list[str], output: str) -> None:
        attrs = call.attrs
        lists = {k: [int(e) for e in getattr(attrs, k)] for k in ("strides", "dilations", "padding")
                if hasattr(attrs, k)}  # fmt: skip
        options = {"strides": lists["strides"], "pads": lists["padding"]}
        if attrs.data_layout == "NCHW":
            self.emit("Conv", args, output, **options)
            return
        weight = numpy_helper.to_array(self.weights[-1]).transpose(0, 3, 1, 2)
        self.weights[-1] = numpy_helper.from_array(weight.copy(), args[1])
        conv = helper.make_node("Conv", args, [output], **options)
        source, target = ([int(e) for e in t.ty.shape] for t in (call.args[0], call))
        self.nodes.append(self.nhwc(conv, args[0], output, source, target))


def to_onnx(mod: tvm.IRModule, nhwc: Callable[..., Any]) -> Any:
    """Convert a Relax module of a few operators; ``nhwc`` builds nodes of NHWC convolutions."""
    main, writer = mod["main"], _Writer(nhwc)
    types = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            name = writer.name(binding.var)
            types[name] = [int(e) for e in binding.var.ty.shape]
            if isinstance(binding.value, relax.Var):
                writer.emit("Identity", [writer.name(binding.value)], name)
            else:
                writer.call(binding.value, name)

    def info(name: str, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    (param,), result = main.params, writer.name(main.body.body)
    graph = helper.make_graph(
        writer.nodes, "main", [info(writer.name(param), [int(e) for e in param.ty.shape])],
        [info(result, types[result])], writer.weights,
        value_info=[info(n, s) for n, s in types.items() if n != result],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
