"""Time attention over the pages of a cache on a CPU: TVM's kernels, and opinfo's.

    python -m benchmarks.paged_attention [--dtype DTYPE] [--tvm] [--threads N]

Sizes are those of Llama 3: 32 heads of queries, 8 of keys, 128 features. CPU milliseconds of one
thread, the least of several calls; beside them, what reading as many bytes as the keys and values
have takes, from one piece of memory. With ``--tvm``, TVM's kernels are called, too, except for long
prompts, which take them minutes. With ``--threads``, wall milliseconds of one query on so many
threads, which need an idle machine, and on one.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common.resources import cpu_seconds, use_threads

GROUPS, HEADS, FEATURES, PAGE = 8, 32, 128, 16
LLAMA3 = (("rope_type", "llama3"), ("factor", 8.0), ("low_freq_factor", 1.0),
          ("high_freq_factor", 4.0), ("original_max_position_embeddings", 8192))  # fmt: skip
#: What is called, sequences, rows of each, and cached tokens of each.
CALLS = (
    ("decode", 1, 1, 1000), ("decode", 1, 1, 2000), ("decode", 1, 1, 4000), ("decode", 8, 1, 4000),
    ("llama3", 1, 1, 1000), ("paged tree", 1, 64, 1000), ("prefill", 1, 128, 1000),
    ("prefill", 1, 1000, 1000),
)  # fmt: skip
ROUNDS = 7
#: Rows times tokens of a long prompt.
LONG = 200_000
#: Heads of keys, and tokens, of one query on several threads.
SPLIT = ((8, 4000), (1, 4000), (1, 32000))


def prepared(
    dtype: str, kind: str, sequences: int, rows: int, tokens: int, own: bool,
    groups: int = GROUPS, threads: int = 1,
) -> Callable[[], Any]:  # fmt: skip
    """Return a call of a kernel."""
    import tvm
    from tvm.tirx.buffer import is_buffer_var

    from opinfo.analysis import OpInfo, op_info
    from opinfo.analysis.support.ir.constructors import constructor_of
    from opinfo.byoc.codegen.host_target import native_target
    from opinfo.byoc.prepare.paged.own_attention import own_attention
    from tests.byoc.prepare.paged.attention_cases import Batch, Case
    from tests.byoc.prepare.paged.kernel_runs import generated

    nodes = tuple((k - 1) // 2 if k else -1 for k in range(rows))  # of a binary tree
    case = Case(groups, HEADS, FEATURES, dtype, (rows,) * sequences, (tokens,) * sequences, PAGE,
                turned=int(kind == "llama3"), scaling=LLAMA3 if kind == "llama3" else (),
                trees=(nodes,) * sequences if kind == "paged tree" else ())  # fmt: skip
    func = generated("decode" if kind == "llama3" else kind, case, cpu=True)
    info = op_info(func)
    assert isinstance(info, OpInfo)
    batch = Batch(case)
    batch.paged()
    names = inspect.signature(constructor_of(info.name)).parameters
    roles = dict(zip(info.operands, names, strict=False))
    query = batch.operands["query"]
    rest = iter([query * 0, query[..., 0].astype("float32")])
    values = [batch.operands[roles[k]] if k in roles else
              next(rest) if is_buffer_var(p) and "float" in str(p.ty.dtype) else batch.unread(k)
              for k, p in enumerate(func.params)]  # fmt: skip
    arguments = [tvm.runtime.tensor(v) if is_buffer_var(p) else v
                 for p, v in zip(func.params, values, strict=True)]  # fmt: skip
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    target = native_target(threads)
    built = tvm.compile(own_attention(mod, target) if own else mod, target=target)["main"]
    return lambda: built(*arguments)


def reader(dtype: str, sequences: int, tokens: int) -> Callable[[], Any]:
    """Return a call that reads as much memory as keys and values have."""
    import numpy as np

    size = 4 if dtype == "float32" else 2
    words = np.ones(sequences * tokens * 2 * GROUPS * FEATURES * size // 8, "uint64")
    return words.max


def least(call: Callable[[], Any], rounds: int) -> float:
    """Return the least CPU milliseconds of a call."""
    call()
    return 1e3 * min(cpu_seconds(call)[0] for _ in range(rounds))


def wall(call: Callable[[], Any], rounds: int) -> float:
    """Return the least wall milliseconds of a call."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times[1:])


def split(dtype: str, threads: int) -> None:
    """Print a line for each query on several threads."""
    for groups, tokens in SPLIT:
        one, many = (wall(prepared(dtype, "decode", 1, 1, tokens, True, groups, n), 5 * ROUNDS)
                     for n in (1, threads))  # fmt: skip
        print(f"{groups} heads of keys, {tokens} tokens: {one:.2f} ms on one thread, {many:.2f} ms "
              f"on {threads}, {one / many:.2f}x", flush=True)  # fmt: skip


def main(options: argparse.Namespace) -> int:
    """Print a line for each call."""
    if options.threads > 1:
        split(options.dtype, options.threads)
        return 0
    for kind, sequences, rows, tokens in CALLS:
        shape = (options.dtype, kind, sequences, rows, tokens)
        ours = least(prepared(*shape, own=True), ROUNDS)
        reading = least(reader(options.dtype, sequences, tokens), ROUNDS)
        line = f"{kind}, {sequences} x {rows} rows, {tokens} tokens: {ours:.2f} ms"
        line += f", reading {reading:.2f}"
        if options.tvm and rows * tokens <= LONG:
            theirs = least(prepared(*shape, own=False), 1)
            line += f", TVM {theirs:.1f} ms, {theirs / ours:.0f}x"
        print(line, flush=True)
    return 0


def parsed(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser("benchmarks.paged_attention", description=__doc__)
    parser.add_argument("--dtype", default="float16", choices=("float16", "float32"))
    parser.add_argument("--tvm", action="store_true", help="call TVM's kernels for CPUs, too")
    parser.add_argument("--threads", type=int, default=1, help="time one query on so many threads")
    return parser.parse_args(argv)


if __name__ == "__main__":
    chosen = parsed()
    use_threads(chosen.threads)
    sys.exit(main(chosen))
