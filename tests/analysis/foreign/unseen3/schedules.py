"""What schedules leave behind: predicates, staged buffers, partial reductions, lowered blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import s_tir, te, tirx, topi

from ..case import Foreign, tensors
from .programs import lowered, scheduled

Schedule = Any


def _product(m: int, n: int, k: int) -> Callable[[], Any]:
    def compute(a: Any, b: Any) -> Any:
        r = te.reduce_axis((0, k), "r")
        return te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")

    return tensors(compute, f"{m},{k}", f"{k},{n}")


def _conv(x: Any, w: Any) -> Any:
    return topi.nn.conv2d_nchw(x, w, 1, 1, 1)


CONV = tensors(_conv, "1,4,7,7", "6,4,3,3")
SOFTMAX = tensors(lambda x: topi.nn.softmax(x, 1), "6,40")
SUM = tensors(lambda x: topi.sum(x, 1), "6,40")
POOL = tensors(lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), "1,3,9,9")
ADD = tensors(lambda x, y: topi.add(x, y), "6,17", "6,17")
NORM = tensors(lambda x, g, b: topi.nn.layer_norm(x, g, b, (1,), 1e-5), "6,32", "32", "32")
PROD = _product(16, 12, 20)


def _blocks(s: Schedule) -> list[Any]:
    return list(s.get_child_blocks(s.get_sblock("root")))


def split_unevenly(s: Schedule) -> None:
    (b,) = _blocks(s)
    i, j, k = s.get_loops(b)
    (io, ii), (jo, ji), (ko, ki) = (
        s.split(i, [None, 5]),
        s.split(j, [None, 8]),
        s.split(k, [None, 7]),
    )
    s.reorder(io, jo, ko, ii, ki, ji)
    s.vectorize(ji)
    s.parallel(io)
    s.decompose_reduction(b, ko)


def staged_and_decomposed(s: Schedule) -> None:
    (b,) = _blocks(s)
    c = s.cache_write(b, 0, "local")
    i, j, k = s.get_loops(b)
    (io, ii), (jo, ji) = s.split(i, [4, 4]), s.split(j, [3, 4])
    (ko, ki) = s.split(k, [5, 4])
    s.reorder(io, jo, ko, ii, ki, ji)
    s.reverse_compute_at(c, jo)
    s.unroll(ki)
    s.decompose_reduction(b, ko)


def factored(s: Schedule) -> None:
    (b,) = _blocks(s)
    *_, k = s.get_loops(b)
    _ko, ki = s.split(k, [None, 4])
    s.rfactor(ki, 0)


def threads_and_shared(s: Schedule) -> None:
    (b,) = _blocks(s)
    c = s.cache_write(b, 0, "local")
    i, j, k = s.get_loops(b)
    io, ii = s.split(i, [None, 4])
    jo, ji = s.split(j, [None, 4])
    ko, _ = s.split(k, [None, 5])
    s.reorder(io, jo, ii, ji, ko)
    s.bind(io, "blockIdx.y")
    s.bind(jo, "blockIdx.x")
    s.bind(ii, "threadIdx.y")
    s.bind(ji, "threadIdx.x")
    s.reverse_compute_at(c, ji)
    for place in (0, 1):
        read = s.cache_read(b, place, "shared")
        s.compute_at(read, ko)
        fused = s.fuse(*s.get_loops(read)[-2:])
        _, ty, tx = s.split(fused, [None, 4, 4])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
        s.storage_align(read, 0, 0, 8, 1)
        s.annotate(read, "double_buffer_scope", 0)
    s.decompose_reduction(b, s.get_loops(b)[4])


def blocked(s: Schedule) -> None:
    (b,) = _blocks(s)
    i, j, k = s.get_loops(b)
    (io, ii), (jo, ji), (ko, ki) = (
        s.split(i, [None, 4]),
        s.split(j, [None, 4]),
        s.split(k, [None, 4]),
    )
    s.reorder(io, jo, ko, ii, ji, ki)
    s.blockize(ii)


def blocked_and_decomposed(s: Schedule) -> None:
    (b,) = _blocks(s)
    i, j, k = s.get_loops(b)
    (io, ii), (jo, ji), (ko, ki) = (
        s.split(i, [None, 4]),
        s.split(j, [None, 4]),
        s.split(k, [None, 4]),
    )
    s.reorder(io, jo, ko, ii, ji, ki)
    outer = s.blockize(ii)
    s.decompose_reduction(outer, ko)


def pipelined(s: Schedule) -> None:
    (b,) = _blocks(s)
    i, j, k = s.get_loops(b)
    ko, _ = s.split(k, [None, 4])
    s.reorder(i, ko, j)
    read = s.cache_read(b, 0, "local")
    s.compute_at(read, ko)
    s.decompose_reduction(b, ko)
    s.annotate(ko, "software_pipeline_stage", [0, 1])
    s.annotate(ko, "software_pipeline_order", [0, 1])


def conv_fused_predicated(s: Schedule) -> None:
    pad, conv = _blocks(s)
    s.compute_inline(pad)
    loops = s.get_loops(conv)
    outer, inner = s.split(s.fuse(*loops[:4]), [None, 32])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    s.split(s.fuse(*s.get_loops(conv)[2:]), [None, 5])


def conv_padded_at_tile(s: Schedule) -> None:
    pad, conv = _blocks(s)
    n, f, y, x, c, ry, rx = s.get_loops(conv)
    yo, yi = s.split(y, [None, 3])
    s.reorder(n, yo, c, ry, rx, f, yi, x)
    s.compute_at(pad, yo)
    s.vectorize(s.get_loops(conv)[-1])


def rows_by_threads(s: Schedule) -> None:
    *stages, last = _blocks(s)
    outer, _inner = s.get_loops(last)
    s.bind(outer, "blockIdx.x")
    for stage in reversed(stages):
        s.compute_at(stage, outer)
    for block in (*stages, last):
        _, tx = s.split(s.get_loops(block)[1], [None, 32])
        s.bind(tx, "threadIdx.x")
    for stage in stages:
        s.set_scope(stage, 0, "shared")


def summed_in_two_stages(s: Schedule) -> None:
    (b,) = _blocks(s)
    _i, k = s.get_loops(b)
    _, ki = s.split(k, [None, 8])
    partial = s.rfactor(ki, 1)
    s.compute_at(partial, s.get_loops(b)[0])
    s.parallel(s.get_loops(b)[0])


def pool_uneven(s: Schedule) -> None:
    *pad, pool = _blocks(s)
    for b in pad:
        s.compute_inline(b)
    loops = s.get_loops(pool)
    outer, _inner = s.split(s.fuse(*loops[:4]), [None, 16])
    s.parallel(outer)
    for loop in s.get_loops(pool)[2:]:
        s.unroll(loop)


def add_vectors(s: Schedule) -> None:
    (b,) = _blocks(s)
    a, t, v = s.split(s.fuse(*s.get_loops(b)), [None, 16, 4])
    s.bind(a, "blockIdx.x")
    s.bind(t, "threadIdx.x")
    s.vectorize(v)


def norm_factored(s: Schedule) -> None:
    first, *_, last = _blocks(s)
    _, k = s.get_loops(first)
    _, ki = s.split(k, [None, 8])
    s.rfactor(ki, 1)
    s.parallel(s.get_loops(last)[0])


_t = s_tir.transform
_GONE = (
    _t.LowerInitBlock(), _t.PlanAndUpdateBufferAllocationLocation(), _t.ConvertBlocksToOpaque(),
    _t.LiftThreadBinding(), _t.CompactBufferAllocation(), _t.UnifyThreadBinding(),
    _t.LowerMatchBuffer(),
)  # fmt: skip
_PIPELINE = (*_GONE, _t.InjectSoftwarePipeline(), _t.LowerOpaqueBlock())
FLAT = (*_GONE, _t.LowerOpaqueBlock(), tirx.transform.FlattenBuffer())
UNROLLED = (
    *FLAT, tirx.transform.VectorizeLoop(), tirx.transform.UnrollLoop(),
    tirx.transform.StmtSimplify(), tirx.transform.RemoveNoOp(),
)  # fmt: skip
_PARTS = (*_GONE, _t.LowerOpaqueBlock(), _t.LoopPartition(), tirx.transform.StmtSimplify())
_ALLREDUCE = (
    _t.LowerCrossThreadReduction(), _t.LowerInitBlock(),
    _t.PlanAndUpdateBufferAllocationLocation(), _t.ConvertBlocksToOpaque(),
    _t.LiftThreadBinding(), _t.CompactBufferAllocation(), _t.UnifyThreadBinding(),
    _t.LowerMatchBuffer(), _t.LowerOpaqueBlock(),
)  # fmt: skip


def _at(step: Callable[[Schedule], None], base: Callable[[], Any]) -> Callable[[], Any]:
    return scheduled(base, step)


_MM = "relax.matmul"
_CONV = {"padding": (1, 1, 1, 1)}
_POOL = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
_LN = {"axes": [1], "epsilon": 1e-5}

CASES = [
    Foreign("product: uneven splits, vectors, decomposed", _at(split_unevenly, PROD), _MM),
    Foreign(
        "product: cached result at its tile, decomposed", _at(staged_and_decomposed, PROD), _MM
    ),
    Foreign("product: rfactor", _at(factored, PROD), _MM),
    Foreign("product: threads, shared tiles that are aligned", _at(threads_and_shared, PROD), _MM),
    Foreign("product: uneven tiles in threads", _at(threads_and_shared, _product(10, 9, 15)), _MM),
    Foreign("product: blockized", _at(blocked, PROD), _MM),
    Foreign("product: blockized, decomposed", _at(blocked_and_decomposed, PROD), _MM),
    Foreign("product: pipelined and lowered", lowered(_at(pipelined, PROD), *_PIPELINE), _MM),
    Foreign(
        "product: uneven splits, partitioned", lowered(_at(split_unevenly, PROD), *_PARTS), _MM
    ),
    Foreign(
        "product: uneven splits, flat and unrolled",
        lowered(_at(split_unevenly, PROD), *UNROLLED),
        _MM,
    ),
    Foreign(
        "product: threads and shared tiles, flat",
        lowered(_at(threads_and_shared, PROD), *FLAT),
        _MM,
    ),
    Foreign(
        "convolution: fused, predicated, threads",
        _at(conv_fused_predicated, CONV),
        "relax.nn.conv2d",
        _CONV,
    ),
    Foreign(
        "convolution: padded at each tile of rows",
        _at(conv_padded_at_tile, CONV),
        "relax.nn.conv2d",
        _CONV,
    ),
    Foreign(
        "convolution: padded at each tile, flat and unrolled",
        lowered(_at(conv_padded_at_tile, CONV), *UNROLLED),
        "relax.nn.conv2d",
        _CONV,
    ),
    Foreign(
        "softmax: rows by threads", _at(rows_by_threads, SOFTMAX), "relax.nn.softmax", {"axis": 1}
    ),
    Foreign(
        "softmax: rows by threads, all-reduce",
        lowered(_at(rows_by_threads, SOFTMAX), *_ALLREDUCE),
        "relax.nn.softmax",
        {"axis": 1},
    ),
    Foreign("sum in two stages", _at(summed_in_two_stages, SUM), "relax.sum", {"axis": [1]}),
    Foreign(
        "sum in two stages, flat",
        lowered(_at(summed_in_two_stages, SUM), *FLAT),
        "relax.sum",
        {"axis": [1]},
    ),
    Foreign(
        "maximum pool: uneven, unrolled",
        lowered(_at(pool_uneven, POOL), *UNROLLED),
        "relax.nn.max_pool2d",
        _POOL,
    ),
    Foreign("addition: vectors in threads with a predicate", _at(add_vectors, ADD), "relax.add"),
    Foreign(
        "addition: vectors in threads, flat", lowered(_at(add_vectors, ADD), *FLAT), "relax.add"
    ),
    Foreign(
        "layer norm: sums of two in parts",
        _at(norm_factored, NORM),
        "relax.nn.layer_norm",
        _LN,
        also={
            "relax.nn.group_norm": {"num_groups": 1, "channel_axis": 1, "axes": [], "epsilon": 1e-5}
        },
    ),
]
