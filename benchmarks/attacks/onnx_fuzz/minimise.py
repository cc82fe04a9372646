"""Shrink a model that fails: leave nodes out, and give what they computed as inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from .graphs import runtime
from .graphs.runtime import Array
from .random_model import Model, _operands

Fails = Callable[[Model], bool]
#: What a model's values are: for each binding, arrays by name.
Values = list[dict[str, Array]]


def minimised(model: Model, fails: Fails) -> Model:
    """Return a model with as few nodes and outputs as leaving out finds, that still fails.

    First halves of the nodes are left out, then quarters, and so on (Zeller's ddmin); then outputs.

    Args:
        model: A model for which `fails` holds.
        fails: Whether a smaller model still fails in the same way.
    """
    values = [runtime.all_values(model.proto, feed) | dict(feed) for feed in model.feeds]
    kept = list(range(len(model.proto.graph.node)))
    best, parts = model, 2
    while len(kept) > 1:
        size = max(1, len(kept) // parts)
        chunks = [kept[k : k + size] for k in range(0, len(kept), size)]
        for chunk in chunks:
            rest = [k for k in kept if k not in chunk]
            smaller = restricted(model, rest, values)
            if smaller is not None and fails(smaller):
                best, kept, parts = smaller, rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return _fewer_outputs(best, fails)


def restricted(model: Model, kept: Collection[int], values: Values) -> Model | None:
    """Return the model of some nodes; None if nothing remains that it could compute.

    What they read of others becomes an input; what others read of them, an output.
    """
    import onnx

    nodes = [node for k, node in enumerate(model.proto.graph.node) if k in kept]
    others = [node for k, node in enumerate(model.proto.graph.node) if k not in kept]
    made = [name for node in nodes for name in node.output if name]
    own = {name for node in nodes for name in _operands(node) if name}
    read = {name for node in others for name in _operands(node)}
    outputs = {output.name for output in model.proto.graph.output}
    wanted = [name for name in made if name in read | outputs or name not in own]
    if not wanted:
        return None
    graph = onnx.GraphProto(name=model.proto.graph.name)
    graph.node.extend(nodes)
    weights = [t for t in model.proto.graph.initializer if t.name in own]
    graph.initializer.extend(weights)
    local = {name for node in nodes for name in _inner(node)}
    before = {entry.name: entry for entry in model.proto.graph.input}
    free = sorted(own - {t.name for t in weights} - set(made) - local)
    if any(name not in known for name in free for known in values):
        return None
    graph.input.extend(before.get(name) or _entry(name, values) for name in free)
    graph.output.extend(runtime.typed(name, values[0][name]) for name in wanted)
    return _with_graph(model, graph, free, values)


def _with_graph(model: Model, graph: Any, free: Collection[str], values: Values) -> Model:
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.graph.CopyFrom(graph)
    return Model(proto, tuple({name: known[name] for name in free} for known in values))


def _entry(name: str, values: Values) -> Any:
    """Return the declaration of a value as an input; sizes that vary are symbols."""
    arrays = [known[name] for known in values]
    sizes = list(zip(*(a.shape for a in arrays), strict=True))
    dims = [own[0] if len(set(own)) == 1 else "d" + "_".join(map(str, own)) for own in sizes]
    return runtime.entry(name, arrays[0], dims)


def _inner(node: Any) -> list[str]:
    """Return the names that a node's branches define."""
    inner = [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return [*(name for n in inner for name in n.output), *(x for n in inner for x in _inner(n))]


def _fewer_outputs(model: Model, fails: Fails) -> Model:
    import onnx

    for output in list(model.proto.graph.output):
        if len(model.proto.graph.output) == 1:
            break
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        del proto.graph.output[:]
        proto.graph.output.extend(o for o in model.proto.graph.output if o.name != output.name)
        smaller = Model(proto, model.feeds)
        if fails(smaller):
            model = smaller
    return model
