"""Data movement, pads and gathers written by hand."""

from __future__ import annotations

from tvm import topi

from ..case import Foreign, script

nn = topi.nn

#: Channels are ``c * 4 + dy * 2 + dx``.
_SHUFFLED = (
    "T.index_map(lambda i0, i1, i2, i3: (i0, i1 // T.int64(4), i2 * T.int64(2) + "
    "i1 // T.int64(2) % T.int64(2), i3 * T.int64(2) + i1 % T.int64(2)))"
)

CASES = [
    Foreign(
        "transpose, fused loop",
        script("x 4,6; out 6,4", "for f in range(24):\n    out[f % 6, f // 6] = x[f // 6, f % 6]"),
        "relax.permute_dims",
        {"axes": [1, 0]},
    ),
    Foreign(
        "transpose in tiles",
        script(
            "x 8,8; out 8,8",
            """
            for io, jo, ii, ji in T.grid(2, 2, 4, 4):
                out[jo * 4 + ji, io * 4 + ii] = x[io * 4 + ii, jo * 4 + ji]
            """,
        ),
        "relax.permute_dims",
        {"axes": [1, 0]},
    ),
    Foreign(
        "transpose through a flat buffer",
        script(
            "x 2,3,4; out 4,2,3",
            """
        t = T.alloc_buffer((24,))
        for f in range(24):
            t[f] = x[f // 12, f % 12 // 4, f % 4]
        for k, i, j in T.grid(4, 2, 3):
            out[k, i, j] = t[i * 12 + j * 4 + k]
        """,
        ),
        "relax.permute_dims",
        {"axes": [2, 0, 1]},
    ),
    Foreign(
        "reshape by div and mod",
        script(
            "x 4,6; out 3,8",
            "for i, j in T.grid(3, 8):\n    out[i, j] = x[(i * 8 + j) // 6, (i * 8 + j) % 6]",
        ),
        "relax.reshape",
        {"shape": [3, 8]},
    ),
    Foreign(
        "reshape written from the input",
        script("x 4,6; out 24", "for i, j in T.grid(4, 6):\n    out[i * 6 + j] = x[i, j]"),
        "relax.reshape",
        {"shape": [24]},
        also=("relax.flatten",),
    ),
    Foreign(
        "broadcast",
        script("x 4,1; out 2,4,6", "for a, i, j in T.grid(2, 4, 6):\n    out[a, i, j] = x[i, 0]"),
        "relax.broadcast_to",
        {"shape": [2, 4, 6]},
    ),
    Foreign(
        "slice with a stride",
        script("x 10,4; out 3,4", "for i, j in T.grid(3, 4):\n    out[i, j] = x[i * 3 + 1, j]"),
        "relax.strided_slice",
        {"axes": [0], "begin": [1], "end": [10], "strides": [3]},
    ),
    Foreign(
        "flip",
        script("x 4,6; out 4,6", "for i, j in T.grid(4, 6):\n    out[i, j] = x[i, 5 - j]"),
        "relax.flip",
        {"axis": 1},
    ),
    Foreign(
        "concat by two copies",
        script(
            "a 2,3; b 2,5; out 2,8",
            """
        for i, j in T.grid(2, 3):
            out[i, j] = a[i, j]
        for i, j in T.grid(2, 5):
            out[i, j + 3] = b[i, j]
        """,
        ),
        "relax.concat",
        {"axis": 1},
    ),
    Foreign(
        "concat by if_then_else",
        script(
            "a 2,3; b 2,5; out 2,8",
            "for i, j in T.grid(2, 8):\n  out[i, j] = T.if_then_else(j < 3, a[i, j], b[i, j - 3])",
        ),
        "relax.concat",
        {"axis": 1},
    ),
    Foreign(
        "stack by copies",
        script(
            "a 2,3; b 2,3; out 2,2,3",
            """
        for i, j in T.grid(2, 3):
            out[0, i, j] = a[i, j]
            out[1, i, j] = b[i, j]
        """,
        ),
        "relax.stack",
        {"axis": 0},
    ),
    Foreign(
        "split into two outputs",
        script(
            "x 6,4; a 2,4; b 4,4",
            """
        for i, j in T.grid(2, 4):
            a[i, j] = x[i, j]
        for i, j in T.grid(4, 4):
            b[i, j] = x[i + 2, j]
        """,
        ),
        "relax.split",
        {"indices_or_sections": [2], "axis": 0},
    ),
    Foreign(
        "repeat",
        script("x 3,4; out 6,4", "for i, j in T.grid(6, 4):\n    out[i, j] = x[i // 2, j]"),
        "relax.repeat",
        {"repeats": 2, "axis": 0},
    ),
    Foreign(
        "tile",
        script("x 3,4; out 6,12", "for i, j in T.grid(6, 12):\n    out[i, j] = x[i % 3, j % 4]"),
        "relax.tile",
        {"repeats": [2, 3]},
    ),
    Foreign(
        "space to depth by hand",
        script(
            "x 1,2,4,4; out 1,8,2,2",
            """
            for c, i, j in T.grid(8, 2, 2):
                out[0, c, i, j] = x[0, c % 2, i * 2 + c // 4, j * 2 + c // 2 % 2]
            """,
        ),
        "relax.layout_transform",
        {
            "index_map": "T.index_map(lambda i0, i1, i2, i3: (i0, i2 % T.int64(2) * T.int64(4) + "
            "i3 % T.int64(2) * T.int64(2) + i1, i2 // T.int64(2), i3 // T.int64(2)))"
        },
    ),
    Foreign(
        "pixel shuffle by hand",
        script(
            "x 1,8,3,3; out 1,2,6,6",
            """
            for c, i, j in T.grid(2, 6, 6):
                out[0, c, i, j] = x[0, c * 4 + i % 2 * 2 + j % 2, i // 2, j // 2]
            """,
        ),
        "relax.nn.pixel_shuffle",
        {"upscale_factor": 2},
        also={"relax.layout_transform": {"index_map": _SHUFFLED}},
    ),
    Foreign(
        "pad by zeroing and copying",
        script(
            "x 4,6; out 6,9",
            """
        for i, j in T.grid(6, 9):
            out[i, j] = T.float32(0)
        for i, j in T.grid(4, 6):
            out[i + 1, j + 2] = x[i, j]
        """,
        ),
        "relax.nn.pad",
        {"pad_width": [1, 1, 2, 1], "pad_value": 0.0},
    ),
    Foreign(
        "pad with Select and clamped reads",
        script(
            "x 4,6; out 6,6",
            """
        for i, j in T.grid(6, 6):
            out[i, j] = T.Select(1 <= i and i < 5, x[T.min(T.max(i - 1, 0), 3), j], T.float32(2))
        """,
        ),
        "relax.nn.pad",
        {"pad_width": [1, 1, 0, 0], "pad_value": 2.0},
    ),
    Foreign(
        "replicate pad by clamping",
        script(
            "x 4,6; out 8,6",
            "for i, j in T.grid(8, 6):\n    out[i, j] = x[T.min(T.max(i - 2, 0), 3), j]",
        ),
        "relax.nn.pad",
        {"pad_width": [2, 2, 0, 0], "pad_mode": "replicate"},
    ),
    Foreign(
        "rows by index",
        script(
            "x 5,4; k int32 3; out 3,4", "for i, j in T.grid(3, 4):\n    out[i, j] = x[k[i], j]"
        ),
        "relax.take",
        {"axis": 0, "mode": "fast"},
    ),
    Foreign(
        "lower triangle by an if",
        script(
            "x 5,5; out 5,5",
            """
        for i, j in T.grid(5, 5):
            out[i, j] = T.float32(0)
            if j <= i:
                out[i, j] = x[i, j]
        """,
        ),
        "relax.tril",
        {"k": 0},
    ),
    Foreign(
        "one hot by an if",
        script(
            "k int32 5; out 5,7",
            """
        for i, j in T.grid(5, 7):
            out[i, j] = T.float32(0)
        for i, j in T.grid(5, 7):
            if k[i] == j:
                out[i, j] = T.float32(1)
        """,
        ),
        "relax.one_hot",
        {"depth": 7, "axis": 1, "on_value": 1.0, "off_value": 0.0},
    ),
    Foreign(
        "the diagonal",
        script("x 5,5; out 5", "for i in range(5):\n    out[i] = x[i, i]"),
        "relax.einsum",
        {"subscripts": "aa->a"},
    ),
]
