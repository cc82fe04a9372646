"""Check proofs that a dimension may be padded, by running kernels over poisoned padding.

    python -m benchmarks.padding [--count 10000] [--seed 0] [--log FILE [--resume]] [--page [FILE]]

Kernels are made at random: operators of all families over symbolic dimensions at any axis, chains
of them that are fused, and loops over shifted, reversed, strided, windowed, modular, cumulative,
masked and indirect accesses. Each is compiled, and run at n and at N for several n < N. Where the
proof requires no value, the padding holds NaN or arbitrary integers, and the valid outputs must
have the same bits. A kernel without a proof is run in the same way, and with a number everywhere in
the padding, to find unnecessary refusals. Exits with 1 on a wrong proof.

Equal kernels count once. `--log FILE` appends each result as soon as it is known, and `--resume`
skips the seeds in FILE; `--only SEED` shows one seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")  # before TVM: kernels run in forked processes too

import tvm_ffi
from tvm import tirx

from benchmarks.common.pages import add_page_option
from opinfo.byoc.dims.symbolic_dims import Symbol, Unbound, symbols
from opinfo.jit.padding import PaddingProof, pad_safe
from tests.jit.padding import graphs, loops, oracle

#: Values for the whole padding, tried where the proof fails.
NUMBERS = (0, 1, -math.inf, math.inf)
#: Patterns of reasons, by topic.
REASONS = {
    "a clamped or wrapped index that data gives": r"(max|min|truncdiv)\(.*\w\[",
    "data decides where": r"^data determines",
    "the lifter does not understand the loops": "cannot be lifted|not supported",
    "a value depends on the dimension": "changes when",
    "a reduction takes in padding": "includes padding|changes its state in",
    "a read may be in the padding": "may be in the padding",
}
Row = dict[str, Any]


def kernels_of(seed: int) -> list[tuple[str, str, Any]]:
    """Return the family, the name and the PrimFunc of each kernel of a seed."""
    rng = Random(seed)
    if seed % 3:
        kind, func = loops.function(rng)
        return [(f"loops: {kind}", kind, func)]
    out = []
    for name, func in graphs.functions(rng):
        fused = name.startswith("fused_")
        out.append(("operators, fused" if fused else "operators", name, func))
    return out


def rows(seed: int, seen: set[int]) -> Iterator[Row]:
    """Yield the results of a seed, or a row without a verdict if no kernel of it counts."""
    any_row = False
    try:
        kernels = kernels_of(seed)
    except Exception as error:
        kernels = []
        print(f"seed {seed}: not made: {str(error)[-100:]}", file=sys.stderr)
    for family, name, func in kernels:
        plain = tirx.PrimFunc(func.params, func.body)
        key = int(tvm_ffi.structural_hash(plain))
        if key in seen:
            continue
        seen.add(key)
        for row in _of_kernel(func):
            any_row = True
            yield {"seed": seed, "kernel": key, "family": family, "name": name, **row}
    if not any_row:
        yield {"seed": seed, "verdict": ""}


def _of_kernel(func: Any) -> Iterator[Row]:
    try:
        dims = [s for s in symbols(func) if _grows(func, s)]
    except Unbound:
        return
    if not dims:
        return
    try:
        kernel = oracle.compiled(func)
    except oracle.Unbuilt as error:
        print(f"not built: {error}", file=sys.stderr)
        return
    for symbol in dims:
        start = time.process_time()
        result = pad_safe(func, symbol.name)
        ms = round((time.process_time() - start) * 1e3, 1)
        yield {"dim": symbol.name, "ms": ms, **_judged(kernel, symbol.name, result)}


def _grows(func: Any, symbol: Symbol) -> bool:
    return any(tirx.is_buffer_var(p) for p in func.params) and symbol.name in ("n", "m")


def _judged(kernel: oracle.Kernel, name: str, result: Any) -> Row:
    """Judge a proof or a refusal with the oracle."""
    if isinstance(result, PaddingProof):
        contents = {g.param: g.content for g in result.inputs}
        demands = any(c is not None for c in contents.values())
        good = oracle.safe(kernel, name, contents)
        return {"verdict": "proved" if good else "wrong", "demands": demands}
    safe = "anything" if oracle.safe(kernel, name) else ""
    for value in () if safe else NUMBERS:
        if oracle.safe(kernel, name, _everywhere(kernel, value)):
            safe = str(value)
            break
    return {"verdict": "refused", "safe": safe, "why": result.reason}


def _everywhere(kernel: oracle.Kernel, value: float) -> dict[int, Any]:
    integer = 0 if math.isinf(value) else int(value)
    return {
        k: value if "float" in str(param.ty.dtype) else integer
        for k, param in enumerate(kernel.func.params)
        if tirx.is_buffer_var(param)
    }


# ------------------------------------------------------------------------ the page

HEAD = """# Proofs that a dimension may be padded

