"""Time products with 4-bit weights, and decoding with a model of them, against their bandwidth.

    python -m benchmarks.weight_only [--threads N] [--rounds N] [--busy] [--model] [--json FILE]
                                     [--floats [MODEL ...] [--tokens N ...]] [MxNxK ...]

Weights are random, in groups of 32 with float16 scales (`f32` with float32 scales). A time is the
least of calls in turns: CPU seconds of one thread, wall time of several. Before each call, the
caches are filled with other data. `read` is a loop that only reads the bytes of the weights and
scales, `copy` one that copies them, `nbits` is MatMulNBits of ONNX Runtime at its default accuracy
level and at its fastest (4: activations of 8 bits), `torch` is float32 `torch.compile`. `apart` is
the largest difference to float64 relative to the largest value. With ``--model``, one step of a
Llama-like model of 502 million parameters is timed instead, with 128 tokens in the cache; with
``--floats``, a step after a prompt of 128 tokens and this prompt, of a Llama-like model of 107
million parameters in float32, of a Qwen-like one with biases, or of a Gemma-like one whose heads
have 256 elements. With ``--busy``, another process computes on one of the CPUs meanwhile, and times
are medians on the wall's clock: compare them with those of a run without it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common.resources import SETTLED, Call, use_threads

PRODUCTS = ("1x4096x4096", "1x11008x4096", "1x4096x11008", "4x4096x4096", "16x4096x4096",
            "128x4096x4096")  # fmt: skip
#: Bytes of other data that are read before each call.
TRASH = 96 << 20
Timed = Callable[[Sequence[Call], int, int], list[float]]


@dataclass(frozen=True)
class Row:
    """Milliseconds of a call, and differences to float64."""

    what: str
    ours: float
    ours_f32: float
    read: float
    copy: float
    nbits: float
    nbits_4: float
    torch: float
    apart: float
    apart_nbits_4: float

    def as_line(self) -> str:
        return (f"{self.what}: {self.ours:.3f} ms (f32 {self.ours_f32:.3f}), "
                f"{self.read / self.ours:.0%} of the bandwidth of reading, "
                f"{self.copy / self.ours:.0%} of that of copying; "
                f"{self.ours / self.torch:.2f} × torch, {self.ours / self.nbits:.2f} × nbits, "
                f"{self.ours / self.nbits_4:.2f} × nbits at level 4; apart {self.apart:.1e}, "
                f"nbits at level 4 {self.apart_nbits_4:.1e}")  # fmt: skip


def timed_while_busy(calls: Sequence[Call], rounds: int, threads: int) -> list[float]:
    """The median milliseconds of calls in turns while a CPU of this process is busy."""
    from benchmarks.backends.weight_only.busy import busy_cpu

    with busy_cpu():
        return timed(calls, rounds, max(threads, 2), median)


def timed(
    calls: Sequence[Call], rounds: int, threads: int,
    of: Callable[[Sequence[float]], float] = min,
) -> list[float]:  # fmt: skip
    """The least milliseconds of calls in turns, or another figure, each with cold caches."""
    trash = np.ones(TRASH // 8)
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 1):
        for call, measured in zip(calls, times, strict=True):
            if threads > 1:
                time.sleep(SETTLED)
            trash.sum()
            start = clock()
            call()
            if turn:
                measured.append(1e3 * (clock() - start))
    return [of(t) for t in times]


def product_rows(names: Sequence[str], threads: int, rounds: int, timed: Timed) -> list[Row]:
    from benchmarks.backends.weight_only import nbits_peers as peers
    from benchmarks.backends.weight_only.read_bytes import loops

    rng = np.random.default_rng(0)
    sizes = [tuple(map(int, n.split("x"))) for n in names]
    weights = [peers.Weights.random(n, k, rng) for _, n, k in sizes]
    rows = [rng.standard_normal((m, k)).astype("float32") for m, _, k in sizes]
    ours, (read, copy) = peers.opinfo_products(weights, rows), loops(threads)
    out = []
    for k, (name, w, x) in enumerate(zip(names, weights, rows, strict=True)):
        words = np.ones(w.size // 8, "uint64")
        calls = [ours[k], ours[k + len(names)], read(words), copy(words),
                 *(peers.onnx_product(w, x, level, threads) for level in (0, 4)),
                 peers.torch_product(w, x)]  # fmt: skip
        exact = x.astype("float64") @ w.floats.T.astype("float64")
        times = timed(calls, rounds, threads)
        apart = [float(abs(c() - exact).max() / abs(exact).max()) for c in (calls[0], calls[5])]
        out.append(Row(name, *times, *apart))
        print(out[-1].as_line(), flush=True)
    return out


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.weight_only", description=__doc__)
    parser.add_argument("product", nargs="*", default=PRODUCTS, metavar="MxNxK")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--busy", action="store_true", help="keep one of the CPUs busy meanwhile")
    parser.add_argument("--model", action="store_true", help="time a model instead of products")
    parser.add_argument(
        "--floats",
        nargs="*",
        choices=("llama", "qwen", "gemma"),
        metavar="MODEL",
        help="time models of float32 instead: llama (the default), qwen, gemma",
    )
    parser.add_argument(
        "--tokens",
        nargs="+",
        type=int,
        default=[128],
        metavar="N",
        help="lengths of the prompts of such models",
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    use_threads(options.threads)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(options.threads)
    rows: list[Any] = []
    measured = timed_while_busy if options.busy else timed
    if options.model:
        from benchmarks.backends.weight_only.decode import decode_row

        rows.append(decode_row(options.threads, options.rounds, measured))
        print(rows[-1].as_line(), flush=True)
    elif options.floats is not None:
        from benchmarks.backends.weight_only.float_model import float_rows

        rows += float_rows(options.threads, options.rounds, measured, options.tokens,
                           options.floats or ["llama"])  # fmt: skip
    else:
        rows = product_rows(options.product, options.threads, options.rounds, measured)
    if options.json:
        from benchmarks.common.rows import write

        write(options.json, [asdict(r) for r in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
