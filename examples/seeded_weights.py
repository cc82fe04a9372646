"""The ONNX models that the onnx wheel ships have constant weights: draw them from a seed.

    python -m examples.seeded_weights light_squeezenet.onnx squeezenet.onnx

A network of constant weights computes one number, whatever its input is; nothing can be compared.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def seeded(model: Any, seed: int = 0, gain: float = 1.4) -> Any:
    """The model with normal weights in place of fills, of variance gain² / fan-in."""
    from onnx import numpy_helper

    graph, rng = model.graph, np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for fill in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = [int(e) for e in shapes[fill.input[0]]]
        fan_in = int(np.prod(shape[1:])) or 1
        deviation = gain / fan_in**0.5 if len(shape) > 1 else 0.1
        drawn = (rng.standard_normal(shape) * deviation).astype("float32")
        graph.initializer.append(numpy_helper.from_array(drawn, fill.output[0]))
        graph.node.remove(fill)
    model.ir_version = max(model.ir_version, 4)  # before, weights were inputs too
    return model


def main(source: Path, target: Path) -> None:
    import onnx

    target.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(seeded(onnx.load(source)), target)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
