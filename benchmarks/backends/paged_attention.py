"""Time attention over the pages of a cache on a CPU: TVM's kernels, and opinfo's.

    python -m benchmarks.paged_attention [--dtype DTYPE] [--tvm]

Sizes are those of Llama 3: 32 heads of queries, 8 of keys, 128 features. CPU milliseconds of one
thread, the least of several calls; beside them, what reading as many bytes as the keys and values
have takes, from one piece of memory. With ``--tvm``, TVM's kernels are called, too, except for long
prompts, which take them minutes.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.common.resources import cpu_seconds, use_threads

GROUPS, HEADS, FEATURES, PAGE = 8, 32, 128, 16
#: Sequences, rows of each, and cached tokens of each.
CALLS = ((1, 1, 1000), (1, 1, 2000), (1, 1, 4000), (8, 1, 4000), (1, 128, 1000), (1, 1000, 1000))
ROUNDS = 7
#: Rows times tokens of a long prompt.
LONG = 200_000


def prepared(dtype: str, sequences: int, rows: int, tokens: int, own: bool) -> Callable[[], Any]:
    """Return a call of a kernel."""
    import tvm
    from tvm.relax.frontend.nn.llm import kv_cache as library
    from tvm.tirx.buffer import is_buffer_var

    from opinfo.analysis import OpInfo, op_info
    from opinfo.analysis.support.ir.constructors import constructor_of
    from opinfo.byoc.codegen.host_target import native_target
    from opinfo.byoc.prepare.paged.own_attention import own_attention
    from tests.byoc.prepare.paged.attention_cases import Batch, Case

    make = library._attention_decode_cpu if rows == 1 else library._attention_prefill_cpu
    func = make(GROUPS, HEADS, FEATURES, dtype, False, {})
    info = op_info(func)
    assert isinstance(info, OpInfo)
    case = Case(GROUPS, HEADS, FEATURES, dtype, (rows,) * sequences, (tokens,) * sequences, PAGE)
    batch = Batch(case)
    batch.paged()
    names = inspect.signature(constructor_of(info.name)).parameters
    roles = dict(zip(info.operands, names, strict=False))
    query = batch.operands["query"]
    rest = iter([query * 0, query[..., 0].astype("float32")])
    values = [batch.operands[roles[k]] if k in roles else next(rest)
              for k in range(len(func.params))]  # fmt: skip
    arguments = [tvm.runtime.tensor(v) if is_buffer_var(p) else v
                 for p, v in zip(func.params, values, strict=True)]  # fmt: skip
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    target = native_target()
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


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each call."""
    parser = argparse.ArgumentParser("benchmarks.paged_attention", description=__doc__)
    parser.add_argument("--dtype", default="float16", choices=("float16", "float32"))
    parser.add_argument("--tvm", action="store_true", help="call TVM's kernels for CPUs, too")
    options = parser.parse_args(argv)
    for sequences, rows, tokens in CALLS:
        shape = (options.dtype, sequences, rows, tokens)
        ours = least(prepared(*shape, own=True), ROUNDS)
        reading = least(reader(options.dtype, sequences, tokens), ROUNDS)
        line = f"{sequences} x {rows} rows, {tokens} tokens: {ours:.2f} ms, reading {reading:.2f}"
        if options.tvm and rows * tokens <= LONG:
            theirs = least(prepared(*shape, own=False), 1)
            line += f", TVM {theirs:.1f} ms, {theirs / ours:.0f}x"
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    use_threads(1)
    sys.exit(main())
