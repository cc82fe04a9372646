"""Programs of `torch.export` compute what torch computes, in the program's own dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.nn import functional as F
from tvm import relax

import opinfo
from opinfo.frontend.checks.normalise_module import tidy
from opinfo.frontend.formats.from_torch import from_program
from opinfo.frontend.formats.importer import at_node
from opinfo.testing.unoptimised import unoptimised

Dim = torch.export.Dim
#: What one rounding of the largest value may be.
ULP = {torch.float16: 2**-10, torch.bfloat16: 2**-7}


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def _module(function: Any) -> nn.Module:
    return function if isinstance(function, nn.Module) else Lambda(function)


def imported(function: Any, args: tuple[torch.Tensor, ...], shapes: Any = None) -> tvm.IRModule:
    """Export and import a module, or a function."""
    module = _module(function).eval()
    if shapes is not None and not isinstance(function, nn.Module):
        shapes = (shapes,)
    with torch.no_grad():
        program = torch.export.export(module, args, dynamic_shapes=shapes, strict=False)
    return tidy(from_program(program))


def _leaves(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (torch.Tensor, tvm.runtime.Tensor)):
        yield torch.from_dlpack(value)
        return
    for part in value:
        yield from _leaves(part)


def check(function: Any, *runs: tuple[torch.Tensor, ...], shapes: Any = None) -> tvm.IRModule:
    """Compare with torch on each run, after an import with the first; return the module."""
    mod = imported(function, runs[0], shapes)
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    for args in runs:
        with torch.no_grad():
            expected = list(_leaves(_module(function).eval()(*args)))
        got = list(_leaves(machine["main"](*map(tvm.runtime.from_dlpack, args))))
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            largest = max(theirs.double().abs().max().item(), 1e-9)
            error = (ours.double() - theirs.double()).abs().max().item() / largest
            assert error <= ULP.get(theirs.dtype, 1e-5)
    return mod


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_products_and_norms_keep_the_dtype_of_the_program(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(),
        nn.ConvTranspose2d(16, 4, 2, 2), nn.Flatten(2), nn.Linear(36, 5), nn.Softmax(-1),
    ).to(dtype)  # fmt: skip
    mod = check(net, (torch.randn(1, 8, 3, 3).to(dtype),))
    name = str(dtype).removeprefix("torch.")
    assert str(mod["main"].params[0].ty.dtype) == name
    assert str(mod["main"].ret_ty.fields[0].dtype) == name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_half_types_are_added_in_float32(dtype: torch.dtype) -> None:
    """A running sum in bfloat16 stays at 256 once its terms are 1."""
    x = torch.ones(2, 1000, dtype=dtype)
    norm = nn.functional.layer_norm
    check(lambda x: (x.sum(1), x.mean(1), x.cumsum(1)[:, -1], norm(x * 0.5, (1000,)), x @ x.T),
          (x,))  # fmt: skip


def test_mixed_dtypes_are_promoted_as_by_torch() -> None:
    torch.manual_seed(0)
    x, i = torch.randn(3, 4), torch.randint(0, 9, (3, 4))
    half, brain = x.half(), x.bfloat16()

    def net(x: Any, half: Any, brain: Any, i: Any) -> Any:
        return (x + half, half * brain, i + x, i * 2.5, x.double() * half, i / 3, brain + i,
                half > x, i == brain, torch.cat([x, half]), torch.where(i > 3, x, half),
                (i > 3).sum(0), i // 2, torch.div(i - 4, -3, rounding_mode="trunc"))  # fmt: skip

    check(net, (x, half, brain, i))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.add(x, x, alpha=2) - torch.rsub(x, 2, alpha=3),
        lambda x: (F.celu(x, 0.7), F.selu(x), F.elu(x, 0.3)),
        lambda x: (*x.max(1), *x.min(-1, keepdim=True), x.amax((0, 2)), (x > 2).any(1)),
        lambda x: (x.var(1), x.std((0, 1)), x[:, -1], x[-1, 1:, ::2], x[:, -3:-1]),
        lambda x: x.clone().index_add(1, torch.tensor([0, 1, 1, 0, 2]), x),
    ],
    ids=["alpha", "exponential-units", "extremes", "parts", "index-add"],
)
def test_operators_read_all_their_arguments(function: Any) -> None:
    torch.manual_seed(0)
    check(function, (torch.randn(3, 5, 4),))


def test_indices_may_count_from_the_end() -> None:
    torch.manual_seed(0)
    i, j = torch.tensor([0, -1, 2]), torch.tensor([1, 2, -3])
    check(lambda x, i, j: (x[i], x[:, i, j], x[:, i, :, j], x[i, j].sum()),
          (torch.randn(5, 6, 7, 8), i, j))  # fmt: skip

    def assigned(x: Any, values: Any, i: Any, j: Any) -> Any:
        rows, columns = x.clone(), x.clone()
        rows[i, j] = values
        columns[:, i, j] += values[:, 0]
        return rows, columns

    check(assigned, (torch.randn(5, 6, 7, 3), torch.randn(3, 7, 3), i, j))


def test_images_are_resized_by_the_positions_of_torch() -> None:
    torch.manual_seed(0)
    resize = F.interpolate
    check(lambda x: (resize(x, scale_factor=1.7), resize(x, scale_factor=1.7, mode="bilinear"),
                     resize(x, size=(10, 9), mode="bicubic"), resize(x, size=(3, 9)),
                     resize(x, size=(3, 4), mode="bilinear", antialias=True),
                     F.pad(x, (1, 2, 0, 1), mode="reflect")),
          (torch.randn(1, 2, 5, 6),))  # fmt: skip


def test_derived_dimensions_stay_symbolic() -> None:
    torch.manual_seed(0)
    n, k = Dim("n", min=2, max=99), Dim("k", min=2, max=99)

    def net(x: Any, y: Any) -> Any:
        small = F.max_pool2d(x, 2)
        return torch.cat([F.interpolate(small, scale_factor=2), x], 1), small + y

    shapes = ({2: 2 * n, 3: 2 * k}, {2: n})
    runs = [(torch.randn(1, 2, 2 * a, 2 * b), torch.randn(1, 2, a, b)) for a, b in ((4, 3), (7, 3))]
    shapes = ({2: 2 * n}, {2: n})
    mod = check(net, *runs, shapes=shapes)
    x, y = (param.ty.shape for param in mod["main"].params)
    assert tvm.sym.Analyzer().can_prove_equal(x[2], 2 * y[2])

    alone = check(lambda x: F.max_pool2d(x, 2).flatten(2), (torch.randn(1, 1, 8, 6),),
                  (torch.randn(1, 1, 12, 10),), shapes=({2: 2 * n, 3: 2 * k},))  # fmt: skip
    machine = relax.VirtualMachine(unoptimised(alone), tvm.cpu())
    with pytest.raises(Exception, match=r"(?i)shape"):
        machine["main"](tvm.runtime.from_dlpack(torch.randn(1, 1, 9, 6)))


def test_ranges_of_derived_dimensions_in_a_file_are_read(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.AvgPool1d(4))
    shapes = ({2: 4 * Dim("n", min=2, max=64)},)
    program = torch.export.export(net.eval(), (torch.randn(1, 1, 16),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "net.pt2")
    machine = opinfo.compile(tmp_path / "net.pt2", [])
    for extent in (8, 24):
        x = torch.randn(1, 1, extent)
        np.testing.assert_allclose(machine.run(x.numpy())[0], net(x).detach(), atol=1e-5)


class Shifted(nn.Module):
    """A sum of a sequence and one whose convolution pads it, as in wav2vec 2.0."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.near = nn.Conv1d(4, 4, 5, stride=4), nn.Conv1d(4, 4, 2, padding=1)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.down(x)
        return self.norm((y + self.near(y)[:, :, :-1]).transpose(1, 2))


