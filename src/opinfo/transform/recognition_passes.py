"""Passes that recognise the operators of PrimFuncs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..analysis.annotate import annotate
from ..byoc.prepare.raising.raise_ops import check_requirements, raise_ops
from .module_pass import module_pass


def AnnotateOpInfo() -> Any:
    """Annotate each PrimFunc with its operators (attributes ``opinfo.ops``, ``opinfo.kind``).

    A fused PrimFunc gets the chain of its operators. ``opinfo.body`` is the hash of the annotated
    body: `opinfo.analysis.annotation` ignores attributes with another hash, and the pass updates
    them. ``op_pattern`` is set if a better pattern kind is proved, so that PrimFuncs in other
    layouts fuse. Run the pass between ``AnnotateTIROpPattern`` and ``FuseOps``.

    Returns:
        The pass.
    """

    return module_pass("AnnotateOpInfo", annotate)


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

    return module_pass("RaiseOps", run)
