"""Import programs saved by `torch.export.save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from ..checks.error import FrontendError, one_line
from ..checks.input_shapes import Shapes
from .importer import at_node, tidied
from .origins import named, of_torch
from .torch_archive import rebuilt
from .torch_extents import bind_extents, restore


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file; raises `FrontendError` if it is not a supported exported program."""
    try:
        import torch
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .pt2 needs torch: pip install 'opinfo[torch]'"
        ) from error
    try:
        program = torch.export.load(rebuilt(path))
    except Exception as error:  # torch raises various types
        raise FrontendError(f"{path}: not a torch.export program: {one_line(error)}") from error
    try:
        return from_program(program, shapes=shapes)
    except Exception as error:  # the importer raises various types
        raise FrontendError(
            f"{path}: TVM's importer rejected it{at_node(error)}: {one_line(error)}"
        ) from error


def from_program(
    program: Any, keep_params_as_input: bool = False, shapes: Shapes | None = None
) -> tvm.IRModule:
    """Import a `torch.export.ExportedProgram`.

    Args:
        program: The program.
        keep_params_as_input: Make the weights parameters.
        shapes: Requested shapes by input. If they decide all symbolic dimensions, the module has
            them; otherwise it has those of the program.
    """
    from ..converters.derived_sizes import in_parameters
    from ..converters.program_importer import ProgramImporter

    importer = ProgramImporter(binds_parameters=not keep_params_as_input)
    decomposed = _decomposed_for(program, shapes or {})
    _check_mutations(decomposed.graph_signature)
    with tidied():
        mod = importer.from_exported_program(decomposed, keep_params_as_input, False, False, None)
    return in_parameters(named(mod, of_torch(importer.converted)))


def _check_mutations(signature: Any) -> None:
    """Refuse a program that writes to its buffers or inputs: TVM's importer drops such writes.

    A model with a static cache would forget each token.
    """
    buffers = signature.buffers_to_mutate.values()
    names = [*buffers, *getattr(signature, "user_inputs_to_mutate", {}).values()]
    if names:
        raise NotImplementedError(f"it writes to {', '.join(map(str, names[:3]))} in place, "
                                  "expected functions of the inputs; make it an input, and return "
                                  "the new value")  # fmt: skip


def _decomposed_for(program: Any, shapes: Shapes) -> Any:
    """Return a program in the core operators, with the requested shapes if they decide all."""
    former = bind_extents(program, shapes)
    if former:
        try:
            return _decomposed(program)
        except Exception:  # tracing with numbers has its own errors; symbols may have none
            restore(former)
    return _decomposed(program)


def _decomposed(program: Any) -> Any:
    """Return a program in the core operators, and those that a converter takes whole.

    The default decomposition of scaled_dot_product_attention changes the traced strides, which a
    later `view` rejects ("Cannot view a tensor with shape ..."). Such a program is decomposed again
    with an attention that keeps the strides.
    """
    import torch

    def table() -> Any:
        table = torch.export.default_decompositions()
        for target in whole:
            table.pop(target, None)
        return table

    whole = _whole(torch, program)
    _drop_ranges_of_expressions(program)
    try:
        return program.run_decompositions(table())
    except ValueError as error:
        if "Cannot view" not in str(error):
            raise
    strided = table()
    strided[torch.ops.aten.scaled_dot_product_attention.default] = _attention
    return program.run_decompositions(strided)


def _whole(torch: Any, program: Any) -> list[Any]:
    """Return the operators that converters read whole at each of their nodes."""
    from ..converters.program_importer import WHOLE

    graphs = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    nodes = [node for module in graphs for node in module.graph.nodes]
    out = []
    for name, is_whole in WHOLE.items():
        base, _, overload = name.partition(".")
        target = getattr(getattr(torch.ops.aten, base), overload)
        if all(is_whole(node) for node in nodes if node.target is target):
            out.append(target)
    return out


def _drop_ranges_of_expressions(program: Any) -> None:
    """Drop ranges of derived dimensions such as ``8 * n``, on which torch's decomposition stops."""
    for node in program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            ranges = mode.shape_env.var_to_range
            for key in [key for key in ranges if not key.is_Symbol]:
                del ranges[key]
            return


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Decompose attention with its (B, H, N, D) result stored as (B, N, H, D).

    The decomposition adds its mask, so a boolean mask is first converted to 0 and -inf.
    """
    import torch

    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = attn_mask.to(query.dtype).log()  # TVM cannot legalise `full` of -inf
    math = torch.ops.aten._scaled_dot_product_attention_math.default
    out = math(query, key, value, attn_mask, *args, **kwargs)[0]
    return out.transpose(1, 2).contiguous().transpose(1, 2)
