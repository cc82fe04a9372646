"""Sizes that an operator needs to be equal are checked at the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import opinfo
from opinfo.frontend.sizes.checked_sizes import checked_sizes
from opinfo.frontend.sizes.requirement import Requirement
from opinfo.jit.arguments.acceptor import BoundaryError

op, nn = relax.op, relax.op.nn
N, K, M = (tirx.Var(name, "int64") for name in "nkm")
Build = Callable[..., Any]


def _module(build: Build, *shapes: Any) -> Any:
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit(build(*params))
            if isinstance(out.ty, relax.TupleType):
                out = builder.emit(relax.TupleGetItem(out, 0))
            out = builder.emit_output(op.nn.relu(out))
        builder.emit_func_output(out)
    return builder.get()


def _weights(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


W, ROW = _weights(8, 5), relax.const(_weights(8))
#: An operator, the shape of its input, and a size that fits: 8 for each but the first.
OPERATORS: dict[str, tuple[Build, tuple[Any, ...]]] = {
    "matmul": (lambda x: op.matmul(x, relax.const(W)), (N, K)),
    "by a vector": (lambda x: op.matmul(x, ROW), (N, K)),
    "conv2d": (lambda x: nn.conv2d(x, relax.const(_weights(4, 8, 3, 3))), (N, K, 7, 7)),
    "groups": (lambda x: nn.conv2d(x, relax.const(_weights(4, 4, 3, 3)), groups=2), (N, K, 7, 7)),
    "channels last": (
        lambda x: nn.conv2d(x, relax.const(_weights(4, 8, 3, 3)), data_layout="NHWC",
                            kernel_layout="OIHW"), (N, 7, 7, K),
    ),
    "conv2d_transpose": (
        lambda x: nn.conv2d_transpose(x, relax.const(_weights(8, 4, 3, 3))), (N, K, 7, 7),
    ),
    "layer_norm": (lambda x: nn.layer_norm(x, ROW, ROW, [-1]), (N, K)),
    "rms_norm": (lambda x: nn.rms_norm(x, ROW, [-1]), (N, K)),
    "batch_norm": (
        lambda x: nn.batch_norm(x, ROW, ROW, ROW, ROW, 1, training=False), (N, K, 3),
    ),
    "instance_norm": (lambda x: nn.instance_norm(x, ROW, ROW, 1, [2]), (N, K, 3)),
}  # fmt: skip


def _required(mod: Any) -> list[str]:
    """The sizes that are checked to be equal before the operator, in the order of the alphabet."""
    bindings = [b for block in checked_sizes(mod)["main"].body.blocks for b in block.bindings]
    found = [b.ty.values[0].condition for b in bindings if isinstance(b, relax.MatchCast)]
    assert all(isinstance(condition, tirx.EQ) for condition in found)
    return [" = ".join(sorted(str(getattr(s, "value", s)) for s in (c.a, c.b))) for c in found]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_symbol_beside_a_number(name: str) -> None:
    build, shape = OPERATORS[name]
    mod = _module(build, shape)
    before = mod.script()
    assert _required(mod) == ["8 = k"]
    assert mod.script() == before
    known = _module(build, [8 if e is K else e for e in shape])
    assert checked_sizes(known).same_as(known)


@pytest.mark.parametrize("name", OPERATORS)
def test_no_message_is_written_for_sizes_that_hold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model has a thousand of them; contradictions are `test_contradicting_sizes`."""
    written: list[Requirement] = []
    monkeypatch.setattr(Requirement, "contradiction", lambda self, *_: written.append(self))
    build, shape = OPERATORS[name]
    checked_sizes(_module(build, [8 if e is K else e for e in shape]))
    assert not written


def test_two_symbols() -> None:
    assert _required(_module(op.matmul, (N, K), (M, 5))) == ["k = m"]
    equal = _module(op.matmul, (N, 2 * K), (K + K, 5))
    assert checked_sizes(equal).same_as(equal)


@pytest.mark.parametrize(("subscripts", "shapes", "sizes"), [
    ("rk,rnk->rn", ((N, 8), (M, 5, 8)), ["m = n"]),
    ("ij,jk->ik", ((N, K), (8, 5)), ["8 = k"]),
    ("ii->i", ((N, M),), ["m = n"]),
    ("ij,jk->ik", ((1, K), (K, M)), []),
    ("ij,ij->ij", ((1, K), (N, K)), []),
])  # fmt: skip
def test_labels(subscripts: str, shapes: Any, sizes: Any) -> None:
    mod = _module(lambda *xs: op.einsum(relax.Tuple(xs), subscripts), *shapes)
    assert _required(mod) == sizes


