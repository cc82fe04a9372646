"""Arrays whose memory does not have their elements: masked ones, and lazily negated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm

import opinfo
from opinfo.front.compiled_model import _on
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.jit.arguments.boundary import Boundary
from opinfo.jit.arguments.lazy_arrays import is_eager
from opinfo.jit.arguments.signature import Param, Signature
from tests.jit import modules
from tests.jit.runtime.test_boundary import placed

X = (5, 16)
NUMBERS = np.arange(np.prod(X), dtype="float32").reshape(X)


def _negated() -> list[Any]:
    """Tensors with the elements of `NUMBERS`, whose memory has others."""
    numbers = torch.from_numpy(NUMBERS)
    aligned = torch.from_dlpack(tvm.runtime.tensor(-NUMBERS))
    return [torch.complex(numbers, -numbers).conj().imag, torch._neg_view(aligned)]


@pytest.fixture(scope="module")
def calls() -> Any:
    """The same model in the form that each front calls."""
    compiled = opinfo.compile(modules.dense(), [], shapes="generic")
    with opinfo.Session(compiled) as session:
        yield {"run": compiled.run, "session": lambda *args: np.from_dlpack(session(*args))}


@pytest.mark.parametrize("front", ["run", "session"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_negated_view_is_read_as_torch_reads_it(calls: Any, front: str, which: int) -> None:
    x = _negated()[which]
    assert x.is_neg() and not is_eager(x)
    np.testing.assert_array_equal(calls[front](x), calls[front](NUMBERS))


@pytest.mark.parametrize("front", ["run", "session"])
def test_masked_elements_are_refused(calls: Any, front: str) -> None:
    masked = np.ma.masked_array(placed(X), mask=NUMBERS == 3)
    message = r"argument x has masked elements; it must be x: .*; pass x.filled\(value\)"
    with pytest.raises(BoundaryError, match=message):
        calls[front](masked)
    whole = np.ma.masked_array(placed(X), mask=False)
    np.testing.assert_array_equal(calls[front](whole), calls[front](placed(X)))


def test_a_strict_boundary_refuses_what_it_would_copy() -> None:
    check = Boundary(Signature("f", (Param("x", "float32", ("n", 16)),)), strict=True)
    with pytest.raises(BoundaryError, match=r"x is negated or conjugated .*; pass x.resolve_neg"):
        check([_negated()[1]])


def test_a_masked_array_inside_of_an_object_is_refused() -> None:
    check = Boundary(Signature("f", (Param("x", None, None, kind="object"),)))
    with pytest.raises(BoundaryError, match="x has masked elements"):
        check([[np.ma.masked_array(placed(X), mask=True)]])
    ((x,),), _ = check([[_negated()[0]]])
    np.testing.assert_array_equal(np.from_dlpack(x), NUMBERS)


def test_plain_arrays_are_eager() -> None:
    plain = (placed(X), tvm.runtime.tensor(NUMBERS), torch.from_numpy(NUMBERS), 3, None, [1])
    assert all(map(is_eager, plain))


@pytest.mark.parametrize("array", [
    np.array(2.5, "float32"), np.arange(6, dtype="int64").reshape(2, 3).T, np.zeros((0, 3), "int8"),
], ids=["rank 0", "strided", "empty"])  # fmt: skip
def test_a_copy_has_the_shape_of_the_array(array: np.ndarray) -> None:
    copy = _on(tvm.cpu(), array).numpy()
    assert copy.shape == array.shape
    np.testing.assert_array_equal(copy, array)


def test_before_a_copy_to_a_gpu_the_parameter_with_masked_elements_is_named() -> None:
    params = (Param("w", "float32", ("n", 16)), Param("x", "float32", ("n", 16)))
    check = Boundary(Signature("f", params))
    masked = np.ma.masked_array(NUMBERS, mask=NUMBERS == 3)
    check.check_masks([NUMBERS, np.ma.masked_array(NUMBERS, mask=False)])
    with pytest.raises(BoundaryError, match=r"f: argument x has masked elements; it must be x: "):
        check.check_masks([NUMBERS, masked])


def test_a_number_of_numpy_is_an_array_without_axes() -> None:
    check = Boundary(Signature("f", (Param("x", "float32", ()),)))
    (got,), _ = check([NUMBERS.sum()])
    assert (got.shape, got.numpy()) == ((), NUMBERS.sum())
    with pytest.raises(BoundaryError, match="argument x is float64; it must be float32"):
        check([np.float64(1)])
    with pytest.raises(BoundaryError, match="x has 0 dimensions"):
        Boundary(Signature("f", (Param("x", "float32", (1,)),)))([np.float32(1)])
