"""A compiled module of MLC-LLM with its cache: a prompt, then tokens one after another."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

Array = np.ndarray[Any, Any]
#: Tokens in a page of the cache.
PAGE = 16


class Steps:
    """One sequence of tokens.

    Args:
        library: A compiled module.
        config: The configuration that it was made of.
        parameters: Its weights.
    """

    def __init__(self, library: Path, config: Mapping[str, Any], parameters: Sequence[Array]):
        loaded = tvm.runtime.load_module(str(library))
        self.machine = relax.VirtualMachine(loaded, tvm.cpu())
        self.parameters = [tvm.runtime.tensor(p) for p in parameters]
        sizes = (config["max_batch_size"], config["context_window_size"],
                 config["prefill_chunk_size"], PAGE, 0)  # fmt: skip
        shapes = [tvm_ffi.Shape([size]) for size in sizes]
        self.cache = self.machine["create_tir_paged_kv_cache"](*shapes)
        self._builtin("add_sequence")(self.cache, 0)

    def __call__(self, name: str, ids: Array) -> Array:
        """Return the logits after these tokens, int32[n], of the function `prefill` or `decode`."""
        self._begin(ids)
        output = self.machine[name](self._embedded(ids), self.cache, self.parameters)
        self._builtin("end_forward")(self.cache)
        return np.asarray(output[0].numpy().reshape(-1))

    def _begin(self, ids: Array) -> None:
        self._builtin("begin_forward")(
            self.cache, tvm_ffi.Shape([0]), tvm_ffi.Shape([len(ids)])
        )  # fmt: skip

    def _embedded(self, ids: Array) -> Any:
        rows = self.machine["embed"](tvm.runtime.tensor(ids), self.parameters).numpy()
        return tvm.runtime.tensor(rows.reshape(1, *rows.shape))

    def _builtin(self, name: str) -> Any:
        return tvm.get_global_func(f"vm.builtin.kv_state_{name}")


def slowest(steps: Steps, ids: Array, most: int = 4) -> list[tuple[str, float]]:
    """Return the calls of the virtual machine that take most of a step, and their shares of it.

    Args:
        steps: A sequence.
        ids: The tokens of the steps that are measured; the least time of a call counts.
        most: How many calls to return.
    """
    times: defaultdict[str, list[float]] = defaultdict(list)
    starts: list[float] = []

    def instrument(_: Any, name: str, before: bool, __: Any, *___: Any) -> int:
        if before:
            starts.append(time.process_time())
        else:
            times[name].append(time.process_time() - starts.pop())
        return 0

    steps.machine.set_instrument(instrument)
    for place in range(len(ids)):
        steps("decode", ids[place : place + 1])
    steps.machine.set_instrument(lambda *_: 0)
    spent = {name: min(ts) * len(ts) for name, ts in times.items()}
    every = sum(spent.values())
    order = sorted(spent, key=lambda name: -spent[name])
    return [(name, spent[name] / every) for name in order[:most]]


def timed(steps: Steps, name: str, ids: Array) -> tuple[float, Array]:
    """Return the CPU milliseconds of a call, and its logits."""
    start = time.process_time()
    logits = steps(name, ids)
    return 1e3 * (time.process_time() - start), logits
