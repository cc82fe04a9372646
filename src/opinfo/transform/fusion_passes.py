"""Passes that fuse or replace recognised calls."""

from __future__ import annotations

from typing import Any

from .module_pass import module_pass


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
    from ..byoc.fusion.dispatch_attention import dispatch_attention

    return module_pass("DispatchAttention", dispatch_attention)


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
    from ..byoc.fusion.fuse_dequantize import fuse_dequantize

    return module_pass("FuseDequantize", fuse_dequantize)


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
    from ..byoc.fusion.fuse_qkv import fuse_qkv

    return module_pass("FuseQKV", fuse_qkv)


def FuseTransposeMatmul() -> Any:
    """Fuse transposes into the products that read them, so that no transposed copy is stored.

    A transpose is recognised as ``permute_dims`` of the last two axes, a product as ``matmul`` or
    `relax.nn.transposed_matmul`, perhaps with elementwise steps after it. The product then reads
    the stored operand, with each sum in its order: results are bit-equal. A transpose that
    is read elsewhere too stays there. Run the pass after ``LegalizeOps``.

    Before / After::

        t = R.call_tir(cls.f, (w,), …)        y = R.call_tir(cls.g_1, (x, w), …)
        y = R.call_tir(cls.g, (x, t), …)

    Returns:
        The pass.
    """
    from ..byoc.fusion.fuse_transpose_matmul import fuse_transpose_matmul

    return module_pass("FuseTransposeMatmul", fuse_transpose_matmul)