OTHERS: dict[str, tuple[Build, tuple[Any, ...], list[str]]] = {
    "broadcast_to": (lambda x, y: op.broadcast_to(x, (3, M)), ((N,), (M,)), ["m = n"]),
    "scatter_elements": (
        lambda x, u: op.scatter_elements(x, relax.const(np.zeros(4, "int64")), u, 0), ((8,), (N,)),
        ["4 = n"],
    ),
    "nll_loss": (
        lambda x: nn.nll_loss(x, relax.const(np.zeros(4, "int64")), reduction="none"), ((N, 5),),
        ["4 = n"],
    ),
    "grid_sample": (op.image.grid_sample, ((1, 2, 4, 4), (N, 2, 3, 3)), ["1 = n"]),
    "reverse_sequence": (
        lambda x: op.reverse_sequence(x, relax.const(np.ones(4, "int64")), 1, 0), ((N, 5),),
        ["4 = n"],
    ),
    "attention with a bias": (
        nn.attention, ((1, N, 2, 8), (1, K, 2, 8), (1, K, 2, 8), (1, 1, N, M)),
        ["k = m"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_operators(name: str) -> None:
    build, shapes, sizes = OTHERS[name]
    assert _required(_module(build, *shapes)) == sizes


def test_indices_beside_more_elements() -> None:
    """`gather_elements` reads a column for each column of indices."""
    builder, names = relax.BlockBuilder(), ((N, K), (M, tirx.Var("j", "int64")))
    x = relax.Var("x", relax.TensorType(names[0], "float32"))
    i = relax.Var("i", relax.TensorType(names[1], "int64"))
    with builder.function("main", [x, i]):
        with builder.dataflow():
            out = builder.emit_output(op.gather_elements(x, i, 0))
        builder.emit_func_output(out)
    compiled, table = opinfo.compile(builder.get(), []), _weights(4, 3)
    for columns in (2, 3):
        at = np.ones((2, columns), "int64")
        np.testing.assert_array_equal(compiled.run(table, at), table[[1, 1], :columns])
    with pytest.raises(BoundaryError, match="only defined for j <= k"):
        compiled.run(table, np.ones((2, 9), "int64"))


def test_what_is_broadcast_stays() -> None:
    for build, shapes in (
        (lambda x, y: op.broadcast_to(x, (N, M)), ((1, M), (N, 1))),
        (nn.attention, ((1, N, 2, 8), (1, K, 2, 8), (1, K, 2, 8), (1, 1, 1, K))),
    ):
        mod = _module(build, *shapes)
        assert checked_sizes(mod).same_as(mod)


def test_attention() -> None:
    """The values have as many rows as the keys."""
    mod = _module(nn.attention, (1, N, 2, 8), (1, K, 2, 8), (1, M, 2, 8))
    assert _required(mod) == ["k = m"]
    equal = _module(nn.attention, (1, N, 2, 8), (1, K, 2, 8), (1, K, 2, 8))
    assert checked_sizes(equal).same_as(equal)


def test_a_symbolic_weight() -> None:
    assert _required(_module(op.matmul, (N, 8), (M, 5))) == ["8 = m"]


@pytest.mark.parametrize("backends", [[], None])
def test_a_call_of_other_extents_fails(backends: Any) -> None:
    """TVM's code read 8 rows of the weights, however many columns the other tensor had."""
    build, shape = OPERATORS["matmul"]
    mod = _module(build, shape)
    compiled = opinfo.compile(mod, backends, race=False)
    x = _weights(3, 8)
    np.testing.assert_allclose(compiled.run(x), np.maximum(x @ W, 0), rtol=1e-4, atol=1e-5)
    for columns in (1, 7, 9):
        with pytest.raises(BoundaryError, match=f"got k = {columns}; .* only defined for k == 8"):
            compiled.run(_weights(3, columns))


def test_many_conditions_are_checked_each() -> None:
    """`benchmarks.size_checks` measures that the time is linear in their number."""

    def products(*xs: Any) -> Any:
        builder = relax.BlockBuilder.current()
        return [builder.emit(op.matmul(x, relax.const(W))) for x in xs][-1]

    names = [tirx.Var(f"k{k}", "int64") for k in range(100)]
    checked = checked_sizes(_module(products, *((3, name) for name in names)))
    bindings = [b for block in checked["main"].body.blocks for b in block.bindings]
    assert sum(isinstance(b, relax.MatchCast) for b in bindings) == 100


def test_sizes_that_are_equal_by_several_checks() -> None:
    """Three checks say that four symbols are equal, so that the last product needs none."""
    j = tirx.Var("j", "int64")

    def products(w: Any, x: Any, y: Any, z: Any) -> Any:
        builder = relax.BlockBuilder.current()
        chain = builder.emit(op.matmul(builder.emit(op.matmul(w, x)), y))
        builder.emit(op.matmul(chain, z))
        return builder.emit(op.matmul(w, z))

    mod = _module(products, (2, K), (M, N), (K, j), (M, 7))
    checks = [set(check.split(" = ")) for check in _required(mod)]
    assert len(checks) == 3
    same = checks[0]
    for check in checks[1:]:
        assert same & check
        same |= check
    assert same == set("jkmn")
