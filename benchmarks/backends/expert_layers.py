"""Time layers of experts on a CPU, with and without the backend that groups rows by expert.

    python -m benchmarks.expert_layers [--threads N] [--rounds N] [--tokens N ...] [LAYER ...]

The layers are those of `transformers` with random weights of float32: `mixtral` (8 experts of 512 x
1536, 2 for a token), whose matrices are gathered, and `qwen3_moe` (64 experts of 512 x 256, 8 for a
token), whose rows are sorted by expert. `mixtral_q4` is the first one by `relax.frontend.nn` with 4
bits in groups of 32. A time is the median of calls in turns: CPU seconds of one thread, wall time
of several. `before` is opinfo without the backend; `apart` is the largest difference to torch
relative to the largest value.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common.resources import use_threads

LAYERS = ("mixtral", "qwen3_moe", "mixtral_q4")
TOKENS = (1, 2, 16, 128, 512)
WIDTH = 512
Call = Callable[[], Any]


def torch_layer(name: str) -> Any:
    """The layer of a configuration of `transformers`, and its configuration."""
    import torch
    from transformers import MixtralConfig, Qwen3MoeConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

    torch.manual_seed(0)
    if name == "qwen3_moe":
        config = Qwen3MoeConfig(hidden_size=WIDTH, moe_intermediate_size=256, num_experts=64,
                                num_experts_per_tok=8, norm_topk_prob=True)  # fmt: skip
        config._experts_implementation = "grouped_mm"
        layer = Qwen3MoeSparseMoeBlock(config)
    else:
        config = MixtralConfig(hidden_size=WIDTH, intermediate_size=1536, num_local_experts=8,
                               num_experts_per_tok=2)  # fmt: skip
        config._experts_implementation = "batched_mm"
        layer = MixtralSparseMoeBlock(config)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.05)
    return layer.eval()


def module_of(name: str, layer: Any) -> Any:
    """A layer as a module with any number of tokens."""
    import torch

    from opinfo.frontend.checks.normalise_module import tidy
    from opinfo.frontend.formats.from_torch import from_program

    if name == "mixtral_q4":
        return _of_four_bits(layer)
    shapes = ({1: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        program = torch.export.export(layer, (torch.randn(1, 7, WIDTH),), dynamic_shapes=shapes,
                                      strict=False)  # fmt: skip
    return tidy(from_program(program))


def _of_four_bits(layer: Any) -> Any:
    """The layer by `relax.frontend.nn`; its weights become those that the words stand for."""
    import torch
    import tvm
    from transformers import MixtralConfig
    from tvm import relax
    from tvm.relax.frontend.nn import spec

    from benchmarks.common.decoders.group_quantized import dequantized, quantized
    from benchmarks.common.decoders.relax_decoders import Experts

    config = MixtralConfig(hidden_size=WIDTH, intermediate_size=1536, num_local_experts=8,
                           num_experts_per_tok=2)  # fmt: skip
    state, values = layer.state_dict(), {}
    values["router.weight"] = state["gate.weight"].numpy()
    for ours, theirs in (("gate_up", "experts.gate_up_proj"), ("down", "experts.down_proj")):
        words, scale = quantized(state[theirs].numpy())
        state[theirs].copy_(torch.from_numpy(dequantized(words, scale)))
        values[f"{ours}.words"], values[f"{ours}.scale"] = words, scale
    plain = {"param_mode": "plain", "effect_mode": "none"}
    x = spec.Tensor([1, "s", WIDTH], "float32")
    mod, params = Experts(config, True).export_tvm({"forward": {"x": x, "$": plain}})
    func = mod["forward"]
    pairs = {p.name: tvm.runtime.tensor(values[n])
             for p, (n, _) in zip(func.params[1:], params, strict=True)}  # fmt: skip
    return relax.transform.BindParams("forward", pairs)(mod)


def calls_of(name: str, threads: int) -> dict[str, Callable[[Any], Any]]:
    """What runs a layer, by name."""
    import torch

    import opinfo
    from opinfo.front.backend_choice import choose_backends

    layer = torch_layer(name)
    mod = module_of(name, layer)
    choice = choose_backends(None, None, None, few_bits=name.endswith("_q4"))
    others = [b for b in choice.backends if b != "experts"]
    classes = {"tvm": 3, "weight_only": 4}
    target = f"llvm -num-cores={threads}" if threads > 1 else None
    more: dict[str, Any] = {} if target is None else {"target": target}
    ours, before = (opinfo.compile(mod, b, priority=p, **more)
                    for b, p in ((None, None), (others, classes)))  # fmt: skip
    function = "forward" if name.endswith("_q4") else "main"
    compiled = torch.compile(layer, dynamic=True)

    def by_torch(x: Any) -> Any:
        with torch.no_grad():
            return compiled(torch.from_numpy(x))

    def eager(x: Any) -> Any:
        with torch.no_grad():
            return layer(torch.from_numpy(x))

    return {"ours": lambda x: ours.run(x, function=function),
            "before": lambda x: before.run(x, function=function),
            "torch.compile": by_torch, "torch": eager}  # fmt: skip


def timed(calls: Sequence[Call], rounds: int, threads: int) -> list[float]:
    """The median milliseconds of calls in turns."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 1):
        for call, measured in zip(calls, times, strict=True):
            start = clock()
            call()
            if turn:
                measured.append(1e3 * (clock() - start))
    return [median(t) for t in times]


def first(result: Any) -> Any:
    """The hidden states, of a router's logits beside them."""
    return np.asarray(result[0] if isinstance(result, (tuple, list)) else result)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.expert_layers", description=__doc__)
    parser.add_argument("layer", nargs="*", default=LAYERS, metavar="LAYER")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS, metavar="N")
    options = parser.parse_args(argv)
    use_threads(options.threads)
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(options.threads)
    print("| layer | tokens | ms | / before | / torch.compile | / torch | apart |")
    for name in options.layer:
        calls = calls_of(name, options.threads)
        for tokens in options.tokens:
            x = np.random.default_rng(tokens).standard_normal((1, tokens, WIDTH)).astype("float32")
            got, exact = first(calls["ours"](x)), first(calls["torch"](x))
            apart = np.abs(got.reshape(exact.shape) - exact).max() / np.abs(exact).max()
            bound = [lambda c=c, x=x: c(x) for c in calls.values()]
            ours, *peers = timed(bound, options.rounds, options.threads)
            parts = " | ".join(f"{ours / p:.2f}" for p in peers)
            print(f"| {name} | {tokens} | {ours:.2f} | {parts} | {apart:.1e} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
