"""One convolution and one softmax in many forms: what the lifter must see through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from opinfo.analysis.support.ir.deep_copy import copied

from ...common.prim_funcs import lowered

Schedule = Any
CONV, PAD = "conv2d_nchw", "pad_temp"


def conv2d() -> Any:
    """8 input channels, 16 output channels, 3x3, stride 2, padding 1."""
    return lowered(
        lambda x, w: relax.op.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1)),
        (1, 8, 16, 16),
        (16, 8, 3, 3),
    )


def softmax() -> Any:
    return lowered(lambda x: relax.op.nn.softmax(x, axis=-1), (4, 8, 16))


def scheduled(func: Any, transform: Callable[[Schedule], None]) -> Any:
    """A transformed copy; the schedule works on its own copy of the body."""
    own = copied(func).with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": own}))
    transform(schedule)
    return schedule.mod["main"]


def _loops(s: Schedule, block: str = CONV) -> Any:
    return s.get_loops(s.get_sblock(block))


def unchanged(s: Schedule) -> None:
    """The program without a change."""


def tiled(s: Schedule) -> None:
    _, f, _, x, c, _, _ = _loops(s)
    (_, f1), (x0, x1), (c0, _) = s.split(f, [4, 4]), s.split(x, [4, 2]), s.split(c, [2, 4])
    s.reorder(x0, c0, x1, f1)


def split_unevenly(s: Schedule) -> None:
    _, f, _, _, _, ry, _ = _loops(s)
    s.split(f, [None, 3])
    s.split(ry, [None, 2])


def fused_spatial(s: Schedule) -> None:
    s.fuse(*_loops(s)[:4])


def fused_reduction(s: Schedule) -> None:
    s.fuse(*_loops(s)[4:])


def padding_inlined(s: Schedule) -> None:
    s.compute_inline(s.get_sblock(PAD))


def cached(s: Schedule) -> None:
    block = s.get_sblock(CONV)
    s.cache_write(block, 0, "local")
    s.cache_read(block, 1, "shared")


def padding_inside(s: Schedule) -> None:
    s.compute_at(s.get_sblock(PAD), _loops(s)[2])


def padding_in_tiles(s: Schedule) -> None:
    _, _, y, x, *_ = _loops(s)
    (y0, y1), (x0, x1) = s.split(y, [4, 2]), s.split(x, [2, 4])
    s.reorder(y0, x0, y1, x1)
    s.compute_at(s.get_sblock(PAD), x0)


def init_apart(s: Schedule) -> None:
    s.decompose_reduction(s.get_sblock(CONV), _loops(s)[4])


def partial_sums(s: Schedule) -> None:
    s.rfactor(_loops(s)[4], 0)


def annotated(s: Schedule) -> None:
    _, f, _, x, c, ry, rx = _loops(s)
    s.reorder(c, ry, rx, x)
    s.vectorize(x)
    s.parallel(f)
    s.unroll(rx)


def on_threads(s: Schedule) -> None:
    _, f, y, x, *_ = _loops(s)
    outer, inner = s.split(s.fuse(f, y, x), [None, 32])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    shared = s.cache_read(s.get_sblock(CONV), 0, "shared")
    s.compute_at(shared, _loops(s)[2])


def stage_relaid(s: Schedule) -> None:
    s.transform_layout(s.get_sblock(PAD), ("write", 0), lambda n, c, h, w: (n, h, w, c))


def stage_packed_with_padding(s: Schedule) -> None:
    s.transform_layout(
        s.get_sblock(PAD), ("write", 0), lambda n, c, h, w: (n, c // 3, h, w, c % 3), pad_value=0.0
    )


def consumer_inside(s: Schedule) -> None:
    cache = s.cache_write(s.get_sblock(CONV), 0, "local")
    s.reverse_compute_at(cache, _loops(s)[3])


SAME_CONV = [
    tiled, split_unevenly, fused_spatial, fused_reduction, padding_inlined, cached, padding_inside,
    padding_in_tiles, init_apart, partial_sums, annotated, on_threads, stage_relaid,
    stage_packed_with_padding, consumer_inside,
]  # fmt: skip


def exp_inlined(s: Schedule) -> None:
    s.compute_inline(s.get_sblock("T_softmax_exp"))


def rows_at_once(s: Schedule) -> None:
    row = _loops(s, "T_softmax_norm")[1]
    for block in ("T_softmax_expsum", "T_softmax_exp", "T_softmax_maxelem"):
        s.compute_at(s.get_sblock(block), row)


SAME_SOFTMAX = [exp_inlined, rows_at_once]


def relaid(data: Any = None, kernel: Any = None, out: Any = None) -> Callable[[Schedule], None]:
    """Move the convolution's buffers to other layouts, given as ``(index map, pad value)``."""

    def transform(s: Schedule) -> None:
        for block, buffer, wanted in (
            (PAD, ("read", 0), data), (CONV, ("read", 1), kernel), (CONV, ("write", 0), out),
        ):  # fmt: skip
            if wanted is not None:
                index_map, pad = wanted
                extra = {} if pad is None else {"pad_value": pad}
                s.transform_layout(s.get_sblock(block), buffer, index_map, **extra)

    return transform


NCHW4c = (lambda n, c, h, w: (n, c // 4, h, w, c % 4), None)
NCHW3c = (lambda n, c, h, w: (n, c // 3, h, w, c % 3), 0.0)
NHWC = (lambda n, c, h, w: (n, h, w, c), None)
OHWI = (lambda o, i, h, w: (o, h, w, i), None)
OIHW4i8o = (lambda o, i, h, w: (o // 8, i // 4, h, w, i % 4, o % 8), None)

LAYOUTS = [
    (relaid(out=NCHW4c), ("NCHW", "OIHW", "NCHW4c")),
    (relaid(data=NCHW4c), ("NCHW4c", "OIHW", "NCHW")),
    (relaid(data=NCHW4c, out=NCHW4c), ("NCHW4c", "OIHW", "NCHW4c")),
    (relaid(data=NCHW4c, kernel=OIHW4i8o, out=NCHW4c), ("NCHW4c", "OIHW4i8o", "NCHW4c")),
    (relaid(data=NHWC, out=NHWC), ("NHWC", "OIHW", "NHWC")),
    (relaid(kernel=OHWI), ("NCHW", "OHWI", "NCHW")),
    (relaid(out=NHWC), ("NCHW", "OIHW", "NHWC")),
    (relaid(data=NCHW3c), ("NCHW3c", "OIHW", "NCHW")),
    (relaid(out=NCHW3c), ("NCHW", "OIHW", "NCHW3c")),
]
