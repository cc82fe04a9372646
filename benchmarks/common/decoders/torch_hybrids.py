"""Steps of newer decoders of `transformers`: experts, state spaces beside attention, and others.

The architectures are those of `hybrid_configurations`. Layers with a state make steps of one token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import transformers

from .hybrid_configurations import HYBRIDS
from .torch_programs import Dim, Function, Program, model_of, token_ids

#: Tokens of a step and before it; layers with a state make steps of one token.
_LENGTHS = ((3, 5), (1, 7), (6, 2), (1, 20))
#: What a layer of a cache may hold.
_HELD = ("keys", "values", "conv_states", "recurrent_states")


def hybrid_programs(architecture: str) -> Iterator[Program]:
    """Yield the programs of an architecture."""
    build = _of_rwkv if architecture == "rwkv" else _of_caches
    for program in build(model_of(*HYBRIDS[architecture])):
        yield Program(f"{architecture}.{program.name}", program.module, program.shapes,
                      program.arguments)  # fmt: skip


def _of_caches(model: Any) -> Iterator[Program]:
    """A step for any number of tokens after any number, or for one if layers have a state."""
    empty = transformers.DynamicCache(config=model.config).layers
    states = any(hasattr(layer, "update_conv_state") for layer in empty)

    def step(model: Any, ids: torch.Tensor, past: Any) -> Any:
        cache = transformers.DynamicCache(config=model.config)
        for layer, values in zip(cache.layers, past, strict=True):
            _fill(layer, values)
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        return out[0], [_held(layer) for layer in out.past_key_values.layers]

    def past(count: int) -> Any:
        with torch.no_grad():
            out = model(input_ids=token_ids(count), use_cache=True)
        return [_held(layer) for layer in out.past_key_values.layers]

    runs = [(token_ids(1 if states else new), past(old)) for new, old in _LENGTHS]
    shapes = [[{2: Dim.DYNAMIC} if name in ("keys", "values") else {} for name in _names(layer)]
              for layer in _filled(model, runs[0][1])]  # fmt: skip
    tokens = {} if states else {1: Dim.DYNAMIC}
    yield Program("step", Function(model, step), ((tokens, shapes),), runs)


def _filled(model: Any, past: Any) -> list[Any]:
    cache = transformers.DynamicCache(config=model.config)
    for layer, values in zip(cache.layers, past, strict=True):
        _fill(layer, values)
    return list(cache.layers)


def _names(layer: Any) -> list[str]:
    """What each tensor of a layer is, in the order of `_held`."""
    return [name for name in _HELD for _ in _tensors(getattr(layer, name, None))]


def _held(layer: Any) -> list[torch.Tensor]:
    return [x for name in _HELD for x in _tensors(getattr(layer, name, None))]


def _tensors(value: Any) -> list[torch.Tensor]:
    parts = value.values() if isinstance(value, dict) else value
    parts = [parts] if isinstance(value, torch.Tensor) else parts or []
    return [x for x in parts if isinstance(x, torch.Tensor)]


def _fill(layer: Any, values: Any) -> None:
    """Put into a layer of an empty cache what `_held` returned."""
    values = list(values)
    if hasattr(layer, "update") and not hasattr(layer, "update_conv_state"):
        if values:
            layer.update(*values)
        return
    if hasattr(layer, "update") and len(values) == 4:
        layer.update(*values[:2])
        values = values[2:]
    layer.update_conv_state(values[0].clone(), conv_kernel_size=values[0].shape[-1])
    for state in values[1:]:
        layer.update_recurrent_state(state.clone())


def _of_rwkv(model: Any) -> Iterator[Program]:
    def run(model: Any, ids: torch.Tensor, state: Any = None) -> Any:
        copies = None if state is None else [x.clone() for x in state]
        out = model(input_ids=ids, state=copies, use_cache=True)
        return out.logits, list(out.state)

    runs: list[tuple[Any, ...]] = []
    for count in (2, 5):
        ids = token_ids(count)
        yield Program(f"prefill_{count}", Function(model, run), None, [(ids,)])
        with torch.no_grad():
            runs.append((token_ids(1), run(model, ids)[1]))
    yield Program("step", Function(model, run), None, runs)
