"""Compile state spaces, encoders, hybrids and newer decoders as `torch.export` writes them.

    python -m benchmarks.programs [PROGRAM ...] [--backends [NAME ...]]

A program is an architecture of `torch_programs`, `torch_hybrids`, `torch_encoders` or `torch_plain`
in `benchmarks.common.decoders`, or one of its parts, `t5.step`. `--backends` without a name uses
only TVM's code. One line a program: seconds to import and to compile it, and for each length the
largest difference to torch, relative to the largest value of the result. Exits 1 if one is above
1e-4.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import tvm

import opinfo
from benchmarks.common.decoders.hybrid_configurations import HYBRIDS
from benchmarks.common.decoders.torch_encoders import ENCODERS, encoder_programs
from benchmarks.common.decoders.torch_hybrids import hybrid_programs
from benchmarks.common.decoders.torch_plain import PLAIN, plain_programs
from benchmarks.common.decoders.torch_programs import CONFIGURATIONS, Program, programs
from opinfo.frontend.checks.normalise_module import tidy
from opinfo.frontend.formats.from_torch import from_program

#: The largest difference to torch.
BOUND = 1e-4


def leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors in tuples and lists as arrays, in order."""
    if isinstance(value, (torch.Tensor, np.ndarray, tvm.runtime.Tensor)):
        yield np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return
    for part in value:
        yield from leaves(part)


def difference(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of a result, relative to its largest value; inf for wrong NaN.

    Raises:
        ValueError: The shape or the dtype is not the expected one.
    """
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        raise ValueError(f"a result is {got.dtype}{list(got.shape)}, expected "
                         f"{expected.dtype}{list(expected.shape)}")  # fmt: skip
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else float("inf")
    finite = np.isfinite(expected)
    same = np.array_equal(got[~finite], expected[~finite], equal_nan=True)
    if not same or not np.isfinite(got[finite]).all():
        return float("inf")
    largest = np.abs(expected[finite]).max(initial=0.0)
    return float(np.abs(got[finite] - expected[finite]).max(initial=0.0) / (largest or 1.0))


def apart(program: Program, compiled: Any) -> list[float]:
    """The largest difference to torch for each run of a program, which keeps its arguments.

    Raises:
        ValueError: Results have another number, shape or dtype, or an argument was written.
    """
    out = []
    for args in program.arguments:
        with torch.no_grad():
            expected = list(leaves(program.module(*args)))
        before = [x.copy() for x in leaves(args)]
        got = list(leaves(compiled.run(*leaves(args))))
        if not all(map(partial(np.array_equal, equal_nan=True), before, leaves(args))):
            raise ValueError("the call wrote to its arguments")
        if len(got) != len(expected):
            raise ValueError(f"{len(got)} results, expected {len(expected)}")
        out.append(max(map(difference, got, expected)))
    return out


def measure(program: Program, backends: Sequence[str] | None) -> list[float]:
    """Import, compile and run a program; print its line."""
    start = time.process_time()
    mod = tidy(from_program(program.exported()))
    imported = time.process_time()
    compiled = opinfo.compile(mod, backends)
    done = time.process_time()
    differences = apart(program, compiled)
    print(f"{program.name}: imported in {imported - start:.1f} s, compiled in "
          f"{done - imported:.1f} s, apart {' '.join(f'{d:.1e}' for d in differences)}",
          flush=True)  # fmt: skip
    return differences


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.programs", description=__doc__)
    builders = {**dict.fromkeys(CONFIGURATIONS, programs),
                **dict.fromkeys(HYBRIDS, hybrid_programs),
                **dict.fromkeys(ENCODERS, encoder_programs),
                **dict.fromkeys(PLAIN, plain_programs)}  # fmt: skip
    parser.add_argument("program", nargs="*", default=[*builders], metavar="PROGRAM")
    parser.add_argument("--backends", nargs="*", default=None, metavar="NAME")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    worst = 0.0
    for name in options.program:
        architecture, _, part = name.partition(".")
        for program in builders[architecture](architecture):
            if not part or program.name.partition(".")[2] == part:
                try:
                    worst = max([worst, *measure(program, options.backends)])
                except Exception as error:  # every failure is a result
                    print(f"{program.name}: {type(error).__name__}: {error}", flush=True)
                    worst = float("inf")
    return int(worst > BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
