"""Files of `torch.export.save` whose inputs and outputs have classes of their own."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tvm
from torch import nn
from tvm import relax

import opinfo
from opinfo.frontend.formats.torch_program.torch_archive import rebuilt
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
