"""Programs written by `torch.export.save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from .error import FrontendError, one_line
from .shapes import Shapes


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read `path`. Raises `FrontendError` if it is no exported program or not supported."""
    try:
        import torch
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .pt2 needs torch: pip install 'opinfo[torch]'"
        ) from error
    try:
        program = torch.export.load(path)
    except Exception as error:  # torch raises what its parts raise
        raise FrontendError(f"{path}: not a torch.export program: {one_line(error)}") from error
    try:
        return from_program(program)
    except Exception as error:  # the importer uses assert, KeyError, ValueError alike
        raise FrontendError(f"{path}: TVM's importer refused it: {one_line(error)}") from error


def from_program(program: Any, keep_params_as_input: bool = False) -> tvm.IRModule:
    """Import a `torch.export.ExportedProgram`.

    The default decomposition of scaled_dot_product_attention returns other strides than were traced
    and a later `view` refuses them ("Cannot view a tensor with shape ..."). Such a program is
    decomposed once more with an attention that keeps the strides.
    """
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    try:
        return from_exported_program(program, keep_params_as_input=keep_params_as_input)
    except ValueError as error:
        if "Cannot view" not in str(error):
            raise
    table = torch.export.default_decompositions()
    table[torch.ops.aten.scaled_dot_product_attention.default] = _attention
    return from_exported_program(
        program.run_decompositions(table),
        keep_params_as_input=keep_params_as_input,
        run_ep_decomposition=False,
    )


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """The attention's own decomposition, its (B, H, N, D) result stored as (B, N, H, D)."""
    import torch

    math = torch.ops.aten._scaled_dot_product_attention_math.default
    if len(args) > 3:
        raise ValueError(f"attention with {len(args)} positional options, at most 3 are known")
    out = math(query, key, value, *args, **kwargs)[0]
    return out.transpose(1, 2).contiguous().transpose(1, 2)
