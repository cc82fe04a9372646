"""The activations of a recurrent operator, with their parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ....analysis.recurrent.cell_ops import PARAMETERS, activation_text, relax_ops
from ...onnx_graph.onnx_node import OnnxNode


def activations(node: OnnxNode, defaults: Sequence[str]) -> list[str]:
    """Return the activations of all directions, as `activation_text` writes them.

    Numbers of `activation_alpha` and `activation_beta` belong, in this order, to the activations
    that have such a parameter. As in ONNX Runtime, a clip bounds the gates of an LSTM before their
    activations, not its cell state.
    """
    texts = [
        x.decode() if isinstance(x, bytes) else x for x in node.attr("activations") or defaults
    ]
    known = relax_ops("float32").functions
    spelling = {name.lower(): name for name in known}
    for name in texts:
        if name.lower() not in spelling:
            node.refuse(f"activation '{name}', expected one of {', '.join(known)}")
    if len(texts) != len(defaults):
        node.refuse(f"{len(texts)} activations, expected {len(defaults)}")
    names = [spelling[name.lower()] for name in texts]
    rest = [list(node.attr(f"activation_{which}") or []) for which in ("alpha", "beta")]
    results, clip = [], float(node.attr("clip", 0.0))
    for k, name in enumerate(names):
        pairs = zip(rest, PARAMETERS.get(name, ()), strict=False)
        given = [own.pop(0) if own else default for own, default in pairs]
        numbers = [number for number in given if number is not None]
        if len(numbers) < len(given):
            node.refuse(f"activation {name} without its alpha and beta, expected both")
        of_state = node.op.endswith("LSTM") and k % 3 == 2
        results.append(activation_text(name, numbers, 0.0 if of_state else clip))
    used = any(name in PARAMETERS for name in names)
    if used and any(rest):
        node.refuse(f"more numbers in activation_alpha and activation_beta than {', '.join(names)} "
                    "have parameters")  # fmt: skip
    return results
