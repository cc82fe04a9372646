"""Programs of torch are decomposed with the requested extents, and otherwise with symbols."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn

from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.checks.input_shapes import Shapes, bind_shapes
from opinfo.frontend.checks.normalise_module import tidy
from opinfo.frontend.checks.notes import without_notes
from opinfo.frontend.formats.from_torch import from_program, load
from opinfo.frontend.formats.torch_program import torch_extents
from opinfo.testing.unoptimised import unoptimised

from .test_torch_edges import agrees

Dim = torch.export.Dim


class Mixer(nn.Module):
    """Reads the extents of both inputs: `(batch, n, 8)` and `(batch, 4 * k)`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[1]).view(1, -1, 1)
        mixed = (self.linear(x) + rows).flatten(1).softmax(-1)
        return torch.cat([mixed, y.view(x.shape[0], 4, -1).mean(-1) / y.shape[1]], 1)


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return Mixer().eval()


def exported(module: nn.Module) -> Any:
    batch, n, k = Dim("batch", min=2, max=9), Dim("n", min=3, max=64), Dim("k", min=2, max=64)
    args = torch.randn(3, 5, 8), torch.randn(3, 12)
    dynamic = {"x": {0: batch, 1: n}, "y": {0: batch, 1: 4 * k}}
    return torch.export.export(module, args, dynamic_shapes=dynamic, strict=False)


def imported(module: nn.Module, shapes: Shapes) -> tvm.IRModule:
    return bind_shapes(tidy(from_program(exported(module), shapes=shapes)), shapes)


def symbols(mod: tvm.IRModule) -> set[str]:
    """Return the symbolic extents of the parameters of ``main``."""
    dims = [d for p in mod["main"].params for d in p.ty.shape.values]
    return {d.name for d in dims if isinstance(d, tvm.ir.Var)}


