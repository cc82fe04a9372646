"""Passes for symbolic shapes, and for the caches that grow with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .module_pass import module_pass

if TYPE_CHECKING:
    from ..jit.config.strategy import Config, Strategy


def AppendToCaches() -> Any:
    """Write keys and values into caches in place, where a function returns them with new rows.

    A cache is a parameter that the function returns with new rows: behind it, behind its last rows,
    or in place of those at positions that are an input. The caches are then not results. If rows
    are appended, the parameter gets room behind the rows in use, and the function a parameter with
    their number; if it drops the first rows, also with the first one in use. Rows at positions
    outside of the cache are dropped. `opinfo.Session.start` keeps caches between calls. Functions
    without caches do not change. The module must be in Relax operators: `RaiseOps` raises a
    lowered one.

    Before: ``main(ids, keys: (1, h, p, d)) -> (logits, concat((keys, new), axis=2))``
    After:  ``main(ids, keys: (1, h, c, d), cache_length: Shape([p])) -> logits``

    Returns:
        The pass. It raises ``ValueError`` for a module without such a function.
    """

    def run(mod: Any) -> Any:
        from ..jit.caches.append_in_place import append_in_place

        return append_in_place(mod)

    return module_pass("AppendToCaches", run)


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
    from ..jit.config.strategy import checked_config

    settings = checked_config(strategy)

    def run(mod: Any) -> Any:
        from ..jit.compile.specialize import specialize_shapes

        return specialize_shapes(mod, settings, target).module

    return module_pass("SpecializeShapes", run)