def test_sizes_over_derived_dimensions_stay_provably_equal() -> None:
    torch.manual_seed(0)
    net, dims = Shifted().eval(), {2: 4 * Dim("n", min=3, max=64)}
    with torch.no_grad():
        program = torch.export.export(net, (torch.randn(1, 4, 32),), dynamic_shapes=(dims,))
    compiled = opinfo.compile(from_program(program), [])
    for extent in (12, 44):
        x = torch.randn(1, 4, extent)
        np.testing.assert_allclose(compiled.run(x.numpy())[0], net(x).detach(), atol=1e-5)


def test_symbolic_sizes_take_part_in_arithmetic() -> None:
    torch.manual_seed(0)
    n = Dim("n", min=6, max=99)
    check(lambda x: (torch.arange(x.shape[1]) * x, x.sum() / x.shape[1], x.std(1), x[:, -2:],
                     x[:, 1:-1:2], x.reshape(-1), x * x.shape[1] > 3),
          (torch.randn(3, 8),), (torch.randn(3, 11),), shapes=({1: n},))  # fmt: skip


@pytest.mark.parametrize("net", [nn.LSTM(5, 4, bidirectional=True), nn.GRU(5, 4)])
def test_recurrent_nets(net: nn.Module) -> None:
    torch.manual_seed(0)
    check(net, (torch.randn(3, 2, 5),))


@pytest.mark.parametrize(
    ("function", "mend"),
    [
        (lambda x: x + torch.randn(3), "pass them to the model as an input"),
        (lambda x: torch.native_dropout(x, 0.5, False)[1], "uses of output 0 only"),
        (lambda x: torch.linalg.qr(x)[0], "linalg_qr.default has no lowering.*decompose it"),
        (lambda x: x.unique(), "depends on the data; .* torch.where"),
    ],
)
def test_refusals_name_the_node_and_the_mend(function: Any, mend: str) -> None:
    with pytest.raises(NotImplementedError, match=mend) as error:
        imported(function, (torch.randn(3, 3),))
    assert "at node '" in at_node(error.value) and "test_torch_programs.py" in at_node(error.value)


def test_a_result_of_another_shape_than_declared_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from opinfo.frontend.converters import families, program_importer

    wrong = {"relu.default": lambda importer, node: importer.env[node.args[0]]}
    shapes = {"permute.default": wrong["relu.default"]}
    monkeypatch.setattr(program_importer, "CONVERTERS", {**families.CONVERTERS, **shapes})
    with pytest.raises(ValueError, match=r"the shape .*, expected \(4, 3\) as in the program"):
        imported(lambda x: x.T, (torch.randn(3, 4),))


def test_empty_vectors_are_left_out_of_a_concatenation() -> None:
    def grown(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.tensor([]), x, x], dim=-2)

    check(grown, (torch.randn(2, 3, 4),))
    check(lambda x: torch.cat([torch.tensor([]), x], dim=-2), (torch.randn(2, 3, 4),))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_need_not_be_contiguous_or_aligned(dtype: torch.dtype) -> None:
    """Torch maps the parameters of a file into memory, one after the other."""
    torch.manual_seed(0)

    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turned = nn.Parameter(torch.randn(3, 5).to(dtype).t())
            self.shifted = nn.Parameter(torch.randn(16).to(dtype)[1:4])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.turned + self.shifted

    check(Views(), (torch.randn(5, 3).to(dtype),))
