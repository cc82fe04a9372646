"""Numbers at the edges: overflow, quotients, rounding, bits, dtypes."""

from __future__ import annotations

import torch

from .inputs import Edges, halves, mask, real, signed, whole

EDGES: Edges = {
    "int64 wraps": (
        lambda x: (x + 1, x * 3, -x, x - 2, x.abs(), x.sum(), x << 1),
        lambda: (torch.tensor([2**63 - 1, -(2**63), 2**62, 5]),),
    ),
    "int32 wraps": (
        lambda x: (x + 1, x * 3, x.sum(), x.cumsum(0), x.prod(), x * 2**20),
        lambda: (torch.tensor([2**31 - 1, -(2**31), 3, 9], dtype=torch.int32),),
    ),
    "uint8 wraps": (
        lambda x, y: (x + y, x * y, x - y, x + 3, 1 - x, x.sum(), x // 3, ~x, x > y),
        lambda: (whole(0, 256, 9, dtype=torch.uint8), whole(0, 256, 9, dtype=torch.uint8)),
    ),
    "int8 wraps": (
        lambda x, y: (x + y, x * y, x - y, x.abs(), -x, x.to(torch.uint8), x / y.abs().clamp(1)),
        lambda: (whole(-128, 128, 9, dtype=torch.int8), whole(-128, 128, 9, dtype=torch.int8)),
    ),
    "int64 quotients": (
        lambda x, y: (
            x / y,
            x // y,
            x % y,
            torch.fmod(x, y),
            torch.remainder(x, y),
            torch.div(x, y, rounding_mode="trunc"),
            x // -2,
            x % -2,
            torch.fmod(x, -2),
            torch.div(x, -2, rounding_mode="floor"),
            7 // y,
            7 % y,
            x / 3,
            x / -2.5,
            torch.remainder(7, y),
        ),
        signed,
    ),
    "int32 quotients": (
        lambda x, y: (x / y, x // y, x % y, torch.fmod(x, y), x // 3, x % 3),
        lambda: signed(torch.int32),
    ),
    "real quotients": (
        lambda x, y: (
            x / y,
            x // y,
            x % y,
            torch.fmod(x, y),
            x % -1.5,
            torch.div(x, y, rounding_mode="trunc"),
            torch.fmod(x, 1.5),
            torch.div(x, y, rounding_mode="floor"),
            2.5 % y,
            2.5 // y,
        ),
        lambda: (
            torch.tensor([5.5, -5.5, 5.5, -5.5, 0.3, 6.0, -6.0]),
            torch.tensor([2.0, 2.0, -2.0, -2.0, 0.1, 3.0, 3.0]),
        ),
    ),
    "half quotients": (
        lambda x, y: (x / y, x // y, x % y, torch.fmod(x, y)),
        lambda: (
            torch.tensor([5.5, -5.5, 5.5, -5.5, 6.0]).half(),
            torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0]).half(),
        ),
    ),
    "quotients by zero": (
        lambda x: (x / 0, x // 0.0, x % 0.0, torch.fmod(x, 0.0)),
        lambda: (torch.tensor([1.0, -1.0, 0.0]),),
    ),
    "round": (
        lambda x: (
            x.round(),
            x.floor(),
            x.ceil(),
            x.trunc(),
            x.frac(),
            x.to(torch.int64),
            x.to(torch.int32),
            x.round(decimals=1),
            x.round(decimals=-1),
            x.sign(),
        ),
        lambda: (halves() * 3.3,),
    ),
    "round half even": (
        lambda x: (x.round(), x.to(torch.int32), x.bool(), x.long()),
        lambda: (halves(),),
    ),
    "round float16": (
        lambda x: (x.round(), x.floor(), x.trunc(), x.int()),
        lambda: (halves(torch.float16),),
    ),
    "round integers": (
        lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.sign(), x.abs()),
        lambda: (whole(-9, 9, 7),),
    ),
    "shifts": (
        lambda x, n: (
            x << n,
            x >> n,
            x << 3,
            x >> 2,
            torch.bitwise_left_shift(x, 1),
            torch.bitwise_right_shift(x, n),
        ),
        lambda: (whole(-1000, 1000, 9), whole(0, 20, 9)),
    ),
    "shifts int32": (
        lambda x, n: (x << n, x >> n, x << 31),
        lambda: (whole(-1000, 1000, 9, dtype=torch.int32), whole(0, 31, 9, dtype=torch.int32)),
    ),
    "bits": (
        lambda x, y: (x & y, x | y, x ^ y, ~x, x & 12, x | 3, x ^ -1, 5 & x),
        lambda: (whole(-99, 99, 9), whole(-99, 99, 9)),
    ),
    "bits of masks": (
        lambda x, y: (
            x & y,
            x | y,
            x ^ y,
            ~x,
            x == y,
            x != y,
            x < y,
            x * 3,
            x + y,
            x | 1,
            x.sum(),
            x.long() - y.long(),
            x.any(),
            x.all(),
            x.int().prod(),
        ),
        lambda: (mask(3, 4), mask(4)),
    ),
    "dtypes": (
        lambda x: (
            x.to(torch.float16),
            x.bfloat16(),
            x.double(),
            x.int(),
            x.to(torch.uint8),
            x.bool(),
            x.to(torch.int8),
            x.to(torch.int16),
            x.type_as(x.half()),
        ),
        lambda: (torch.tensor([0.0, 1.5, 2.7, 100.3, 65504.0 / 600]),),
    ),
    "promotion": (
        lambda i, x, h, m: (
            i + 1.5,
            i * x,
            h + x,
            h * 2,
            h + 1.5,
            i / 2,
            m + 1,
            m * 2.5,
            m + x,
            i + m,
            h * i,
            x.double() + h,
            i.int() + i,
            h.bfloat16() + h,
            1 - m.int(),
            x > i,
            i == x,
            h < i,
        ),
        lambda: (whole(-5, 5, 4), real(4), real(4).half(), mask(4)),
    ),
    "promotion of numbers": (
        lambda x, s, i: (
            x.half() * s,
            x.half() + s.double(),
            i + s,
            x * i[0],
            x.int() * s,
            s * 2,
            torch.add(x.half(), s, alpha=2),
            torch.where(x > 0, x.half(), s),
        ),
        lambda: (real(4), torch.tensor(1.7), whole(0, 9, 4)),
    ),
}
