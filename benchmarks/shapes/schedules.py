"""Time our schedules against TVM's default, torch and each other, over run-time sizes.

    python -m benchmarks.schedules [KERNEL ...] [--page [FILE]]

Of each kernel `n` is symbolic. `default` is what TVM builds of the symbolic PrimFunc, `symbolic` is
our schedule of it, `static` our schedule of the PrimFunc bound at the size; `torch` is the same
computed by torch. One thread; medians of rounds in which all take turns, in microseconds of CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import use_threads

ROUNDS, LEAST = 7, 4e-3


@dataclass(frozen=True)
class Case:
    """A kernel: shapes, the expression in Relax and in torch, the values of ``n``."""

    shapes: Sequence[Sequence[int | str]]
    expr: Callable[..., Any]
    torch: Callable[..., Any]
    sizes: tuple[int, ...] = (1, 2, 5, 7, 16, 33, 64, 100)


@dataclass(frozen=True)
class Row:
    """Seconds of a call by implementation, and of scheduling and building for the size."""

    kernel: str
    n: int
    default: float
    symbolic: float
    static: float
    torch: float
    schedule: float
    build: float


def cases() -> dict[str, Case]:
    import torch
    from tvm import relax

    op, nn, functional = relax.op, relax.op.nn, torch.nn.functional

    def dense(k: int, m: int) -> Case:
        return Case([["n", k], [k, m], [m]],
                    lambda emit, x, w, b: nn.relu(emit(op.add(emit(op.matmul(x, w)), b))),
                    lambda x, w, b: (x @ w + b).relu_())  # fmt: skip

    def conv(
        channels: int, filters: int, size: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> Case:
        def expr(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
            y = emit(nn.conv2d(x, weight, strides=stride, padding=kernel // 2, groups=groups))
            return nn.relu(emit(op.add(y, bias)))

        def plain(x: Any, weight: Any, bias: Any) -> Any:
            return (
                functional.conv2d(x, weight, None, stride, kernel // 2, 1, groups) + bias
            ).relu_()

        shapes: Any = [
            ["n", channels, size, size],
            [filters, channels // groups, kernel, kernel],
            [1, filters, 1, 1],
        ]
        return Case(shapes, expr, plain, (1, 3))

    def gelu(k: int, m: int) -> Case:
        return Case([["n", k], [k, m]], lambda emit, x, w: nn.gelu(emit(op.matmul(x, w))),
                    lambda x, w: functional.gelu(x @ w))  # fmt: skip

    heads: Any = [1, 4, "n", 64]
    return {
        "mlp 256-512": dense(256, 512),
        "mlp 512-512": dense(512, 512),
        "mlp 512-64": dense(512, 64),
        "mlp 768-768": dense(768, 768),
        "gelu of 768-3072": gelu(768, 3072),
        "scores": Case([heads, [1, 4, 64, "n"]], lambda emit, q, k: op.matmul(q, k),
                       lambda q, k: q @ k),
        "mixed": Case([[1, 4, "n", "n"], heads], lambda emit, s, v: op.matmul(s, v),
                      lambda s, v: s @ v),
        "softmax": Case([[1, 4, "n", "n"]], lambda emit, x: nn.softmax(x, -1),
                        lambda x: functional.softmax(x, -1)),
        "layer_norm 768": Case([["n", 768], [768], [768]],
                               lambda emit, x, g, b: nn.layer_norm(x, g, b, [-1]),
                               lambda x, g, b: functional.layer_norm(x, (768,), g, b)),
        "conv 3x3 64 of 56": conv(64, 64, 56, 3),
        "conv 3x3 /2 64-128 of 56": conv(64, 128, 56, 3, 2),
        "conv 3x3 256 of 14": conv(256, 256, 14, 3),
        "conv 1x1 /2 64-128 of 56": conv(64, 128, 56, 1, 2),
        "conv 1x1 24-144 of 56": conv(24, 144, 56, 1),
        "depthwise 144 of 56": conv(144, 144, 56, 3, 1, 144),
        "depthwise /2 144 of 56": conv(144, 144, 56, 3, 2, 144),
    }  # fmt: skip


def timed(calls: Mapping[str, Callable[..., Any]]) -> dict[str, float]:
    """Return the median seconds of each call, in turns."""
    often = {}
    for name, call in calls.items():
        call()
        start = time.thread_time()
        call()
        often[name] = max(1, int(LEAST / max(time.thread_time() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.thread_time()
            for _ in range(often[name]):
                call()
            seconds[name].append((time.thread_time() - start) / often[name])
    return {name: statistics.median(v) for name, v in seconds.items()}


def rows(name: str, case: Case) -> list[Row]:
    import torch
    import tvm

    from tests.byoc.schedule.fused import at, built, fused_one, inputs, scheduled

    func = fused_one(case.shapes, case.expr)
    default, symbolic = built(func), built(scheduled(func).func)
    out = []
    for n in case.sizes:
        start = time.thread_time()
        result = scheduled(at(func, {"n": n}))
        middle = time.thread_time()
        static = built(result.func)
        end = time.thread_time()
        arrays = inputs(func, {"n": n})
        tensors = [tvm.runtime.tensor(a) for a in arrays]
        torch_inputs = [torch.from_numpy(a) for a in arrays[:-1]]
        calls = {
            "default": lambda t=tensors: default(*t),
            "symbolic": lambda t=tensors: symbolic(*t),
            "static": lambda t=tensors, k=static: k(*t),
            "torch": lambda g=torch_inputs: case.torch(*g),
        }
        with torch.inference_mode():
            out.append(Row(name, n, **timed(calls), schedule=middle - start, build=end - middle))
        print(line(out[-1]), flush=True)
    return out


HEAD = ("| kernel | n | default | symbolic | static | torch | default / static "
        "| symbolic / static | schedule ms | build ms |")  # fmt: skip


def line(row: Row) -> str:
    times = " | ".join(f"{1e6 * t:.1f}" for t in (row.default, row.symbolic, row.static, row.torch))
    ratios = f"{row.default / row.static:.1f} | {row.symbolic / row.static:.2f}"
    return (f"| {row.kernel} | {row.n} | {times} | {ratios} | {1e3 * row.schedule:.0f} "
            f"| {1e3 * row.build:.0f} |")  # fmt: skip


def page(results: Sequence[Row], cpu: str) -> str:
    """Return the page in Markdown."""
    small = [r.symbolic / r.static for r in results if r.n <= 16]
    better = [r.default / r.static for r in results]
    ours = [r.symbolic / r.static for r in results]
    rule = "|---" * 2 + "|---:" * 8 + "|"
    return "\n".join([
        "# Schedules of kernels", "",
        f"Written by `python -m benchmarks.schedules --page`, on {cpu}, one thread, in CPU",
        "microseconds per call: `default` is TVM's own build of the symbolic PrimFunc, `symbolic`",
        "opinfo's schedule of it, `static` opinfo's schedule for that size, `torch` the same",
        "computation by torch. Schedule and build are CPU milliseconds of the static kernel.", "",
        f"Speedup over TVM's default: geometric mean {statistics.geometric_mean(better):.1f}x, at "
        f"least {min(better):.1f}x. Over opinfo's symbolic schedule: geometric mean",
        f"{statistics.geometric_mean(ours):.2f}x, "
        f"for n up to 16 {statistics.geometric_mean(small):.2f}x.",
        "", HEAD, rule, *map(line, results), "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.schedules",
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("kernel", nargs="*")
    add_page_option(parser, "schedules.md")
    options = parser.parse_args()
    use_threads(1)
    import torch
    from tvm.target import codegen

    torch.set_num_threads(1)
    kernels = cases()
    print(HEAD)
    results = [r for name in options.kernel or kernels for r in rows(name, kernels[name])]
    if options.page is not None:
        options.page.write_text(page(results, str(codegen.llvm_get_system_cpu())), encoding="utf-8")


if __name__ == "__main__":
    main()
