"""Programs at the edges of torch's operators: each result as torch computes it, and no crash."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import tvm
from torch.nn import functional as F
from tvm import relax

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.testing.unoptimised import unoptimised

from .test_torch_programs import imported

INF = float("inf")


def machine(function: Any, args: tuple[torch.Tensor, ...], shapes: Any = None) -> Any:
    """Return a call of a compiled function, which takes and returns tensors of torch."""
    lowered = legalise_module(imported(function, args, shapes))  # by opinfo's rules for TVM's
    built = relax.VirtualMachine(unoptimised(lowered), tvm.cpu())

    def call(*args: torch.Tensor) -> list[torch.Tensor]:
        out = built["main"](*map(tvm.runtime.from_dlpack, args))
        return [torch.from_dlpack(x) for x in (out if hasattr(out, "__len__") else [out])]

    return call


def agrees(function: Any, *runs: tuple[torch.Tensor, ...], shapes: Any = None) -> None:
    """Compare with torch on each run, after an import with the first; infinities and NaN too."""
    call = machine(function, runs[0], shapes)
    for args in runs:
        with torch.no_grad():
            expected = function(*args)
        got = call(*args)
        assert len(got) == len(expected)
        for k, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
            torch.testing.assert_close(ours, theirs, equal_nan=True, rtol=1e-4, atol=1e-5,
                                       msg=lambda text, k=k: f"result {k}: {text}")  # fmt: skip


def test_shifts() -> None:
    x, n = torch.tensor([5, -5, 1000, -1, 3]), torch.tensor([1, 2, 63, 64, -1])
    agrees(lambda x, n: (x << n, x >> n, x << 3, x >> 2), (x, n))


def test_truth_values_compute_as_0_and_1() -> None:
    x, y = torch.tensor([[True, False, True]]), torch.tensor([[True], [False]])
    agrees(lambda x, y: (x == y, x != y, x < y, x + y, x * y, x | y, ~x, torch.maximum(x, y),
                         x.any(), x[:, :0].any(), x[:, :0].all()), (x, y))  # fmt: skip


def test_masks_write_without_a_size_that_depends_on_data() -> None:
    def written(x: Any, mask: Any, row: Any) -> Any:
        zeros, more, twice, rows = x.clone(), x.clone(), x.clone(), x.clone()
        zeros[mask] = 0
        more[mask] += 1
        twice[mask] = (twice[mask] * 2).relu() - 1
        rows[row] = x[0] - 1
        rows[row] = rows[row] * x[row] + x[1]
        return zeros, more, twice, rows, x.masked_scatter(mask, x.flip(0))

    torch.manual_seed(0)
    n = {0: torch.export.Dim("n", min=2, max=64)}
    inputs = [(torch.randn(n, 5), torch.rand(n, 5) > 0.5, torch.rand(n) > 0.5) for n in (4, 7)]
    agrees(written, *inputs, shapes=(n, n, n))


def test_a_choice_by_a_mask_and_indices() -> None:
    x = torch.tensor([[1.0, -1, 2], [3, 4, 5], [6, 7, 8]])
    agrees(lambda x: (x[x[0] > 0, torch.tensor(1)].cumsum(0),), (x,), (-x,), (x.abs(),))


def test_scatters_reduce_in_all_modes() -> None:
    torch.manual_seed(0)
    x, i, s = torch.randn(3, 4), torch.randint(0, 4, (3, 5)), torch.randn(3, 5)
    modes = ("sum", "prod", "mean", "amax", "amin")

    def reduced(x: Any, i: Any, s: Any) -> Any:
        return [x.scatter_reduce(1, i, s, mode, include_self=own)
                for mode in modes for own in (True, False)]  # fmt: skip

    agrees(reduced, (x, i, s))
    agrees(reduced, (*((v * 9).int() for v in (x,)), i, (s * 9).int()))
    agrees(lambda x, i, s: (x.scatter(0, i[:, :2], s, reduce="add"),
                            x.scatter(1, i, 1.5, reduce="multiply")), (x, i % 3, s))  # fmt: skip


def test_a_copy_leaves_the_tensor_that_it_replaces() -> None:
    copy = torch.ops.aten.copy
    agrees(lambda x, y: (copy(x, y), x + 1), (torch.randn(2, 3), torch.randn(3).double()))


def test_pools_return_positions() -> None:
    torch.manual_seed(0)

    def pooled(x: Any, y: Any) -> Any:
        return (*F.max_pool2d(x, 3, 2, 1, return_indices=True),
                *F.max_pool3d(y, 2, 1, return_indices=True), F.adaptive_max_pool2d(x, (3, 5)),
                *F.adaptive_max_pool2d(x, (2, 2), return_indices=True), F.max_pool2d(x[0], 2),
                F.avg_pool3d(y, 2, 1, divisor_override=3),
                F.avg_pool2d(x[0], 2, divisor_override=3),
                F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2))  # fmt: skip

    agrees(pooled, (torch.randn(1, 2, 8, 12), torch.randn(1, 2, 4, 5, 3)))


def test_bags_distances_and_searches() -> None:
    torch.manual_seed(0)
    table, indices = torch.randn(7, 3), torch.randint(0, 7, (10,))

    def computed(table: Any, indices: Any, offsets: Any) -> Any:
        bags = [F.embedding_bag(indices, table, offsets, mode=mode, padding_idx=pad)
                for mode in ("sum", "mean", "max") for pad in (None, 1)]  # fmt: skip
        distances = [torch.cdist(table, table[:4] + 1, p=p) for p in (0.0, 1.0, 2.0, 3.0, INF)]
        row = table[:, 0].sort()[0]
        return [*bags, *distances, torch.searchsorted(row, table), F.pdist(table),
                torch.searchsorted(row.expand(7, 7), table, right=True),
                *table.kthvalue(2, 1), table.topk(2, sorted=False)[0].sum(1)]  # fmt: skip

    agrees(computed, (table, indices, torch.tensor([0, 3, 3, 8])))


def test_reductions_of_no_elements() -> None:
    def reduced(x: Any, y: Any) -> Any:
        return (x.sum(1), x.sum(), x @ x.t(), x.any(), x.all(), x.mean(1), x.logsumexp(1), x.prod(),
                torch.cat([x, y], 1), x.amax(0), torch.addmm(y, x, x.t()[:, :2]), x.argmax(0),
                x.softmax(-1))  # fmt: skip

    agrees(reduced, (torch.zeros(3, 0), torch.ones(3, 2)))


def test_a_tensor_without_axes_is_a_vector_of_one_element() -> None:
    agrees(lambda x: (x.softmax(0), x.log_softmax(-1), x.cumsum(0), x.flip(0), *x.sort(0),
                      *x.topk(1), x.sum(0), *x.max(0), x.argmax(), *x.median(0), *x.cummax(0)),
           (torch.tensor(1.5),))  # fmt: skip


def test_extremes_of_infinities() -> None:
    x = torch.tensor([[-INF] * 3, [1.0, 2.0, INF], [-INF, -3.4028235e38, -INF]])
    agrees(lambda x: (x.amax(1), *x.max(1), x.max(), (-x).amin(1), *(-x).min(1), x.argmax(1)), (x,))


def test_scans_windows_and_orders() -> None:
    torch.manual_seed(0)

    def scanned(x: Any) -> Any:
        return (*x.cummax(1), *x.cummin(0), x.logcumsumexp(1), x.unfold(1, 3, 1), x.unfold(0, 2, 2),
                *x.median(1), x.median(), *torch.var_mean(x, 1), torch.tril_indices(3, 3) + 0,
                torch.full((2,), -INF) + x[0, 0])  # fmt: skip

    agrees(scanned, (torch.randn(4, 5) * 40,))


def test_each_operator_has_one_converter() -> None:
    from opinfo.frontend.converters import families

    names = [name for family in families._FAMILIES for name in family.CONVERTERS]
    assert len(names) == len(set(names)) == len(families.CONVERTERS)


def test_dropout_in_training_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="draws random numbers"):
        imported(lambda x: torch.native_dropout(x, 0.5, True)[0], (torch.randn(3),))


def test_scans_keep_nan_once_there_is_one() -> None:
    nan, rows = float("nan"), ([1.0, 3.0], [3.0, 1.0])
    x = torch.tensor([[a, nan, b, nan, 0.0] for a, b in rows] + [[nan, INF, -INF, 0.0, nan]])
    agrees(lambda x: (*x.cummax(1), *x.cummin(1), x.logcumsumexp(1)), (x,))
    infinite = torch.tensor([-INF, -INF, 0.0, INF, INF, -INF, nan, INF])
    agrees(lambda x: (x.logcumsumexp(0),), (infinite,))


def test_positions_of_integers_that_are_all_the_least() -> None:
    agrees(lambda x, truth, least, most: (
        x.argmax(1), x.argmax(), *truth.max(1), *truth.min(1), least.argmax(0), *least.max(0),
        most.argmin(0), *most.min(0), least.argmin(0)),
        (torch.zeros(2, 4, dtype=torch.uint8), torch.zeros(2, 4, dtype=torch.bool),
         torch.full((3,), -(2**63)), torch.full((3,), 2**63 - 1)))  # fmt: skip


def test_operators_of_others_are_not_run_at_import() -> None:
    with torch.library._scoped_library("opinfo_edges", "FRAGMENT") as library:
        library.define("count(int n, *, Device? device=None) -> Tensor")
        library.impl("count", lambda n, device=None: torch.ones(n), "CompositeExplicitAutograd")
        library.impl("count", lambda n, device=None: torch.empty(n, device="meta"), "Meta")
        with pytest.raises(
            NotImplementedError, match=r"count\.default.*no lowering.*compute it by"
        ):
            imported(lambda x: x + torch.ops.opinfo_edges.count(2), (torch.randn(2),))


def test_positions_of_floats_are_read_from_floats() -> None:
    found: list[str] = []

    def note(e: Any) -> None:
        if isinstance(e, relax.Call) and getattr(e.op, "name", "") in ("relax.argmax",
                                                                       "relax.argmin"):  # fmt: skip
            found.append(str(e.args[0].ty.dtype))

    mod = imported(lambda x: (x.argmax(1), x.argmin(1)), (torch.randn(2, 3),))
    relax.analysis.post_order_visit(mod["main"], note)
    assert found == ["float32"] * 4


def test_nan_differs_from_all_numbers() -> None:
    def compared(x: Any, y: Any, k: Any) -> Any:
        return (x != x, x != y, x != 0, k != 1, k != k, k != y, torch.where(x != x, y, x))

    x = torch.tensor([0.0, -0.0, torch.nan, 1.0, INF, 2.0])
    y = torch.tensor([0.0, 0.0, 1.0, torch.nan, INF, 3.0])
    agrees(compared, (x, y, torch.tensor([0, 1, 2, 3, 4, 5])))


def test_maxima_of_windows_of_minus_infinity() -> None:
    """TVM's pools start and pad with the lowest finite number."""
    x = torch.full((1, 2, 6, 8), -INF)
    x[0, 1, :2] = torch.randn(2, 8)
    agrees(lambda x: (F.max_pool2d(x, 3, 2, 1), F.max_pool1d(x[0], 2), F.max_pool3d(x, 2),
                      F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x[0], 1),
                      F.adaptive_max_pool2d(x, (3, 4))), (x,))  # fmt: skip
