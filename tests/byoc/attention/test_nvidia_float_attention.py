"""Attention in float32 without a GPU: what the kernel takes, and what it computes.

The kernel is compiled for the host, where the threads of a block are fibers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.attention.floats import attention32
from opinfo.byoc.backends.nvidia.attention.floats.attention32 import NAME, shared
from opinfo.byoc.backends.nvidia.cudnn import cudnn
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from ..nvidia.nvidia_library import host_kernels, stub_options
from .nvidia_attention_cases import Array, Build, attended, causal, heads, merged, repeated_heads

nn, op = relax.op.nn, relax.op
INF = float("inf")


@dataclass(frozen=True)
class Case:
    """``build(emit, *inputs)`` of tensors of these shapes, and its result in float64."""

    shapes: tuple[tuple[int, ...], ...]
    build: Build
    reference: Callable[..., Array]

    def inputs(self) -> list[Array]:
        rng = np.random.default_rng(5)
        return [rng.standard_normal(s).astype("float32") for s in self.shapes]


def _attention(emit: Build, q: Any, k: Any, v: Any, *masks: Any) -> Any:
    """Over (batch, heads, positions, elements), as torch exports it."""
    root = relax.const(0.5, "float32")
    k = emit(op.multiply(emit(op.permute_dims(k, [0, 1, 3, 2])), root))
    scores = emit(op.matmul(emit(op.multiply(q, root)), k))
    for mask in masks:
        scores = emit(op.add(scores, mask))
    return emit(op.matmul(emit(nn.softmax(scores)), v))


def _masked(*masks: Array) -> Build:
    return lambda emit, *xs: _attention(
        emit, *xs, *(relax.const(m.astype("float32")) for m in masks)
    )


def _expected(*masks: Array) -> Callable[..., Array]:
    return lambda q, k, v, *given: attended(q, k, v, 0.25, sum((*masks, *given), np.zeros(())))


def _one_tensor(emit: Build, x: Any) -> Any:
    """Queries, keys and values are slices of a product; the result has features side by side."""
    b, n, width = (int(e) for e in x.ty.shape)
    parts = emit(op.permute_dims(emit(op.reshape(x, (b, n, 3, 2, width // 6))), [2, 0, 3, 1, 4]))
    q, k, v = (emit(op.squeeze(emit(op.strided_slice(parts, [0], [j], [j + 1])), [0]))
               for j in range(3))  # fmt: skip
    out = emit(op.permute_dims(_attention(emit, q, k, v), [0, 2, 1, 3]))
    return emit(op.reshape(out, (b, n, width // 3)))


def _grouped(emit: Build, q: Any, k: Any, v: Any) -> Any:
    k, v = (repeated_heads(emit, x, 2) for x in (k, v))
    return _attention(emit, q, k, v, relax.const(causal(5, 70)))


def _three(queries: int, keys: int, size: int) -> tuple[tuple[int, ...], ...]:
    return ((2, 3, queries, size), *((2, 3, keys, size),) * 2)


KEYS_HIDDEN = np.where(np.arange(70) % 4 == 1, -INF, np.arange(70) / 8).reshape(1, 1, 1, 70)
FIRST_HIDDEN = np.where(np.arange(133) < 66, -INF, 0.0)[None]
FIRST_KEYS_HIDDEN = np.where(np.arange(70) < 67, -INF, 0.0)[None]
BY_HEAD = (np.arange(3 * 5 * 70).reshape(1, 3, 5, 70) % 7 / 4).astype("float32")

CASES = {
    "three tensors": Case(_three(20, 133, 32), _attention, _expected()),
    "one query": Case(_three(1, 49, 16), _attention, _expected()),
    "one tensor": Case(((2, 37, 288),), _one_tensor, lambda x: merged(attended(
        *(heads(p, 2) for p in np.split(x, 3, -1)), scale=0.25))),
    "large heads": Case(_three(9, 20, 128), _attention, _expected()),
    "six columns of a thread": Case(_three(9, 20, 96), _attention, _expected()),
    "causal": Case(_three(70, 70, 16), _masked(causal(70, 70)), _expected(causal(70, 70))),
    "causal, more keys": Case(_three(5, 70, 16), _masked(causal(5, 70, -3e38)),
                              _expected(causal(5, 70))),
    "causal, and keys hidden": Case(_three(5, 70, 16), _masked(causal(5, 70), KEYS_HIDDEN),
                                    _expected(causal(5, 70) + KEYS_HIDDEN)),
    "the first tile hidden": Case(_three(5, 133, 16), _masked(FIRST_HIDDEN),
                                  _expected(FIRST_HIDDEN)),
    "hidden by the lowest number": Case(
        _three(5, 133, 16), _masked(np.full((5, 133), np.finfo("float32").min)),
        lambda q, k, v: v.mean(2, keepdims=True).repeat(5, 2)),
    "a bias by head": Case(_three(5, 70, 16), _masked(BY_HEAD), _expected(BY_HEAD)),
    "a mask of the call": Case((*_three(5, 70, 16), (2, 1, 5, 70)), _attention, _expected()),
    "shared keys": Case(((2, 4, 5, 16), (2, 2, 70, 16), (2, 2, 70, 16)), _grouped,
                        lambda q, k, v: attended(q, k.repeat(2, 1), v.repeat(2, 1), 0.25,
                                                 causal(5, 70))),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def libraries() -> Iterator[None]:
    """Kernels are compiled for the host, and launched by a driver there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention32, "compiled", host_kernels)
        patch.setattr(attention32, "image", functools.cache(attention32.image.__wrapped__))
        yield


