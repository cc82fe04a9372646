"""The nine CNNs that the onnx wheel ships: real structures, weights given as constant fills.

The fills become inputs of the graph, and each gets a random distribution by the way it is used, so
that activations neither vanish nor blow up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from opinfo.frontend.formats.from_onnx import from_model

from .weights import Spec, fan_in, normal, positive

# The gain of each layer: He's where nothing normalises, less where residuals add up.
FILES = {
    "bvlc_alexnet": 1.1,
    "densenet121": 1.4,
    "inception_v1": 0.9,
    "inception_v2": 1.2,
    "resnet50": 0.8,
    "shufflenet": 0.7,
    "squeezenet": 1.4,
    "vgg19": 1.3,
    "zfnet512": 1.4,
}


def path(name: str) -> Path:
    """The ONNX file."""
    import onnx

    data = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return data / f"light_{name}.onnx"


def build(name: str) -> tuple[tvm.IRModule, list[Spec]]:
    """The module with weights as parameters, and how to draw them."""
    import onnx

    model = onnx.load(path(name))
    specs = _fills_to_inputs(model, FILES[name])
    mod = from_model(model, {})
    main = mod["main"].with_attr("num_input", 1)
    mod.update_func(mod.get_global_var("main"), main)
    return mod, specs


def _fills_to_inputs(model: Any, gain: float) -> list[Spec]:
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    fills = [n for n in graph.node if n.op_type == "ConstantOfShape"]
    specs = []
    for fill in fills:
        shape = tuple(int(d) for d in values[fill.input[0]])
        name = fill.output[0]
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        specs.append(_spec(graph, name, shape, gain))
        graph.node.remove(fill)
    return specs


def _spec(graph: Any, name: str, shape: tuple[int, ...], gain: float) -> Spec:
    """The distribution of a weight by its first use, seen through reshapes."""
    user = next(node for node in graph.node if name in node.input)
    slot = list(user.input).index(name)
    match user.op_type, slot:
        case (("Unsqueeze" | "Reshape" | "Transpose"), 0):
            return _spec(graph, user.output[0], shape, gain)
        case ("BatchNormalization", 1 | 4) | ("Mul", _):
            return positive(shape)
        case "Conv", 1:
            return fan_in(shape, gain)
        case "Gemm", 1:
            turned = any(a.name == "transB" and a.i for a in user.attribute)
            return normal(shape, gain / shape[1 if turned else 0] ** 0.5)
    return normal(shape, 0.1)
