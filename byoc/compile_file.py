"""Compile the ONNX file that a module was loaded from: a runtime of a backend runs it unchanged.

Before: main(x) = R.conv2d(x, …) … as the importer wrote the file
After:  main(x) = R.call_dps_packed("onnxruntime_file", (x,), out_ty=…), with the file as a constant
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import relax

from ..analysis.results.op_info import OpInfo
from ..layout.graph.relax_graph import Op
from .backend.backend import Backend, Code
from .backend.catalog import resolve_backends, unusable
from .backend.flops import flops
from .backend.onnx_file import OnnxModel
from .backend.region import Array
from .building.read_target import read_target
from .codegen.partition import attached
from .compile import CompiledModule, SharedWork, build_module
from .dispatching.choice.plan_file import FILE, DispatchPlan, PlannedRegion, fingerprint
from .dispatching.dispatched import Dispatched, OffloadedRegion
from .matching.asserted_copy import asserted_copy
from .matching.border_checks import BorderChecks, border_checks
from .matching.clamped_inputs import clamped_inputs
from .matching.lowered import Lowered, read
from .patterns.failure import ForeignError, foreign
from .patterns.pattern_node import node


class FileRefused(ValueError):
    """A backend does not take the file of a module; the message says why, in one line."""


def compile_file(
    mod: Any, backend: str | Backend, content: Array, inputs: tuple[str, ...],
    results: tuple[str, ...], digest: str, *, target: Any = "llvm",
    shared: SharedWork | None = None, runs_elsewhere: bool = False,
) -> CompiledModule:  # fmt: skip
    """Compile a file to a library whose ``main`` is that of the module.

    Args:
        mod: The module that was imported from the file, with static shapes; it is not changed.
        backend: A backend with a `Backend.reader`.
        content: The file with the module's shapes and all weights, of dtype uint8.
        inputs: The names of its inputs, in the order of the module's parameters.
        results: The names of its outputs, in the order of the module's results.
        digest: Identifies the file in the plan.
        target: TVM's target.
        shared: What earlier builds of the module did already.
        runs_elsewhere: As for `compile_module`.

    Returns:
        The library. Its plan names the file's digest; its module does not keep the content.

    Raises:
        FileRefused: The backend cannot take the file, or not without changing results.
        CompilerError, LoadError, RuntimeError: The library cannot be built or loaded.
    """
    (named,) = resolve_backends([backend])
    shared = shared or SharedWork(mod)
    lowered = shared.lowered.get(named.name)
    if lowered is None:
        lowered = read(shared.prepare([named], relaid=False), "compile_file", shared.proofs)
    model = _checked(mod, named, content, inputs, results, lowered)
    checks = _checks(named, lowered)
    result = _dispatched(mod, named, _code(named, model), lowered, model.symbol, checks)
    plan = DispatchPlan(fingerprint(mod), {named.name: named.version()},
                        (PlannedRegion("main", named.name, FILE, ()),), "optimal",
                        file=digest)  # fmt: skip
    built = build_module(replace(result, plan=plan), read_target(target), (), runs_elsewhere)
    bare = result.module.without_attr("external_mods").without_attr("const_name_to_constant")
    return replace(built, dispatched=replace(built.dispatched, module=bare))


def _checked(
    mod: Any, backend: Backend, content: Array, inputs: tuple[str, ...],
    results: tuple[str, ...], lowered: Lowered,
) -> OnnxModel:  # fmt: skip
    """The file for a backend. Raises `FileRefused` if it may not take it."""
    reader, reason = backend.reader, unusable(backend)
    if reader is None or reason is not None:
        raise FileRefused(reason or f"{backend.name} reads no files")
    main = mod["main"]
    types = [p.ty for p in main.params]
    outputs = _tensors(main.ret_ty)
    if (len(types), len(outputs)) != (len(inputs), len(results)):
        raise FileRefused(f"the file has {len(inputs)} inputs and {len(results)} outputs, the "
                          f"module {len(types)} and {len(outputs)}")  # fmt: skip
    dtypes = tuple(str(t.dtype) for t in (*types, *outputs))
    if other := [d for d in dtypes if d not in reader.dtypes]:
        raise FileRefused(f"an input or output has dtype {other[0]}")
    used = list(relax.analysis.free_vars(main.body)) if reader.drops_unused else list(main.params)
    for param, name in zip(main.params, inputs, strict=True):
        if not any(param.same_as(var) for var in used):
            raise FileRefused(f"no operator reads the input {name}, which {backend.name} drops")
    for op in lowered.ops if reader.conditions else ():
        if asserted_copy(op.func) is None and (why := _unmet(op, lowered, backend)) is not None:
            raise FileRefused(why)
    clamped = clamped_inputs(main, lowered) if reader.clamps else frozenset()
    if isinstance(clamped, str):
        raise FileRefused(f"{backend.name}: {clamped}")
    return OnnxModel(f"{backend.name}_file", content, inputs, results, dtypes, clamped)


def _checks(backend: Backend, lowered: Lowered) -> BorderChecks:
    """The checks of indices that run before the file. Raises `FileRefused` if they cannot."""
    if backend.reader is None or backend.reader.checks_indices:
        return BorderChecks()
    checks = border_checks(lowered)
    if isinstance(checks, str):
        raise FileRefused(f"{backend.name}: {checks}")
    return checks


def _tensors(ty: Any) -> list[Any]:
    """The types of results: of one tensor, or of a tuple of tensors."""
    types = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    for t in types:
        shape = getattr(t, "shape", None)
        if not isinstance(t, relax.TensorType) or not isinstance(shape, relax.ShapeExpr):
            raise FileRefused("a result is not a tensor of known shape")
        if not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape.values):
            raise FileRefused("the shape of a result is symbolic")
    return types


def _unmet(op: Op, lowered: Lowered, backend: Backend) -> str | None:
    """Why the backend may not compute an operator of the module; None if it may."""
    recovered = node(op, lowered.infos)
    assert backend.reader is not None
    if recovered is None and backend.reader.takes_unknown:
        return None
    if recovered is None:
        return f"{op.name} was not recovered, so that its numbers have no bounds"
    for condition in backend.reader.conditions:
        reason = condition(recovered)
        if reason is not None and reason is not True:
            return str(getattr(reason, "reason", reason))
    return None


def _code(backend: Backend, model: OnnxModel) -> Code:
    assert backend.reader is not None
    try:
        with foreign():
            return backend.reader.convert(model)
    except ForeignError as error:
        raise FileRefused(str(error)) from error


def _dispatched(
    mod: Any, backend: Backend, code: Code, lowered: Lowered, symbol: str, checks: BorderChecks
) -> Dispatched:
    """The module that only calls the file, and what it replaces; its plan is empty."""
    flop = sum(flops(lowered.infos[op], op) for op in lowered.ops)
    staying = {value.producer for value in checks.results}
    names = tuple(_name(op, lowered) for op in lowered.ops if op not in staying)
    nodes = tuple(dict.fromkeys(op.node for op in lowered.ops if op.node))
    region = OffloadedRegion(symbol, backend.name, FILE, names, flop, nodes=nodes)
    module = attached(_calling(mod["main"], symbol, checks), [code])
    nothing = DispatchPlan("", {}, (), "optimal")
    return Dispatched(module, (region,), (), code.options, "optimal", nothing, flop)


def _name(op: Op, lowered: Lowered) -> str:
    info = lowered.infos[op].info
    return info.name if isinstance(info, OpInfo) else op.name


def _calling(main: Any, symbol: str, checks: BorderChecks) -> Any:
    """A module whose ``main`` runs checks, and passes its parameters to a function of this name."""
    params = [relax.Var(p.name, p.ty) for p in main.params]
    types = _tensors(main.ret_ty)
    builder = relax.BlockBuilder()
    with builder.function("main", params, attrs={"num_input": len(params)}):
        with builder.dataflow():
            operands = relax.Tuple(checks.emit(builder, params))
            call = relax.call_dps_packed(symbol, operands,
                                         out_ty=types if len(types) > 1 else types[0])  # fmt: skip
            out = builder.emit(call)
            if isinstance(main.ret_ty, relax.TupleType) and len(types) == 1:
                out = relax.Tuple([out])
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return builder.get()
