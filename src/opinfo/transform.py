"""The passes, for a `tvm.transform.Sequential`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import tvm

from .analysis.annotate import annotate
from .byoc.raise_ops import check_kind, raise_ops

__all__ = ["AnnotateOpInfo", "RaiseOps"]


def AnnotateOpInfo() -> Any:
    """What each PrimFunc computes as its function attributes `opinfo.ops`, `opinfo.kind`, ...

    A fused PrimFunc gets the chain of its operators. `opinfo.body` is the hash of the body that the
    attributes are about: `opinfo.analysis.annotation` reads them only while it holds, and running
    the pass again derives what changed. `op_pattern` is set where it is missing or kOpaque, so that
    packed PrimFuncs fuse: run the pass between `AnnotateTIROpPattern` and `FuseOps`. The input
    module is not changed.
    """

    @tvm.transform.module_pass(opt_level=0, name="opinfo.AnnotateOpInfo")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return annotate(mod)

    return run


def RaiseOps(
    certificate: str = "proved", *, exact: bool = False, ops: Collection[str] | None = None
) -> Any:
    """`call_tir` on recognised PrimFuncs becomes the Relax operator again.

    `certificate` is the least kind to accept (`tested` < `real` < `proved` < `rebuilt`), `exact`
    asks for bit-equal results, `ops` restricts what is raised. Calls that are not raised stay as
    they are; `opinfo.byoc.raise_ops.raise_ops` says why. The input module is not changed.
    Raises `ValueError` for an unknown kind of certificate.
    """
    check_kind(certificate)

    @tvm.transform.module_pass(opt_level=0, name="opinfo.RaiseOps")  # type: ignore[untyped-decorator]
    def run(mod: Any, _: Any) -> Any:
        return raise_ops(mod, certificate=certificate, exact=exact, ops=ops).module

    return run
