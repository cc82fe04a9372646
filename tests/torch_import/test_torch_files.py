"""Files of `torch.export.save` whose inputs and outputs have classes of their own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

import opinfo
from opinfo.frontend.formats.from_torch import from_program
from opinfo.frontend.formats.torch_program.torch_archive import BadArchive, _check_size, rebuilt
from opinfo.testing.unoptimised import unoptimised


@dataclass
class Pair:
    """A class that whoever reads the file does not have."""

    first: Any
    second: Any


class Nested(nn.Module):
    """Return results in classes, dictionaries and lists."""

    def forward(self, x: torch.Tensor, pair: Pair) -> Any:
        inner = Pair(pair.second * 2, (x + 1,))
        return {"pair": inner, "ordered": OrderedDict(z=-pair.first), "list": [x - 1]}


def test_classes_become_tuples_whose_parts_stay_in_order(tmp_path: Path) -> None:
    torch.export.register_dataclass(Pair, serialized_type_name="net.Pair")
    x, first, second = torch.randn(2), torch.randn(3), torch.randn(4)
    path = tmp_path / "nested.pt2"
    torch.export.save(torch.export.export(Nested(), (x, Pair(first, second))), path)
    assert b"net.Pair" in path.read_bytes() and b"net.Pair" not in rebuilt(path).getvalue()
    machine = relax.VirtualMachine(unoptimised(opinfo.load(path)), tvm.cpu())
    got = machine["main"](*map(tvm.runtime.from_dlpack, (x, first, second)))
    for value, right in zip(got, (second * 2, x + 1, -first, x - 1), strict=True):
        torch.testing.assert_close(torch.from_dlpack(value), right)


class Returned(nn.Module):
    """Return a tensor and what `result` returns for it."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, self.result(x)


def written(path: Path, result: Any, shapes: Any = None) -> Path:
    """Write the file of a program."""
    program = torch.export.export(Returned(result), (torch.zeros(3),), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return path


def test_numbers_are_results(tmp_path: Path) -> None:
    numbers = (3, -1, True, 2.5)
    compiled = opinfo.compile(written(tmp_path / "n.pt2", lambda x: numbers), [])
    ones, *got = compiled.run(np.zeros(3, "float32"))
    np.testing.assert_array_equal(ones, 1)
    assert len(got) == len(numbers)
    for found, number in zip(got, numbers, strict=True):
        assert found == number, number


def test_what_torch_cannot_read_back_has_its_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "text.pt2", lambda x: "a")
    with pytest.raises(opinfo.FrontendError, match=r"Unable to deserialize output node .*=a"):
        opinfo.load(path)


@pytest.mark.parametrize(
    ("result", "message"),
    [(lambda x: x.unique(), r"opinfo cannot convert it at node '_unique2' .*\d: the shape of its"),
     (lambda x: x.to(torch.float8_e5m2), r"_to_copy.*: it has numbers of torch.float8_e5m2")],
)  # fmt: skip
def test_a_refusal_says_whose_it_is_and_where(tmp_path: Path, result: Any, message: str) -> None:
    with pytest.raises(opinfo.FrontendError, match=message):
        opinfo.load(written(tmp_path / "refused.pt2", result))


def test_an_input_of_8_bits_is_named(tmp_path: Path) -> None:
    x = torch.zeros(3).to(torch.float8_e4m3fn)
    program = torch.export.export(Returned(lambda x: x), (x,))
    with pytest.raises(NotImplementedError, match="input x is float8_e4m3fn, expected floats of"):
        from_program(program)


POWERS: tuple[Callable[[Any], Any], ...] = (
    lambda n: n**0.5, lambda n: n**-1, lambda n: n**1.5 + 1 / 3, lambda n: 2.0**n,
)  # fmt: skip


def test_powers_of_sizes_are_numbers(tmp_path: Path) -> None:
    def scaled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.ones(2) * power(x.shape[0]) for power in POWERS)

    shapes = ({0: torch.export.Dim("n", min=1, max=64)},)
    compiled = opinfo.compile(written(tmp_path / "power.pt2", scaled, shapes), [])
    for size in (3, 1, 12):
        _, *got = compiled.run(np.zeros(size, "float32"))
        for found, power in zip(got, POWERS, strict=True):
            np.testing.assert_allclose(found, np.full(2, power(size)), rtol=1e-6)


@pytest.mark.parametrize("text", ["Float('0.5*x')", "Float('9e9999999')", "Float('1' * 9)",
                                  "f('1')", "Float('" + "9" * 50 + "')"])  # fmt: skip
def test_a_size_that_is_more_than_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(BadArchive, match=r"more than arithmetic|not an expression"):
        _check_size(text)
