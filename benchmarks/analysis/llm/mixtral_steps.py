"""A compiled module of MLC-LLM with its cache: a prompt, then tokens one after another."""

from __future__ import annotations

import time
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


def timed(steps: Steps, name: str, ids: Array) -> tuple[float, Array]:
    """Return the CPU milliseconds of a call, and its logits."""
    start = time.process_time()
    logits = steps(name, ids)
    return 1e3 * (time.process_time() - start), logits
