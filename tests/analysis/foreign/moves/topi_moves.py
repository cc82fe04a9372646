"""Data movement, pads, gathers and fills of the tensor operator inventory."""

from __future__ import annotations

from tvm import tirx, topi

from ..case import Foreign, tensors

nn = topi.nn

#: Channels are ``c * 4 + dy * 2 + dx``.
SHUFFLED = (
    "T.index_map(lambda i0, i1, i2, i3: (i0, i1 // T.int64(4), i2 * T.int64(2) + "
    "i1 // T.int64(2) % T.int64(2), i3 * T.int64(2) + i1 % T.int64(2)))"
)

CASES = [
    Foreign(
        "topi transpose",
        tensors(lambda x: topi.transpose(x, (0, 2, 1)), "2,3,4"),
        "relax.permute_dims",
        {"axes": [0, 2, 1]},
    ),
    Foreign(
        "topi reshape",
        tensors(lambda x: topi.reshape(x, (6, 4)), "2,3,4"),
        "relax.reshape",
        {"shape": [6, 4]},
    ),
    Foreign(
        "topi expand_dims",
        tensors(lambda x: topi.expand_dims(x, 1), "2,3"),
        "relax.reshape",
        {"shape": [2, 1, 3]},
        also={"relax.expand_dims": {"axis": [1]}},
    ),
    Foreign(
        "topi squeeze",
        tensors(lambda x: topi.squeeze(x, 1), "2,1,3"),
        "relax.reshape",
        {"shape": [2, 3]},
        also={"relax.squeeze": {"axis": [1]}},
    ),
    Foreign("topi flip", tensors(lambda x: topi.flip(x, 0), "4,3"), "relax.flip", {"axis": 0}),
    Foreign(
        "topi strided_slice",
        tensors(lambda x: topi.strided_slice(x, [1, 0], [7, 4], [2, 1]), "8,4"),
        "relax.strided_slice",
        {"axes": [0], "begin": [1], "end": [7], "strides": [2]},
    ),
    Foreign(
        "topi concatenate",
        tensors(lambda a, b: topi.concatenate((a, b), 1), "2,3", "2,4"),
        "relax.concat",
        {"axis": 1},
    ),
    Foreign(
        "topi stack",
        tensors(lambda a, b: topi.stack((a, b), 1), "2,3", "2,3"),
        "relax.stack",
        {"axis": 1},
    ),
    Foreign(
        "topi split",
        tensors(lambda x: topi.split(x, 3, 1), "2,6"),
        "relax.split",
        {"indices_or_sections": 3, "axis": 1},
    ),
    Foreign(
        "topi take, clip",
        tensors(lambda x, k: topi.take(x, k, 1, mode="clip"), "4,6", "int32 3"),
        "relax.take",
        {"axis": 1, "mode": "clip"},
    ),
    Foreign(
        "topi gather",
        tensors(lambda x, k: topi.gather(x, 1, k), "4,6", "int64 4,3"),
        "relax.gather_elements",
        {"axis": 1},
    ),
    Foreign(  # The tuples lie in the first dimension of the indices; Relax wants them in the last.
        "topi gather_nd",
        tensors(lambda x, k: topi.gather_nd(x, k), "4,6", "int64 2,5"),
        "relax.gather_nd",
        {"batch_dims": 1},  # of the logical buffers [1, 4, 6, 1] and [1, 5, 2]
        layouts=("BC", "CB", "B"),
    ),
    Foreign(
        "topi repeat",
        tensors(lambda x: topi.repeat(x, 3, 1), "2,4"),
        "relax.repeat",
        {"repeats": 3, "axis": 1},
    ),
    Foreign(
        "topi tile",
        tensors(lambda x: topi.tile(x, (2, 3)), "2,4"),
        "relax.tile",
        {"repeats": [2, 3]},
    ),
    Foreign("topi where", tensors(topi.where, "bool 4,6", "4,6", "4,6"), "relax.where"),
    Foreign(
        "topi broadcast_to",
        tensors(lambda x: topi.broadcast_to(x, (3, 4, 5)), "4,1"),
        "relax.broadcast_to",
        {"shape": [3, 4, 5]},
    ),
    Foreign(
        "topi trilu",
        tensors(lambda x: topi.trilu(x, tirx.const(0, "int64"), True), "5,5"),
        "relax.triu",
        {"k": 0},
    ),
    Foreign(
        "topi pad",
        tensors(lambda x: nn.pad(x, (1, 0), (0, 2), 1.5), "4,6"),
        "relax.nn.pad",
        {"pad_width": [1, 0, 0, 2], "pad_value": 1.5},
    ),
    Foreign(
        "topi mirror_pad",
        tensors(lambda x: nn.mirror_pad(x, (0, 1), (0, 1), "REFLECT"), "4,6"),
        "relax.nn.pad",
        {"pad_width": [0, 0, 1, 1], "pad_mode": "reflect"},
    ),
    Foreign(
        "topi mirror_pad, symmetric",
        tensors(lambda x: nn.mirror_pad(x, (0, 2), (0, 1), "SYMMETRIC"), "4,6"),
    ),
    Foreign(
        "topi circular_pad",
        tensors(lambda x: nn.circular_pad(x, (0, 2), (0, 1)), "4,6"),
        "relax.nn.pad",
        {"pad_width": [0, 0, 2, 1], "pad_mode": "circular"},
    ),
    Foreign(
        "topi depth_to_space, CRD",
        tensors(lambda x: nn.depth_to_space(x, 2, "NCHW", "CRD"), "1,8,3,3"),
        "relax.nn.pixel_shuffle",
        {"upscale_factor": 2},
        also={"relax.layout_transform": {"index_map": SHUFFLED}},
    ),
    Foreign(
        "topi depth_to_space, DCR",
        tensors(lambda x: nn.depth_to_space(x, 2, "NCHW", "DCR"), "1,8,3,3"),
        "relax.layout_transform",
        {
            "index_map": "T.index_map(lambda i0, i1, i2, i3: (i0, i1 % T.int64(2), i2 * T.int64(2)"
            " + i1 // T.int64(4), i3 * T.int64(2) + i1 // T.int64(2) % T.int64(2)))"
        },
    ),
    Foreign(
        "topi layout_transform",
        tensors(lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), "1,8,3,3"),
        "relax.layout_transform",
        {
            "index_map": "T.index_map(lambda i0, i1, i2, i3: (i0, i1 // T.int64(4), i2, i3, "
            "i1 % T.int64(4)))"
        },
    ),
    Foreign("topi flatten", tensors(nn.flatten, "2,3,4"), "relax.reshape", {"shape": [2, 12]}),
    Foreign(
        "topi meshgrid",
        tensors(lambda a, b: topi.meshgrid((a, b), "ij"), "3", "4"),
        "relax.meshgrid",
        {"indexing": "ij"},
    ),
    Foreign(
        "topi one_hot",
        tensors(lambda k: topi.one_hot(k, 1.0, 0.0, 6, -1, "float32"), "int32 4"),
        "relax.one_hot",
        {"depth": 6, "axis": 1, "on_value": 1.0, "off_value": 0.0},
    ),
    Foreign(
        "topi full_like",
        tensors(lambda x: topi.full_like(x, 2.0), "4,6"),
        "relax.full",
        {"shape": [4, 6], "dtype": "float32", "fill_value": 2.0},
    ),
    Foreign(
        "topi reverse_sequence",
        tensors(lambda x, n: topi.reverse_sequence(x, n, 1, 0), "3,5", "int32 3"),
        "relax.reverse_sequence",
        {"seq_axis": 1, "batch_axis": 0},
    ),
    Foreign("topi dilate: no operator", tensors(lambda x: nn.dilate(x, (1, 2)), "4,6")),
]