def on_stub() -> Backend:
    """The backend over the stub's headers, and its driver."""

    def convert(regions: Any) -> Code:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cudnn, "options", lambda *_: stub_options())
            return find("cudnn").convert(regions)

    return replace(find("cudnn"), available=lambda: None, convert=convert)


def module(cases: list[Case]) -> Any:
    """All graphs in one function."""
    given = [[relax.Var(f"x{n}_{k}", relax.TensorType(s, "float32"))
              for k, s in enumerate(case.shapes)]
             for n, case in enumerate(cases)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", [x for xs in given for x in xs]):
        with builder.dataflow():
            made = [c.build(builder.emit, *xs) for c, xs in zip(cases, given, strict=True)]
            out = builder.emit_output(relax.Tuple(made))
        builder.emit_func_output(out)
    return builder.get()


@functools.cache
def compiled(blocks: int) -> CompiledModule:
    """All cases, by kernels for a device that this number of blocks keeps busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention32, "BLOCKS", blocks)
        return compile_module(module(list(CASES.values())), [on_stub()], plan=False)


@functools.cache
def results(blocks: int) -> list[Any]:
    given = [tvm.runtime.tensor(a) for c in CASES.values() for a in c.inputs()]
    return [t.numpy() for t in compiled(blocks).machine()["main"](*given)]


@pytest.mark.parametrize("blocks", [1, 132])
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_float64(name: str, blocks: int) -> None:
    case = CASES[name]
    expected = case.reference(*(a.astype("float64") for a in case.inputs()))
    found = results(blocks)[list(CASES).index(name)]
    assert found.shape == expected.shape and str(found.dtype) == "float32"
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_every_case_is_one_region_and_says_how_it_rounds() -> None:
    dispatched = compiled(132).dispatched
    assert [t.pattern for t in dispatched.taken] == [NAME] * len(CASES)
    assert all("another order" in (t.rounds or "") for t in dispatched.taken)
    assert [o.op for o in dispatched.left] == []


def test_regions_with_the_same_kernel_share_it() -> None:
    (external,) = compiled(132).dispatched.module.attrs["external_mods"]
    images = re.findall(r"  a\.image = (\d+);", external.inspect_source())
    kinds = {(16, 1, 0, 0), (32, 2, 0, 0), (48, 2, 0, 0), (128, 2, 0, 0), (96, 2, 0, 0),
             (16, 2, 1, 0), (16, 1, 1, 0), (16, 1, 1, 1), (16, 1, 0, 1)}  # fmt: skip
    assert len(images) == len(CASES) and len(set(images)) == len(kinds)


def test_two_blocks_of_any_kernel_fit_a_device() -> None:
    largest = max(shared(head, 4) for head in range(16, 129, 16))
    assert largest <= attention32.SHARED < shared(128, 8)


@pytest.mark.parametrize(("shapes", "build", "why"), [
    (_three(5, 70, 24), _attention, "side by side, or not aligned"),
    (_three(5, 70, 144), _attention, "144 elements, expected at most 128"),
    (((2, 3, 5, 32), (2, 3, 70, 32), (2, 3, 70, 16)), _attention, "elements, expected at most"),
    (_three(5, 70, 16), _masked(BY_HEAD, BY_HEAD), "several terms"),
    (_three(5, 70, 16), _masked(causal(5, 70, -3e38), FIRST_KEYS_HIDDEN), "several terms"),
])  # fmt: skip
def test_what_it_does_not_take_is_left_with_a_reason(
    shapes: tuple[tuple[int, ...], ...], build: Build, why: str
) -> None:
    alone = replace(on_stub(), patterns=attention32.patterns())  # that of halves says more
    mod = prepare(module([Case(shapes, build, _expected())]), [alone])
    dispatched = dispatch(mod, [alone])
    assert dispatched.taken == ()
    assert any(why in text for o in dispatched.left for text in map(str, (o.why,)))
