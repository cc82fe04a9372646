"""Import programs saved by `torch.export.save`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tvm

from ..checks.error import FrontendError, one_line
from ..checks.input_shapes import Shapes
from .importer import at_node, tidied
from .origins import named, of_torch, recording
from .torch_archive import BadArchive, rebuilt


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file; raises `FrontendError` if it is not a supported exported program."""
    try:
        import torch
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .pt2 needs torch: pip install 'opinfo[torch]'"
        ) from error
    try:
        program = _loaded(torch, path)
    except Exception as error:  # torch raises various types
        raise FrontendError(f"{path}: not a torch.export program: {one_line(error)}") from error
    try:
        return from_program(program)
    except Exception as error:  # the importer raises various types
        raise FrontendError(
            f"{path}: TVM's importer rejected it{at_node(error)}: {one_line(error)}"
        ) from error


def _loaded(torch: Any, path: Path) -> Any:
    """Load a program from the checked records of an archive.

    The output classes of Hugging Face models are registered when their module is imported.
    """
    try:
        return torch.export.load(rebuilt(path))
    except BadArchive:
        raise
    except Exception:
        if find_spec("transformers") is None:
            raise
        import_module("transformers.modeling_outputs")
        return torch.export.load(rebuilt(path))


def from_program(program: Any, keep_params_as_input: bool = False) -> tvm.IRModule:
    """Import a `torch.export.ExportedProgram`.

    The default decomposition of scaled_dot_product_attention changes the traced strides, which a
    later `view` rejects ("Cannot view a tensor with shape ..."). Such a program is decomposed again
    with an attention that keeps the strides.
    """
    import torch

    options: dict[str, Any] = {"keep_params_as_input": keep_params_as_input}
    options["custom_convert_map"] = {"cumsum.default": _cumsum, "cumprod.default": _cumsum}
    try:
        return _import(program, **options)
    except ValueError as error:
        if "Cannot view" not in str(error):
            raise
    table = torch.export.default_decompositions()
    table[torch.ops.aten.scaled_dot_product_attention.default] = _attention
    decomposed = program.run_decompositions(table)
    return _import(decomposed, run_ep_decomposition=False, **options)


def _import(program: Any, **options: Any) -> tvm.IRModule:
    from tvm.relax.frontend.torch import from_exported_program
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    with tidied(), recording(ExportedProgramImporter, "_translate_fx_graph", of_torch) as names:
        mod = from_exported_program(program, **options)
    return named(mod, names)


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


def _cumsum(node: Any, importer: Any) -> Any:
    """Import cumsum and cumprod with torch's result type: bool and int32 are summed as int64.

    TVM's importer ignores that type and emits a sum of bool, which LLVM rejects.
    """
    from tvm import relax

    data = importer.env[node.args[0]]
    axis = int(node.args[1] if len(node.args) > 1 else node.kwargs["dim"])
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    if str(data.ty.dtype) != dtype:
        data = importer.block_builder.emit(relax.op.astype(data, dtype))
    op = getattr(relax.op, str(node.target).split(".")[1])
    return importer.block_builder.emit(op(data, axis))
