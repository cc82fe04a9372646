"""Import programs saved by `torch.export.save`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tvm

from ..checks.error import FrontendError, is_ours, one_line
from ..checks.input_shapes import Shapes
from ..checks.notes import noted
from .importer import at_node, tidied
from .origins import named, of_torch
from .torch_program.torch_archive import guards_in, rebuilt
from .torch_program.torch_extents import bind_extents, restore
from .torch_program.torch_guards import check_request, read_guards, unchecked
from .torch_program.torch_inputs import drop_fixed_inputs, pair_complex_constants
from .torch_program.torch_writes import return_writes


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file; raises `FrontendError` if it is not a supported exported program."""
    try:
        import torch
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .pt2 needs torch: pip install 'opinfo[torch]'"
        ) from error
    logged = _LoggedError()
    try:
        with logged.heard():
            program = torch.export.load(rebuilt(path))
        guards = guards_in(path)
    except Exception as error:  # torch raises various types
        why = one_line(logged.error or error)
        raise FrontendError(f"{path}: not a torch.export program: {why}") from error
    try:
        return from_program(program, shapes=shapes, guards=guards)
    except FrontendError as error:
        raise FrontendError(f"{path}: {error}") from error
    except Exception as error:  # the importer raises various types
        where, what = at_node(error), one_line(error)
        subject = "opinfo cannot convert it" if is_ours(error) else "TVM's importer rejected it"
        raise FrontendError(f"{path}: {subject}{where}: {what}") from error


class _LoggedError(logging.Handler):
    """The error that torch logs where it raises one that only refers to its log."""

    error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.error = record.exc_info[1]

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen to the logger of `torch.export`."""
        logger = logging.getLogger("torch.export")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


def from_program(
    program: Any,
    keep_params_as_input: bool = False,
    shapes: Shapes | None = None,
    guards: Sequence[str] | None = None,
) -> tvm.IRModule:
    """Import a `torch.export.ExportedProgram`.

    Args:
        program: The program.
        keep_params_as_input: Make the weights parameters.
        shapes: Requested shapes by input. If they decide all symbolic dimensions, the module has
            them; otherwise it has those of the program.
        guards: The program's conditions on sizes as lines of Python; those it holds by default.

    Returns:
        The module. What the program writes to its inputs or buffers in place are its last results;
        see `torch_writes`. It fails at run time for sizes that violate a guard; its notes name the
        guards that it cannot check.

    Raises:
        FrontendError: The requested shapes violate a guard or a derived dimension.
    """
    from ..converters.nodes.assertions import dropped_assertions
    from ..converters.program_importer import ProgramImporter
    from ..converters.sizes.derived_sizes import in_parameters

    lines = getattr(program, "_guards_code", ()) if guards is None else guards
    check_request(program, read_guards(program, lines), shapes or {})
    decomposed = _decomposed_for(program, shapes or {})
    conditions = read_guards(decomposed, lines)
    importer = ProgramImporter(not keep_params_as_input, conditions)
    writes = [*return_writes(decomposed), *drop_fixed_inputs(decomposed)]
    pair_complex_constants(decomposed)
    with tidied():
        mod = importer.from_exported_program(decomposed, keep_params_as_input, False, False, None)
    notes = [*writes, *(unchecked(guard) for guard in importer.unchecked),
             *dropped_assertions(program, decomposed)]  # fmt: skip
    return noted(in_parameters(named(mod, of_torch(importer.converted))), notes)


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
