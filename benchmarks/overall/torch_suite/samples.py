"""The samples of `torch.testing`'s operator database: an operator, a dtype, arguments."""

from __future__ import annotations

import itertools
import sys
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from ..operator_suites.exported_programs import Program, joined, of_sample, part
from .edges import EDGES
from .edges import program as edge

#: How many samples of an operator and a dtype are taken, and how many of them with symbols.
STATIC, SYMBOLIC = 4, 2
#: The dtypes of samples; the first is also sampled with symbols.
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool")
#: Operators whose results are uninitialised.
UNDEFINED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided",
             "empty_permuted", "resize_", "resize_as_")  # fmt: skip
#: Operators of CUDA only, and those that test torch's own machinery.
FOREIGN = ("jiterator", "sparse", "torch._scaled", "bmm.triton", "torch.ops.aten._flash",
           "torch.ops.aten._efficient", "to_sparse", "nn.functional.linear_cross")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Programs of one operator.

    Attributes:
        name: The operator, the dtype and "symbolic", or "edge" and a name.
        programs: Makes a program of all results, and one of each sample or result.
        symbolic: Whether the sizes of the inputs become symbols.
    """

    name: str
    programs: Callable[[], tuple[Program, list[Program]]]
    symbolic: bool


def collected() -> Sequence[tuple[str, Case]]:
    """Return the cases of all operators and the edges, by name."""
    return [(case.name, case) for case in (*_edges(), *_operators())]


def _edges() -> Iterator[Case]:
    for name in EDGES:
        for symbolic in (False, True):
            yield Case(f"edge {name}{' symbolic' * symbolic}", partial(_parts, name), symbolic)


def _parts(name: str) -> tuple[Program, list[Program]]:
    whole = edge(name)
    return whole, [part(whole, k) for k in range(len(whole.results()))]


def _operators() -> Iterator[Case]:
    import torch

    for info in _database():
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        if name.startswith(FOREIGN) or name in UNDEFINED:
            continue
        for dtype in (d for d in DTYPES if getattr(torch, d) in info.dtypes):
            yield Case(f"{name} {dtype}", partial(_samples, info, dtype, STATIC), False)
            if dtype == DTYPES[0]:
                yield Case(
                    f"{name} {dtype} symbolic", partial(_samples, info, dtype, SYMBOLIC), True
                )


def _samples(info: Any, dtype: str, count: int) -> tuple[Program, list[Program]]:
    """Take samples of different forms: the first, the last, and some in between."""
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    known = list(itertools.islice(info.sample_inputs("cpu", kind, requires_grad=False), 400))
    if len(known) > count:
        step = (len(known) - 1) / (count - 1)
        known = [known[round(k * step)] for k in range(count)]
    programs = [of_sample(info.op, sample) for sample in known]
    return joined(programs), programs


def _database() -> Any:
    """Return torch's operators; its module imports a test library, of which it needs one name."""
    if find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db
