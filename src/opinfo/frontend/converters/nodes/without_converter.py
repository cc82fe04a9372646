"""Operators without a converter: values that need none, and the refusal of the others."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import torch
from torch import fx
from tvm import relax

from .arguments import is_symbolic
from .constants import evaluated


def without_converter(nodes: Iterable[fx.Node], converters: Container[str]) -> set[str]:
    """Return the operators that need no converter: of sizes, and those that read no tensors.

    An operator outside of torch may return another value at each call, so it needs one.

    Raises:
        NotImplementedError: Another operator has no converter.
    """
    called = [node for node in nodes
              if node.op == "call_function" and _name(node) not in converters]  # fmt: skip
    out = set()
    for node in called:
        native = getattr(node.target, "namespace", "") in ("aten", "prims")
        if is_symbolic(node.meta.get("val")) or (native and not node.all_input_nodes):
            out.add(_name(node))
    missing = next((node for node in called if _name(node) not in out), None)
    if missing is not None:
        raise NotImplementedError(
            f"the operator {_name(missing)} has no lowering to Relax; compute it by "
            "other operators, or decompose it with ExportedProgram.run_decompositions"
        )
    return out


def without_operands(importer: Any, node: fx.Node) -> Any:
    """Return the value of a node that reads no tensors and no sizes, such as tril_indices."""
    value = None if node.all_input_nodes else evaluated(node)
    seeded = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    if not isinstance(value, torch.Tensor) or seeded:
        raise NotImplementedError(f"{_name(node)} of tensors has no converter")
    return relax.const(importer._convert_pytorch_tensor_to_tvm(value))


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))
