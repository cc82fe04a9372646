"""Plan, compile and run five language models from two importers, with caches kept by a session.

    python -m benchmarks.shapes.decoders [--layers N] [NAME ...]

Llama, Qwen2, Gemma 2, Phi-3 and Mixtral in small configurations: exported by `torch.export` from
`transformers`, and built by `relax.frontend.nn` with weights of float32 and of four bits. Prompts
of 1, 3 and 17 tokens and eight tokens after each are compared with `transformers`. `llama.static`
is exported with a cache of fixed size, and the layers of `gemma2.window` keep no tokens before
their window. NAME is such as `llama`, `llama.torch` or `llama.relax4`. Exits with 1 where logits
differ by more than 1e-4 of the largest, or where a model fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

FRONTENDS = ("torch", "relax", "relax4")
#: Models with other caches.
OTHERS = ("llama.static", "gemma2.window")
SIZE = 32
PROMPTS, STEPS, TOLERANCE = (1, 3, 17), 8, 1e-4
Array = np.ndarray[Any, Any]
Call = Callable[[Array], Any]


def module(model: Any, frontend: str) -> Any:
    """Import a model; with four bits, its own weights are rounded, too."""
    if frontend == "torch":
        from benchmarks.common.decoders.torch_decoders import exported
        from opinfo.frontend.formats.from_torch import from_program

        return from_program(exported(model))
    if frontend == "static":
        from benchmarks.common.decoders.torch_decoders import exported_static
        from opinfo.frontend.formats.from_torch import from_program

        return from_program(exported_static(model, SIZE))
    from benchmarks.common.decoders.relax_decoders import relax_module

    return relax_module(model, frontend == "relax4", windows=frontend == "window")[0]


def calls(session: Any, frontend: str) -> tuple[Call, Callable[[Any, Array], Any]]:
    """Return how to process a prompt, and the tokens after it."""
    if frontend == "torch":
        return session.start, lambda state, ids: state.step(ids)
    if frontend == "static":

        def positions(ids: Array, before: int = 0) -> Array:
            return np.arange(before, before + ids.shape[1])

        return (lambda ids: session.start(ids, positions(ids)),
                lambda state, ids: state.step(ids, positions(ids, state.length)))  # fmt: skip
    embed = session["embed"]

    def start(ids: Array) -> Any:
        return session.start(embed(ids), function="prefill", step="decode")

    return start, lambda state, ids: state.step(embed(ids))


def steps(model: Any, count: int) -> Iterator[tuple[Array, Array, float]]:
    """Yield the ids of each step, the logits of its last token, and seconds of `transformers`."""
    import torch
    from transformers import DynamicCache

    rng, cache = np.random.default_rng(count), DynamicCache()
    ids = rng.integers(3, 100, (1, count))
    for _ in range(STEPS + 1):
        begin = time.perf_counter()
        with torch.no_grad():
            out = model(input_ids=torch.from_numpy(ids), past_key_values=cache, use_cache=True)
        logits = out.logits[:, -1].numpy()
        yield ids, logits, time.perf_counter() - begin
        ids = logits.argmax(-1)[:, None]


def _planned(mod: Any) -> str:
    """Plan a module, and return how long that took."""
    import opinfo

    begin = time.process_time()
    opinfo.plan(mod)
    return f"planned in {time.process_time() - begin:.1f} s, "


def row(
    architecture: str, frontend: str, layers: int, race: bool = True, plans: bool = True
) -> str:
    """Return a line with times and the largest difference; raises `ArithmeticError` above 1e-4.

    ``plans``: whether its layouts are planned, too.
    """
    import opinfo
    from benchmarks.common.decoders.torch_decoders import network

    model = network(architecture, num_hidden_layers=layers)
    mod = module(model, frontend)
    planned = _planned(mod) if plans else ""
    begin = time.process_time()
    written = opinfo.transform.AppendToCaches()(mod)
    compiled = opinfo.compile(written, shapes="generic", race=race)
    built = time.process_time() - begin
    apart, ours, theirs = 0.0, [], []
    with opinfo.Session(compiled) as session:
        start, step = calls(session, frontend)
        for count in PROMPTS:
            state: Any = None
            for ids, logits, seconds in steps(model, count):
                begin = time.perf_counter()
                if state is None:
                    state = start(ids)
                else:
                    step(state, ids)
                    ours.append(time.perf_counter() - begin)
                    theirs.append(seconds)
                got = state.result.numpy()[:, -1]
                apart = max(apart, float(abs(got - logits).max() / abs(logits).max()))
    if not apart <= TOLERANCE:
        raise ArithmeticError(f"the logits differ by {apart:.1e} of the largest")
    ratio = median(ours) / median(theirs)
    return (f"{architecture}.{frontend}: {planned}compiled in {built:.1f} s of "
            f"CPU; {apart:.1e} apart; a step takes {median(ours) * 1e3:.2f} ms, {ratio:.2f} x "
            "transformers")  # fmt: skip


def main() -> None:
    from benchmarks.common.decoders.torch_decoders import ARCHITECTURES

    names = [*(f"{a}.{f}" for a in ARCHITECTURES for f in FRONTENDS), *OTHERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2, help="layers of each model")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    options = parser.parse_args()
    asked = set(options.names)
    wanted = [n for n in names if not asked or asked & {n, n.split(".")[0]}]
    if not wanted:
        parser.error(f"no such model: {', '.join(options.names)}")
    failed = 0
    for name in wanted:
        try:
            architecture, frontend = name.split(".")
            print(row(architecture, frontend, options.layers), flush=True)
        except Exception as error:  # every failure is a result
            traceback.print_exc()
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
