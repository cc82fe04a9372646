"""Inputs of torch programs that are not tensors of real numbers.

A number, a truth value, a text or None is fixed by the export, so it is dropped. A complex tensor
that the program holds becomes the pairs of its numbers; see `complex_pairs`.

    Before: def f(x, use_cache=False)        buffer: complex64 (n,)
    After:  def f(x)                         buffer: float32 (n, 2)
"""

from __future__ import annotations

from typing import Any

from ...checks.node_description import describe


def drop_fixed_inputs(program: Any) -> list[str]:
    """Drop the inputs of a decomposed program that its export has fixed; return notes on them.

    Raises:
        NotImplementedError: An input is complex, or a number that may vary, or a result is complex.
    """
    from torch.export.graph_signature import ConstantArgument, InputKind

    nodes = {n.name: n for n in program.graph.find_nodes(op="placeholder")}
    signature, fixed = program.graph_signature, []
    for spec in signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            fixed.append(spec)
        else:
            _check_input(spec.arg.name, nodes[spec.arg.name].meta.get("val"))
    _check_results(program)
    for spec in fixed:
        if (node := nodes.get(spec.arg.name)) is not None and not node.users:
            program.graph.erase_node(node)
    signature.input_specs[:] = [spec for spec in signature.input_specs if spec not in fixed]
    return [f"the input {spec.arg.name} is {spec.arg.value!r}, as the program was exported"
            for spec in fixed if spec.arg.value is not None]  # fmt: skip


def _check_input(name: str, value: Any) -> None:
    import torch

    if not isinstance(value, torch.Tensor):
        raise NotImplementedError(f"the input {name} is a number that may vary, expected a tensor; "
                                  "make it a tensor, or fix it when exporting")  # fmt: skip
    dtype = str(value.dtype).removeprefix("torch.")
    if value.is_floating_point() and value.itemsize < 2:
        raise NotImplementedError(f"the input {name} is {dtype}, expected floats of 16 bits or "
                                  "more; cast it before the model")  # fmt: skip
    if value.is_complex():
        raise NotImplementedError(f"the input {name} is {dtype}, "
                                  "expected real numbers; pass torch.view_as_real of it and call "
                                  "torch.view_as_complex in the model")  # fmt: skip


def _check_results(program: Any) -> None:
    import torch

    (output,) = program.graph.find_nodes(op="output")
    for node in output.all_input_nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise NotImplementedError(f"the result of {describe(node)} is complex, expected real "
                                      "numbers; return torch.view_as_real of it")  # fmt: skip


def pair_complex_constants(program: Any) -> None:
    """Replace the complex parameters, buffers and constants of a decomposed program by pairs."""
    import torch

    def paired(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_complex():
            return value
        return torch.view_as_real(value.detach().resolve_conj()).contiguous()

    for name in ("_state_dict", "_constants"):
        setattr(program, name, {key: paired(x) for key, x in getattr(program, name).items()})