Generated by `python -m benchmarks.padding --count {count} --seed {seed}`: {pairs} pairs of a
kernel and one of its symbolic dimensions ({kernels} different random kernels), each run at n and N
for four n < N. The padding holds NaN and arbitrary integers wherever the proof requires no value
(see `jit/padding`).

**{wrong} wrong proofs.** Of {safe} pairs that are safe with any padding, or with the padding that
the proof requires, {proved} are proved: {share:.1%}. A proof takes {median:.0f} ms of CPU (median;
99th percentile {worst:.0f} ms).

| family | pairs | proved | require a value | wrong | refused | but safe | safe with a number |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
*Refused*: in some run an output changed, or the kernel crashed. *But safe*: refused, although NaN
and meaningless integers left the outputs unchanged in all runs. For some pairs that is luck: few
shapes and values may not reveal a difference. *Safe with a number*: refused, and safe only with 0,
1 or an infinity in all of the padding; these are not among the {safe} pairs. Including them,
{wide:.1%} of all pairs that are safe in any of these ways are proved.

| refused, though safe: why | but safe | safe with a number |
|---|---|---|
"""


def page(results: list[Row], count: int, seed: int) -> str:
    results = [r for r in results if r["verdict"]]
    verdicts = Counter(r["verdict"] for r in results)
    lost = [r for r in results if r.get("safe") == "anything"]
    number = [r for r in results if r.get("safe") not in (None, "", "anything")]
    safe = verdicts["proved"] + len(lost)
    times = sorted(r["ms"] for r in results)
    text = HEAD.format(
        count=count, seed=seed, pairs=len(results), kernels=len({r["kernel"] for r in results}),
        wrong=verdicts["wrong"], safe=safe, proved=verdicts["proved"],
        share=verdicts["proved"] / max(safe, 1), median=times[len(times) // 2],
        worst=times[len(times) * 99 // 100],
    )  # fmt: skip
    for family in sorted({r["family"] for r in results}):
        text += _line(family, [r for r in results if r["family"] == family])
    text += _line("all", results)
    text += TAIL.format(safe=safe, wide=verdicts["proved"] / max(safe + len(number), 1))
    why, by_number = (Counter(reason(r["why"]) for r in x) for x in (lost, number))
    for topic in sorted({*why, *by_number}, key=lambda w: (-why[w], w)):
        text += f"| {topic} | {why[topic]} | {by_number[topic]} |\n"
    return text


def _line(family: str, results: list[Row]) -> str:
    refused = [r for r in results if r["verdict"] == "refused"]
    counts = (
        len(results), sum(r["verdict"] == "proved" for r in results),
        sum(bool(r.get("demands")) for r in results), sum(r["verdict"] == "wrong" for r in results),
        sum(not r["safe"] for r in refused), sum(r["safe"] == "anything" for r in refused),
        sum(r["safe"] not in ("", "anything") for r in refused),
    )  # fmt: skip
    return f"| {family} | " + " | ".join(map(str, counts)) + " |\n"


def reason(why: str) -> str:
    """Return the topic of a refusal."""
    return next((topic for topic, pattern in REASONS.items() if re.search(pattern, why)), "other")


def main() -> None:
    """Run, print wrong proofs and write the page; exit 1 on a wrong proof."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--count", type=int, default=10_000, help="pairs of a kernel and a dimension"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", type=int, help="one seed, with its kernels")
    parser.add_argument("--log", type=Path, help="where to keep each result")
    parser.add_argument("--resume", action="store_true", help="keep what the log has")
    add_page_option(parser, "padding.md")
    options = parser.parse_args()
    if options.only is not None:
        _show(options.only)
        return
    results = _logged(options)
    seen = {r["kernel"] for r in results if r["verdict"]}
    seed = max((r["seed"] + 1 for r in results), default=options.seed)
    while sum(bool(r["verdict"]) for r in results) < options.count:
        for row in rows(seed, seen):
            results.append(row)
            if options.log:
                with options.log.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
            if row["verdict"] == "wrong":
                print(f"seed {seed}: a wrong proof for {row['dim']} of {row['name']}", flush=True)
        seed += 1
    text = page(results, options.count, options.seed)
    print(text)
    if options.page:
        options.page.write_text(text, encoding="utf-8")
    sys.exit(int(any(r["verdict"] == "wrong" for r in results)))


def _show(seed: int) -> None:
    for family, name, func in kernels_of(seed):
        print(f"# {family}: {name}\n{func.script()}")
        for row in _of_kernel(func):
            print(row)


def _logged(options: argparse.Namespace) -> list[Row]:
    """Return the results of an earlier run."""
    if not options.log or not options.resume or not options.log.exists():
        if options.log:
            options.log.write_text("")
        return []
    return [json.loads(line) for line in options.log.read_text().splitlines()]


if __name__ == "__main__":
    main()