def test_requested_extents_compute_what_torch_computes(module: nn.Module) -> None:
    x, y = torch.randn(4, 7, 8), torch.randn(4, 20)
    shapes: Shapes = {"x": (4, 7, 8), "y": (4, 20)}
    assert torch_extents.bind_extents(exported(module), shapes)
    mod = imported(module, shapes)
    assert not symbols(mod)
    machine = tvm.relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    out = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in (x, y)))
    got = out if isinstance(out, tvm.runtime.Tensor) else out[0]
    with torch.no_grad():
        np.testing.assert_allclose(got.numpy(), module(x, y).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": (4, 7, 8)},  # k is not decided
        {"x": (4, "m", 8), "y": (4, 20)},
        {"x": (4, "?", 8), "y": (4, 20)},
        {"x": (4, 7, 8), "y": (5, 20)},  # two values for batch
        {"x": (4, 7, 8), "y": (4, 21)},  # not a multiple of 4
        {"x": (4, 7, 9), "y": (4, 20)},  # the file says 8
        {"x": (4, 65, 8), "y": (4, 20)},  # beyond the range of n
        {"x": (4, 7), "y": (4, 20)},
        {},
    ],
)
def test_other_requests_keep_the_symbols(module: nn.Module, shapes: Shapes) -> None:
    program = exported(module)
    before = {n: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    assert torch_extents.bind_extents(program, shapes) == {}
    assert all(node.meta["val"] is value for node, value in before.items())


def test_a_program_that_numbers_break_is_read_with_symbols(
    module: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = exported(module)
    decompose = type(program).run_decompositions

    def run(self: Any, *args: Any) -> Any:
        inputs = [n.meta["val"] for n in self.graph.nodes if n.name == "x"]
        if all(isinstance(e, int) for e in inputs[0].shape):
            raise RuntimeError("numbers")
        return decompose(self, *args)

    monkeypatch.setattr(type(program), "run_decompositions", run)
    mod = from_program(program, shapes={"x": (4, 7, 8), "y": (4, 20)})
    assert len(symbols(tidy(mod))) == 3


class Branching(nn.Module):
    """Computes another function of few rows, which an export of many rows does not have."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 2 if x.shape[0] > 4 else x * 3), y * 2


def test_a_size_outside_of_its_range_is_refused() -> None:
    """A size that torch says is at least 2 has no bound: torch runs it at 1."""
    k, n = Dim("k"), Dim("n", min=5, max=9)
    program = torch.export.export(Branching(), (torch.randn(6, 3), torch.randn(8)),
                                  dynamic_shapes=({0: n}, {0: 4 * k}))  # fmt: skip

    def read(rows: int) -> tvm.IRModule:
        shapes: Shapes = {"x": (rows, 3), "y": (4,)}
        return bind_shapes(tidy(from_program(program, shapes=shapes)), shapes)

    for rows in (5, 9):
        assert not symbols(read(rows))
    for rows in (4, 10):
        with pytest.raises(FrontendError, match=f"at least 5 and at most 9 .*, got {rows}"):
            read(rows)


class Guarded(nn.Module):
    """Computes another function of `(n, 4)` and `(m, 4)` where a condition does not hold."""

    def __init__(self, condition: Callable[[int, int], bool]) -> None:
        super().__init__()
        self.condition = condition

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        factor = 2 if self.condition(x.shape[0], y.shape[0]) else 3
        return x.sum(0) * factor + y.sum(0)


def guarded(condition: Callable[[int, int], bool], n: int, m: int, asserts: bool = False) -> Any:
    """Export `Guarded` for `n` and `m`, with guards, or with assertions in its graph."""
    dims = {0: Dim.DYNAMIC}
    return torch.export.export(
        Guarded(condition), (torch.ones(n, 4), torch.ones(m, 4)), dynamic_shapes=(dims, dims),
        strict=False, prefer_deferred_runtime_asserts_over_guards=asserts,
    )  # fmt: skip


CONDITIONS: dict[str, tuple[Callable[[int, int], bool], tuple[int, int], tuple[int, int]]] = {
    "n % 2 == 0": (lambda n, m: n % 2 == 0, (8, 5), (7, 5)),
    "n > m": (lambda n, m: n > m, (8, 5), (5, 8)),
    "n != m": (lambda n, m: n != m, (8, 5), (6, 6)),
    "n // 2 == m": (lambda n, m: n // 2 == m, (10, 5), (10, 6)),
    "n % (m // 3) == 0": (lambda n, m: n % (m // 3) == 0, (8, 7), (8, 2)),
}
NAMES: list[str] = list(CONDITIONS)


@pytest.mark.part
@pytest.mark.parametrize("asserts", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_request_that_violates_a_guard_is_refused(name: str, asserts: bool) -> None:
    """torch took one branch; the other one is not in the program."""
    condition, (n, m), (odd_n, odd_m) = CONDITIONS[name]
    program = guarded(condition, n, m, asserts)
    with pytest.raises(FrontendError, match=rf"exported for .*shape.*x: {odd_n}, 4; y: {odd_m}, 4"):
        from_program(program, shapes={"x": (odd_n, 4), "y": (odd_m, 4)})
    assert not symbols(tidy(from_program(program, shapes={"x": (n, 4), "y": (m, 4)})))


@pytest.mark.part
@pytest.mark.parametrize("asserts", [False, True])
@pytest.mark.parametrize("name", [NAMES[0], NAMES[2], NAMES[4]])
def test_a_build_with_symbols_fails_where_a_guard_is_violated(name: str, asserts: bool) -> None:
    condition, good, bad = CONDITIONS[name]
    mod = tidy(from_program(guarded(condition, *good, asserts)))
    machine = tvm.relax.VirtualMachine(unoptimised(mod), tvm.cpu())

    def run(n: int, m: int) -> np.ndarray:
        args = [tvm.runtime.tensor(np.ones((k, 4), "float32")) for k in (n, m)]
        out = machine["main"](*args)
        result: np.ndarray = (out if isinstance(out, tvm.runtime.Tensor) else out[0]).numpy()
        return result

    np.testing.assert_array_equal(run(*good), np.full(4, 2 * good[0] + good[1], "float32"))
    with pytest.raises(RuntimeError, match="match_cast"):
        run(*bad)


def test_a_guard_between_a_requested_and_a_symbolic_size_is_checked_at_run_time() -> None:
    program = guarded(lambda n, m: n > m, 8, 5)
    shapes: Shapes = {"x": (8, 4), "y": ("m", 4)}
    mod = bind_shapes(tidy(from_program(program, shapes=shapes)), shapes)
    machine = tvm.relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    x, y, long = (tvm.runtime.tensor(np.ones((k, 4), "float32")) for k in (8, 7, 8))
    machine["main"](x, y)
    with pytest.raises(RuntimeError, match="match_cast"):
        machine["main"](x, long)


def test_the_guards_of_a_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "even.pt2"
    torch.export.save(guarded(lambda n, m: n % 2 == 0, 8, 5), path)
    with pytest.raises(
        FrontendError, match=r"even.pt2: the model was .*x.shape\[0\] % 2.* got x: 7"
    ):
        load(path, {"x": (7, 4)})
    assert not without_notes(load(path, {}))[1]


@pytest.mark.parametrize(
    "line",
    [
        "__import__('os').abort() == L['x'].size()[0]",
        "L['x'].stride()[0] == 4",
        "L['x'].size()[0] ** 2 > 4",
        "L['z'].size()[0] == 4",
        "L['x'].size()[0] ==",
        "L['x'].size()[0] == 'a'",
        "-" * 300 + "L['x'].size()[0] == 4",
    ],
)
def test_a_guard_that_is_not_read_is_named(line: str) -> None:
    """It may depend on a size that the request decides, or is not checked."""
    program = guarded(lambda n, m: True, 8, 5)
    with pytest.raises(FrontendError, match=r"the model's guard .* cannot be checked for x: 8, 4"):
        from_program(program, shapes={"x": (8, 4)}, guards=[line])
    (note,) = without_notes(from_program(program, guards=[line]))[1]
    assert line in note and "is not checked" in note


def test_a_guard_on_other_sizes_than_the_requested_does_not_refuse() -> None:
    program = guarded(lambda n, m: True, 8, 5)
    mod = from_program(program, shapes={"y": (8, 4)}, guards=["L['x'].size()[0] ** 2 > 4"])
    assert len(without_notes(mod)[1]) == 1


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"x": (4, 7, 8), "y": (4, 21)}, r"input 'y': dimension 1 is 4\*s\d+ in the model, got 21"),
        ({"y": (4, 21)}, r"input 'y': dimension 1 is 4\*s\d+ in the model, got 21"),
    ],
)
def test_a_request_that_breaks_a_derived_dimension_is_refused(
    module: nn.Module, shapes: Shapes, reason: str
) -> None:
    with pytest.raises(FrontendError, match=reason):
        from_program(exported(module), shapes=shapes)


def test_a_derived_dimension_is_compared_with_the_dimension_it_derives_from() -> None:
    n = Dim("n", min=2, max=64)
    program = torch.export.export(Lagged(), (torch.ones(8, 4), torch.ones(9, 4)),
                                  dynamic_shapes=({0: n}, {0: n + 1}))  # fmt: skip
    with pytest.raises(FrontendError, match=r"is s\d+ \+ 1 in the model, where s\d+ is 8, got 10"):
        from_program(program, shapes={"x": (8, 4), "y": (10, 4)})
    from_program(program, shapes={"x": (8, 4), "y": (9, 4)})


class Lagged(nn.Module):
    """Adds `y[1:]` to `x`."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y[1:]


def test_sizes_are_written_as_elements() -> None:
    def written(x: torch.Tensor) -> Any:
        n, marked = x.shape[0], x.clone()
        marked[x > 0] = n
        number = torch.ops.aten.scalar_tensor(n, dtype=torch.float32)
        return marked, number + x, torch.full((2,), n / 2), x.masked_fill(x > 0, n)

    agrees(written, *((torch.randn(n),) for n in (5, 3, 8)), shapes=({0: Dim.DYNAMIC},))
