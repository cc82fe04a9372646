"""A model of torch by `torch.compile`, and what keeps its timings apart from other processes'."""

from __future__ import annotations

import copy
import fcntl
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Time while no other process of ``folder`` does; meanwhile, others compile on the host."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def candidates_one_at_a_time(folder: Path) -> None:
    """Let `max-autotune` time its candidates while no other process of ``folder`` does."""
    from torch._inductor.runtime.benchmarking import benchmarker

    kind = type(benchmarker)
    for name in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph"):
        timed = getattr(kind, name, None)
        if timed is not None:
            setattr(kind, name, _alone(timed, folder))


def _alone(timed: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    held = False

    @functools.wraps(timed)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal held
        if held:
            return timed(*args, **kwargs)
        with alone(folder):
            held = True
            try:
                return timed(*args, **kwargs)
            finally:
                held = False

    return run


def reference_of(module: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the output of ``module`` in float32 on the GPU, as float64 on the CPU."""
    exact = copy.deepcopy(module).float().cuda()
    values = [x.float() if x.is_floating_point() else x for x in inputs]
    return exact(*(x.cuda() for x in values)).double().cpu()


def compiled(module: Any, inputs: tuple[Any, ...], mode: str) -> Callable[[], Any]:
    """Return a call of ``module`` compiled in ``mode``, channels last for images."""
    module = copy.deepcopy(module).cuda()
    values = tuple(x.cuda() for x in inputs)
    if values[0].ndim == 4 and values[0].shape[1] == 3:
        module = module.to(memory_format=torch.channels_last)
        values = tuple(x.to(memory_format=torch.channels_last) for x in values)
    function = torch.compile(module, mode=mode)
    return lambda: function(*values)
