"""Passes for a `tvm.transform.Sequential`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm

from .analysis.annotate import annotate
from .byoc.prepare.raise_ops import check_requirements, raise_ops

if TYPE_CHECKING:
    from .jit.config.strategy import Config, Strategy
    from .layout.model.layout import Layout
    from .layout.planner import Mode
    from .layout.search.decide import Cost

__all__ = [
    "AnnotateOpInfo",
    "AppendToCaches",
    "CancelLayoutTransforms",
    "ConvertLayout",
    "DispatchAttention",
    "FuseDequantize",
    "FuseQKV",
    "FuseTransposeMatmul",
    "PlanLayout",
    "RaiseOps",
    "ReplaceOpImpl",
    "SpecializeShapes",
]

Desired = Mapping[str, Sequence[str] | str]


def AnnotateOpInfo() -> Any:
    """Annotate each PrimFunc with its operators (attributes ``opinfo.ops``, ``opinfo.kind``).

    A fused PrimFunc gets the chain of its operators. ``opinfo.body`` is the hash of the annotated
    body: `opinfo.analysis.annotation` ignores attributes with another hash, and the pass updates
    them. ``op_pattern`` is set if a better pattern kind is proved, so that PrimFuncs in other
    layouts fuse. Run the pass between ``AnnotateTIROpPattern`` and ``FuseOps``.

    Returns:
        The pass.
    """

    return _pass("AnnotateOpInfo", annotate)


def AppendToCaches() -> Any:
    """Write keys and values into caches in place, where a function returns them with new rows.

    A cache is a parameter that the function returns with new rows: behind it, behind its last rows,
    or in place of those at positions that are an input. The caches are no results any more. If rows
    are appended, the parameter gets room behind the rows in use, and the function a parameter with
    their number; if it drops the first rows, also with the first one in use. Rows at positions
    outside of the cache are dropped. `opinfo.Session.start` keeps caches between calls. Functions
    without caches stay as they are. The module must be in Relax operators: `RaiseOps` raises a
    lowered one.

    Before: ``main(ids, keys: (1, h, p, d)) -> (logits, concat((keys, new), axis=2))``
    After:  ``main(ids, keys: (1, h, c, d), cache_length: Shape([p])) -> logits``

    Returns:
        The pass. It raises ``ValueError`` for a module without such a function.
    """

    def run(mod: Any) -> Any:
        from .jit.caches.append_in_place import append_in_place

        return append_in_place(mod)

    return _pass("AppendToCaches", run)


def RaiseOps(
    certificate: str = "proved", *, exact: bool = False, ops: Collection[str] | None = None,
    prefer: Sequence[str] = (),
) -> Any:  # fmt: skip
    """Turn ``call_tir`` on recognised PrimFuncs back into Relax operators.

    Calls without the required certificate stay unchanged.

    Args:
        certificate: The weakest kind to accept: ``tested`` < ``real`` < ``kernel`` < ``extern`` <
            ``proved`` < ``rebuilt``.
        exact: Accept only bit-equal results.
        ops: Raise only these operators, such as ``["nn.conv2d"]``; None for all.
        prefer: Operators to prefer, in order, if several compute the same result.

    Returns:
        The pass.

    Raises:
        TypeError: `ops` or `prefer` is one string.
        ValueError: The kind of certificate or an operator is unknown.
    """
    chosen = ops if ops is None or isinstance(ops, str) else tuple(ops)
    first = prefer if isinstance(prefer, str) else tuple(prefer)
    check_requirements(certificate, exact, chosen, first)

    def run(mod: Any) -> Any:
        return raise_ops(mod, certificate=certificate, exact=exact, ops=chosen, prefer=first).module

    return _pass("RaiseOps", run)


def DispatchAttention() -> Any:
    """Replace attention by one operator, which backends take.

    It is ``relax.nn.attention``, or `relax.nn.grouped_attention` for grouped heads, capped scores
    and a softmax in another dtype. Two products around a softmax, with what scales, masks and
    moves in between, are attention if they are certified as such together: no step has to be one
    of attention alone. So is one PrimFunc that is attention. Lengths may be symbolic, as with a
    contiguous cache. Calls that are not certified stay. Run the pass after ``LegalizeOps`` and
    before ``FuseOps``.

    Before / After::

        s = R.call_tir(cls.f0, (q, k), …)     o = R.nn.attention(q, k, v, scale=0.125)
        p = R.call_tir(cls.f1, (s,), …)
        o = R.call_tir(cls.f2, (p, v), …)

    Returns:
        The pass.
    """
    from .byoc.fusion.dispatch_attention import dispatch_attention

    return _pass("DispatchAttention", dispatch_attention)


def FuseDequantize() -> Any:
    """Fuse dequantisations by group into the product, gather or copy that uses the weight.

    A dequantisation is recognised by its compute (`relax.nn.group_dequantize`), as is its use: a
    product with elementwise steps after it, ``take`` of rows, ``permute_dims`` or ``reshape``. A
    weight with several uses stays a call of its own. Both calls are in one dataflow block. Run the
    pass after ``FuseTIR``, or after ``LegalizeOps``.

    Before / After::

        w = R.call_tir(cls.f, (words, scale), …)    y = R.call_tir(cls.f_g, (words, scale, x), …)
        y = R.call_tir(cls.g, (x, w), …)

    Returns:
        The pass.
    """
    from .byoc.fusion.fuse_dequantize import fuse_dequantize

    return _pass("FuseDequantize", fuse_dequantize)


def FuseQKV() -> Any:
    """Fuse products of one value with several constant weights into one product and a split.

    The products are operators or recognised PrimFuncs: ``matmul`` or `relax.nn.transposed_matmul`
    with a constant matrix, in one dataflow block. Biases stay after the split. Each element is the
    same sum of the same products, in the order in which TVM lowers a product.

    Before / After::

        q = R.matmul(x, wq)                   y = R.matmul(x, concat(wq, wk))
        k = R.matmul(x, wk)                   q, k = R.split(y, [8], axis=-1)

    Returns:
        The pass.
    """
    from .byoc.fusion.fuse_qkv import fuse_qkv

    return _pass("FuseQKV", fuse_qkv)


def FuseTransposeMatmul() -> Any:
    """Fuse transposes into the products that read them, so that no transposed copy is stored.

    A transpose is recognised as ``permute_dims`` of the last two axes, a product as ``matmul`` or
    `relax.nn.transposed_matmul`, perhaps with elementwise steps after it. The product then reads
    the operand as it is stored, with each sum in its order: results are bit-equal. A transpose that
    is read elsewhere too stays there. Run the pass after ``LegalizeOps``.

    Before / After::

        t = R.call_tir(cls.f, (w,), …)        y = R.call_tir(cls.g_1, (x, w), …)
        y = R.call_tir(cls.g, (x, t), …)

    Returns:
        The pass.
    """
    from .byoc.fusion.fuse_transpose_matmul import fuse_transpose_matmul

    return _pass("FuseTransposeMatmul", fuse_transpose_matmul)


def PlanLayout(
    desired: Desired | str | None = None,
    mode: Mode = "tir",
    *,
    objective: str | Cost = "bytes",
    pins: Mapping[str, str] | None = None,
) -> Any:
    """Plan the cheapest layouts of a lowered module that satisfy the desired ones.

    Args:
        desired: Layouts by operator, or an implementation such as ``"tvm-nhwc"``; see
            `plan_layout`.
        mode: ``"graph"`` or ``"tir"``; see `plan_layout`.
        objective: ``"bytes"``, ``"count"`` or a cost function; see `plan_layout`.
        pins: Fixed layouts of parameters, by name.

    Returns:
        The pass.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An operator, a layout or an option is unknown.
    """
    from .layout.plan import check_arguments, plan_layout

    check_arguments(desired, mode, objective)

    def run(mod: Any) -> Any:
        return plan_layout(mod, desired, mode=mode, objective=objective, pins=pins).module

    return _pass("PlanLayout", run)


def ConvertLayout(
    desired_layouts: Mapping[str, Sequence[str]],
    layout_cb: Callable[..., Any] | None = None,
) -> Any:
    """Convert layouts by planning, with the signature of `relax.transform.ConvertLayout`.

    The module is legalised, planned in graph mode and raised; calls that cannot be raised stay
    ``call_tir``.

    Args:
        desired_layouts: Layouts by operator, ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``.
        layout_cb: Must be None: it is a callback for Relax calls, which lowering replaces.

    Returns:
        The pass.

    Raises:
        ValueError: `layout_cb` is not None, or an operator or a layout is unknown.
    """
    from .layout.plan import check_arguments, plan_layout

    if layout_cb is not None:
        raise ValueError("ConvertLayout: layout_cb is not supported; use desired_layouts")
    check_arguments(desired_layouts, "graph", "bytes")

    def run(mod: Any) -> Any:
        lowered = tvm.relax.transform.LegalizeOps()(mod)
        return raise_ops(plan_layout(lowered, desired_layouts, mode="graph").module).module

    return _pass("ConvertLayout", run)


def ReplaceOpImpl(op: str, prim_func: Any, layouts: Sequence[Layout | str | None]) -> Any:
    """Use a PrimFunc for an operator wherever it provably computes the same result.

    Operators are recognised by their compute, not by an attribute. Conversions are planned.

    Args:
        op: The operator's Relax name.
        prim_func: The PrimFunc to use.
        layouts: The layout of each of its buffers, in the order of its parameters: a string over
            the operator's own layout (``NHWC``), a `Layout`, or None to keep the layout.

    Returns:
        The pass. It warns, with the reason, if it replaces nothing.

    Raises:
        TypeError: `prim_func` is not a PrimFunc.
        ValueError: The operator is unknown, or `layouts` are not one for each parameter.
    """
    from .layout.plan import implementation, not_replaced, plan_layout

    replacement = implementation(op, prim_func, layouts)

    def run(mod: Any) -> Any:
        planned = plan_layout(mod, implementations=[replacement])
        reason = not_replaced(planned.report, replacement)
        if reason is not None:
            warnings.warn(f"ReplaceOpImpl: {reason}", stacklevel=3)
        return planned.module

    return _pass("ReplaceOpImpl", run)


def CancelLayoutTransforms() -> Any:
    """Remove pairs of layout conversions that are provably inverse.

    Returns:
        The pass.
    """
    from .layout.apply.cancel import cancel_layout_transforms

    return _pass("CancelLayoutTransforms", cancel_layout_transforms)


def SpecializeShapes(strategy: Config | Strategy | str = "jit", target: Any = "llvm") -> Any:
    """Compile each PrimFunc with symbolic shapes by a strategy; run it after ``FuseTIR``.

    Before: lv = R.call_tir(cls.fused_matmul_relu, (x, w), out_ty=R.Tensor((n, 64)))
    After:  lv = R.call_dps_packed("opinfo_site_0", (x, w), out_ty=R.Tensor((n, 64)))

    This is the result for ``jit`` and ``record``; their module contains C++ code of call sites, so
    export it with ``export_library`` and serve it with `opinfo.Session`. For ``generic`` and
    ``aot``, calls stay and the PrimFunc changes.

    Args:
        strategy: A strategy, its name, or a `Config`.
        target: TVM's target.

    Returns:
        The pass.

    Raises:
        ValueError: The strategy is unknown or invalid.
    """
    from .jit.config.strategy import checked_config

    settings = checked_config(strategy)

    def run(mod: Any) -> Any:
        from .jit.compile.specialize import specialize_shapes

        return specialize_shapes(mod, settings, target).module

    return _pass("SpecializeShapes", run)


def _pass(name: str, run: Callable[[Any], Any]) -> Any:
    """Return a module pass of this name that applies a function."""
    return tvm.transform.module_pass(lambda mod, _: run(mod), opt_level=0, name=f"opinfo.{name}")
