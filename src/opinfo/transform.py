"""The passes, for a `tvm.transform.Sequential`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm

from .analysis.annotate import annotate
from .byoc.prepare.raise_ops import check_kind, raise_ops

if TYPE_CHECKING:
    from .jit.config.strategy import Config, Strategy
    from .layout.model.layout import Layout
    from .layout.planner import Mode
    from .layout.search.decide import Cost

__all__ = [
    "AnnotateOpInfo",
    "CancelLayoutTransforms",
    "ConvertLayout",
    "PlanLayout",
    "RaiseOps",
    "ReplaceOpImpl",
    "SpecializeShapes",
]

Desired = Mapping[str, Sequence[str] | str]


def AnnotateOpInfo() -> Any:
    """What each PrimFunc computes as its function attributes `opinfo.ops`, `opinfo.kind`, ...

    A fused PrimFunc gets the chain of its operators. `opinfo.body` is the hash of the body that the
    attributes are about: `opinfo.analysis.annotation` reads them only while it holds, and running
    the pass again derives what changed. `op_pattern` is set where the kind is known to be better,
    so that PrimFuncs in other layouts fuse: run the pass between `AnnotateTIROpPattern` and
    `FuseOps`. The input module is not changed.
    """

    @tvm.transform.module_pass(opt_level=0, name="opinfo.AnnotateOpInfo")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return annotate(mod)

    return run


def RaiseOps(
    certificate: str = "proved", *, exact: bool = False, ops: Collection[str] | None = None,
    prefer: Sequence[str] = (),
) -> Any:  # fmt: skip
    """`call_tir` on recognised PrimFuncs becomes the Relax operator again.

    `certificate` is the least kind to accept (`tested` < `real` < `proved` < `rebuilt`), `exact`
    asks for bit-equal results, `ops` restricts what is raised, and of several operators that
    compute the same the first of `prefer` is taken, else the usual one. Calls that are not raised
    stay as they are; `opinfo.byoc.prepare.raise_ops.raise_ops` says why. The input module is not
    changed.
    Raises `ValueError` for an unknown kind of certificate.
    """
    check_kind(certificate)

    @tvm.transform.module_pass(opt_level=0, name="opinfo.RaiseOps")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return raise_ops(mod, certificate=certificate, exact=exact, ops=ops, prefer=prefer).module

    return run


def PlanLayout(
    desired: Desired | str | None = None,
    mode: Mode = "tir",
    *,
    objective: str | Cost = "bytes",
    pins: Mapping[str, str] | None = None,
) -> Any:
    """The cheapest layouts of all values that give `desired` operators theirs, after `LegalizeOps`.

    `desired` may also name an implementation, `"tvm-nhwc"`. See `opinfo.layout.plan_layout`, which
    also says why. The input module is not changed.
    Raises `TypeError` / `ValueError` for arguments that make no sense.
    """
    from .layout.plan import check_arguments, plan_layout

    check_arguments(desired, mode, objective)

    @tvm.transform.module_pass(opt_level=0, name="opinfo.PlanLayout")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return plan_layout(mod, desired, mode=mode, objective=objective, pins=pins).module

    return run


def ConvertLayout(
    desired_layouts: Mapping[str, Sequence[str]],
    layout_cb: Callable[..., Any] | None = None,
) -> Any:
    """`relax.transform.ConvertLayout` by planning: Relax operators in, Relax operators out.

    The module is legalised, planned in graph mode and raised again; what is no Relax operator stays
    a `call_tir`. A `layout_cb` is refused: it is asked about calls that are gone after lowering.
    """
    from .layout.plan import check_arguments, plan_layout

    if layout_cb is not None:
        raise ValueError("ConvertLayout: a layout_cb is not supported; give desired_layouts")
    check_arguments(desired_layouts, "graph", "bytes")

    @tvm.transform.module_pass(opt_level=0, name="opinfo.ConvertLayout")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        lowered = tvm.relax.transform.LegalizeOps()(mod)
        return raise_ops(plan_layout(lowered, desired_layouts, mode="graph").module).module

    return run


def ReplaceOpImpl(op: str, prim_func: Any, layouts: Sequence[Layout | str | None]) -> Any:
    """Use `prim_func` wherever it is proved to compute what the PrimFunc of an `op` does.

    `layouts` are those of its buffers, in the order of its parameters: strings over the operator's
    own layout (`NHWC`), layouts, or None for one that stays as it is. Conversions around the
    operator are planned. Operators are found by their compute, not by an attribute; one for which
    equality is not proved stays as it is.
    """
    from .layout.plan import implementation, plan_layout

    given = implementation(op, prim_func, layouts)

    @tvm.transform.module_pass(opt_level=0, name="opinfo.ReplaceOpImpl")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return plan_layout(mod, implementations=[given]).module

    return run


def CancelLayoutTransforms() -> Any:
    """Conversions that are proved to undo each other go; see `opinfo.layout.apply.cancel`."""
    from .layout.apply.cancel import cancel_layout_transforms

    @tvm.transform.module_pass(opt_level=0, name="opinfo.CancelLayoutTransforms")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return cancel_layout_transforms(mod)

    return run


def SpecializeShapes(strategy: Config | Strategy | str = "jit", target: Any = "llvm") -> Any:
    """Each PrimFunc with symbolic shapes gets a strategy: to run after `FuseTIR`.

    Before: lv = R.call_tir(cls.fused_matmul_relu, (x, w), out_ty=R.Tensor((n, 64)))
    After:  lv = R.call_dps_packed("opinfo_site_0", (x, w), out_ty=R.Tensor((n, 64)))

    for `jit` and `record`; for `generic` and `aot` calls stay and the PrimFunc is another. The
    calls' code is C++ that the module carries: a library needs `export_library`, and
    `opinfo.jit.Session` serves it. The input module is not changed. Raises `ValueError` for what is
    no strategy.
    """
    from .jit.config.strategy import config

    given = config(strategy)

    @tvm.transform.module_pass(opt_level=0, name="opinfo.SpecializeShapes")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        from .jit.compile.specialize import specialize_shapes

        return specialize_shapes(mod, given, target).module

    return run
