"""Products with weights of few bits: equal to numpy's with the dequantised weights."""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

import opinfo
from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.codegen.host import VARIABLE, native_target
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import Preparer, prepare
from opinfo.front.backend_choice import choose_backends
from opinfo.transform import FuseDequantize

Array = npt.NDArray[Any]
op, nn = relax.op, relax.op.nn
M = tvm.tirx.Var("m", "int64")
BACKENDS = ["weight_only", "tvm"]


@dataclass(frozen=True)
class Quantized:
    """A matrix of `shape` that is stored in words of few bits; attributes as of the operator."""

    shape: tuple[int, int]
    bits: int = 4
    group: int = 32
    axis: int = 1
    words: str = "uint32"
    scales: str = "float16"
    zeros: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(self.shape[0] + self.bits)
        along = int(self.more.get("packed_axis", self.axis))
        extents, groups = list(self.shape), list(self.shape)
        extents[along] = -(-extents[along] // self.per_word)
        groups[self.axis] = -(-groups[self.axis] // self.group)
        kind = np.iinfo(self.words)
        out = [rng.integers(kind.min, kind.max, extents, self.words, endpoint=True)]
        out.append((0.01 + 0.1 * rng.random(groups)).astype(self.scales))
        if (packed := self.more.get("zero_points_axis")) is not None:
            groups[packed] = -(-groups[packed] // self.per_word)
        if self.zeros:
            out.append(rng.integers(0, 2**self.bits if packed is None else 2**31, groups)
                       .astype(self.zeros))  # fmt: skip
        return out

    @property
    def per_word(self) -> int:
        return int(np.iinfo(self.words).bits) // self.bits

    @property
    def offset(self) -> float:
        if self.zeros or (self.words == "int8" and self.bits == 8):
            return 0.0
        return float(self.more.get("offset", 2 ** (self.bits - 1) - 1))

    def attrs(self) -> dict[str, Any]:
        along = int(self.more.get("packed_axis", self.axis))
        full = self.shape[along] % self.per_word == 0
        size = None if full else self.shape[along]
        return {"bits": self.bits, "group_size": self.group, "axis": self.axis, "size": size,
                **self.more, "offset": self.offset}  # fmt: skip

    def values(self) -> Array:
        """The matrix in float64, element by element."""
        words, scales, *zeros = self.arrays()
        along = int(self.more.get("packed_axis", self.axis))
        out = np.zeros(self.shape)
        for y in np.ndindex(*self.shape):
            place = list(y)
            place[self.axis] //= self.group
            value = self.value(words, y, along) - self.offset
            if zeros and (packed := self.more.get("zero_points_axis")) is not None:
                value -= self.value(zeros[0], tuple(place), packed)
            elif zeros:
                value -= float(zeros[0][tuple(place)])
            out[y] = value * float(scales[tuple(place)])
        return out

    def value(self, words: Array, y: tuple[int, ...], along: int) -> float:
        n, at = self.per_word, list(y)
        at[along] //= n
        word = int(words[tuple(at)])
        if self.bits == np.iinfo(self.words).bits:
            return float(word)
        interleave, k = int(self.more.get("interleave", 1)), y[along] % n
        k = k % interleave * (n // interleave) + k // interleave
        return float(word >> self.bits * k & 2**self.bits - 1)


@dataclass(frozen=True)
class Product:
    """A product of rows with a matrix; ``transposed`` if its last axis is summed over."""

    weights: Quantized
    dtype: str = "float32"
    transposed: bool = True
    einsum: bool = False
    after: str = ""

    @property
    def depth(self) -> int:
        return self.weights.shape[1 if self.transposed else 0]

    @property
    def columns(self) -> int:
        return self.weights.shape[0 if self.transposed else 1]

    def function(self, builder: Any, name: str) -> None:
        x = relax.Var("x", relax.TensorType((M, self.depth), self.dtype))
        z = relax.Var("z", relax.TensorType((M, self.columns), self.dtype))
        with builder.function(name, [x, z]):
            with builder.dataflow():
                out = builder.emit_output(self.result(builder.emit, x, z))
            builder.emit_func_output(out)

    def result(self, emit: Any, x: Any, z: Any) -> Any:
        q = self.weights
        w = emit(group_dequantize(*map(relax.const, q.arrays()), **q.attrs()))
        w = emit(op.astype(w, self.dtype)) if q.scales != self.dtype else w
        if self.einsum:
            y = emit(op.einsum((x, w), "ij,kj->ik"))
        else:
            y = emit(op.matmul(x, emit(op.permute_dims(w)) if self.transposed else w))
        if self.after:
            y = emit(op.add(y, relax.const(self.bias().astype(self.dtype))))
            y = emit(op.multiply(z, emit(nn.silu(y))))
        return emit(op.astype(y, "float32")) if self.after == "cast" else y

    def bias(self) -> Array:
        return np.linspace(-1, 1, self.columns)

    def expected(self, x: Array, z: Array) -> Array:
        w = self.weights.values()
        y = x.astype("float64") @ (w.T if self.transposed else w)
        if self.after:
            y = y + self.bias()
            y = z * (y / (1 + np.exp(-y)))
        return y


AWQ = {"interleave": 2, "packed_axis": 1, "zero_points_axis": 1}
PRODUCTS = {
    **{f"{bits} bits": Product(Quantized((20, 96), bits)) for bits in (2, 4, 8)},
    "3 bits": Product(Quantized((20, 120), 3, 40)),
    "3 bits, partial words": Product(Quantized((20, 128), 3, 40)),
    "3 bits by rows": Product(Quantized((128, 20), 3, 40, axis=0), transposed=False),
    "2 bits by rows": Product(Quantized((64, 33), 2, axis=0), transposed=False),
    "4 bits by rows": Product(Quantized((64, 33), axis=0), transposed=False),
    "a partial group": Product(Quantized((17, 56))),
    "long groups": Product(Quantized((17, 600), group=300)),
    "groups of 128": Product(Quantized((48, 384), 8, 128)),
    "4 bits, groups of 128": Product(Quantized((48, 256), 4, 128, scales="float32")),
    "2 bits, groups of 128": Product(Quantized((16, 256), 2, 128, scales="float32")),
    "groups of 64": Product(Quantized((48, 192), group=64)),
    "by rows, groups of 128": Product(Quantized((256, 33), group=128, axis=0), transposed=False),
    "uint8": Product(Quantized((20, 96), words="uint8", more={"offset": 8.0})),
    "int8 words": Product(Quantized((20, 96), words="int8")),
    "int8": Product(Quantized((20, 96), 8, words="int8", scales="float32")),
    "zero points": Product(Quantized((20, 96), 8, words="uint8", zeros="uint8")),
    "float zero points": Product(Quantized((20, 96), zeros="float16")),
    "packed zero points": Product(Quantized((64, 24), axis=0, zeros="uint32", more=AWQ),
                                  transposed=False),
    "an odd offset": Product(Quantized((20, 96), more={"offset": 7.5})),
    "float32 scales": Product(Quantized((20, 96), scales="float32")),
    "float16": Product(Quantized((20, 96)), "float16"),
    "einsum": Product(Quantized((20, 96)), einsum=True),
    "operators after it": Product(Quantized((150, 64)), after="silu"),
    "more than one part": Product(Quantized((280, 96))),
    "float16 after it": Product(Quantized((40, 64)), "float16", after="cast"),
}  # fmt: skip


def _module(products: dict[str, Product]) -> Any:
    builder = relax.BlockBuilder()
    for k, product in enumerate(products.values()):
        product.function(builder, f"f{k}")
    return builder.get()


#: What is also compiled for CPUs without vectors of 32 bytes; all is for those without AVX-512.
PORTABLE = ("2 bits", "3 bits, partial words", "zero points", "float32 scales", "float16 after it")
CASES = [(cpu, name) for cpu in ("", "haswell", "x86-64")
         for name in (PORTABLE if cpu == "x86-64" else PRODUCTS)]  # fmt: skip


@cache
def _compiled(cpu: str) -> CompiledModule:
    chosen = {name: p for name, p in PRODUCTS.items() if (cpu, name) in CASES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, cpu)
        return compile_module(_module(chosen), BACKENDS, target=native_target())


@cache
def _machine(cpu: str = "") -> Any:
    return _compiled(cpu).machine()


def _run(name: str, x: Any, z: Any, cpu: str = "") -> Array:
    names = [n for c, n in CASES if c == cpu]
    arguments = (a if isinstance(a, tvm.runtime.Tensor) else tvm.runtime.tensor(a) for a in (x, z))
    return np.asarray(_machine(cpu)[f"f{names.index(name)}"](*arguments).numpy())


def _inputs(product: Product, rows: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, product.depth)).astype(product.dtype)
    return x, rng.standard_normal((rows, product.columns)).astype(product.dtype)


def _dispatched(build: Any, *shapes: Any) -> Any:
    return dispatch(prepare(_function(build, *shapes), BACKENDS), BACKENDS)


def _function(build: Any, *shapes: Any) -> Any:
    """A module with the result of `build`; inputs are float32 unless they have a type."""
    types = (s if isinstance(s, relax.TensorType) else relax.TensorType(s, "float32")
             for s in shapes)  # fmt: skip
    params = [relax.Var(f"x{k}", t) for k, t in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, *params))
        builder.emit_func_output(out)
    return builder.get()


def _weights(emit: Any, q: Quantized) -> Any:
    return emit(group_dequantize(*map(relax.const, q.arrays()), **q.attrs()))


@pytest.mark.parametrize("cpu", ["", "haswell", "x86-64"])
def test_every_product_is_one_region(cpu: str) -> None:
    dispatched = _compiled(cpu).dispatched
    assert {r.backend for r in dispatched.taken} == {"weight_only"}
    assert len(dispatched.taken) == sum(c == cpu for c, _ in CASES)
    assert not dispatched.left and not dispatched.failed


@pytest.mark.parametrize(("cpu", "name"), CASES)
def test_values(cpu: str, name: str) -> None:
    product = PRODUCTS[name]
    for rows in (0, 1, 3, 6, 67):
        x, z = _inputs(product, rows)
        expected, actual = product.expected(x, z), _run(name, x, z, cpu)
        assert actual.shape == expected.shape
        exact = actual.dtype == np.float32 and product.dtype == "float32"
        largest = max(1, abs(expected).max(initial=0))
        assert abs(actual - expected).max(initial=0) <= (2e-6 if exact else 2e-3) * largest


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_activations_of_very_different_sizes_are_as_exact_as_in_float32(cpu: str) -> None:
    product = PRODUCTS["float32 scales"]
    x, z = _inputs(product, 40)
    x *= 10.0 ** np.random.default_rng(1).integers(-20, 15, (40, 3)).repeat(32, 1)
    x[7], x[8], x[9] = 0, 1e-42, 3e36
    w, rows = product.weights.values().T, x.astype("float64")
    bound = 1e-6 * (abs(rows) @ abs(w)) + 1e-36
    assert (abs(_run("float32 scales", x, z, cpu) - rows @ w) <= bound).all()


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_rows_with_infinity_and_nan(cpu: str) -> None:
    product = PRODUCTS["4 bits"]
    x, z = _inputs(product, 6)
    x[1, 5], x[3, 40], x[4, :2] = np.nan, np.inf, [np.inf, -np.inf]
    with np.errstate(invalid="ignore"):
        expected = product.expected(x, z)
    np.testing.assert_allclose(_run("4 bits", x, z, cpu), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 30])
def test_threads_change_nothing(rows: int) -> None:
    """Also if there are more threads than cores, of which some find nothing left to do."""
    library = ctypes.CDLL("libgomp.so.1")
    before = library.omp_get_max_threads()
    product = PRODUCTS["more than one part"]
    x, z = _inputs(product, rows)
    results = []
    try:
        for threads in (1, 2, 5):
            library.omp_set_num_threads(threads)
            results.append(_run("more than one part", x, z))
    finally:
        library.omp_set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


def test_inputs_at_any_address() -> None:
    product = PRODUCTS["operators after it"]
    arrays = _inputs(product, 3)
    room = tvm.runtime.tensor(np.zeros(1000, "float32"))
    moved, at = [], 1
    for array in arrays:
        view = room._create_view(array.shape, "float32", 4 * at)
        view.copyfrom(array)
        moved.append(view)
        at += array.size
    np.testing.assert_array_equal(_run("operators after it", *moved),
                                  _run("operators after it", *arrays))  # fmt: skip


@pytest.mark.parametrize("cpu", ["", "haswell"])
@pytest.mark.parametrize("name", ["8 bits", "4 bits, groups of 128", "2 bits, groups of 128"])
def test_the_largest_sums_do_not_overflow(cpu: str, name: str) -> None:
    """Where all digits are the largest, and so are weights; whole numbers are exact."""
    product = PRODUCTS[name]
    x = np.full((2, product.depth), -(2.0**22) + 1, "float32")
    x[1] = -128 * (1 + 2**8 + 2**14)
    w = product.weights.values()
    expected = x.astype("float64") @ w.T
    bound = 1e-6 * abs(x.astype("float64")) @ abs(w.T)
    actual = _run(name, x, np.zeros((2, product.columns), "float32"), cpu)
    assert (abs(actual - expected) <= bound).all()


def test_weights_of_several_large_pages() -> None:
    q, other = Quantized((2048, 4000), group=80), Quantized((48, 4000), group=80)
    words = [w.arrays()[0] for w in (q, other)]
    scales = [w.arrays()[1] for w in (q, other)]
    rows = np.random.default_rng(2).standard_normal((2, 4000)).astype("float32")
    mod = _function(lambda e, x: e(relax.Tuple([_product(e, x, _weights(e, w))
                                                for w in (q, other)])), rows.shape)  # fmt: skip
    machine = compile_module(mod, BACKENDS, target=native_target()).machine()
    for actual, w, s in zip(machine["main"](tvm.runtime.tensor(rows)), words, scales, strict=True):
        values = (w[..., None] >> 4 * np.arange(8, dtype="uint32") & 15).reshape(len(w), -1)
        floats = (values - q.offset) * s.astype("float64").repeat(80, 1)
        np.testing.assert_allclose(actual.numpy(), rows @ floats.T, rtol=1e-5, atol=1e-4)


def test_rounding_is_reported() -> None:
    (line,) = {r.rounds for r in _compiled("haswell").dispatched.taken
               if r.rounds and "float16" in r.rounds}  # fmt: skip
    assert line


Q, BY_ROWS = Quantized((20, 96)), Quantized((96, 64), axis=0, scales="float32")


def _product(emit: Any, x: Any, w: Any) -> Any:
    return emit(op.matmul(x, emit(op.permute_dims(emit(op.astype(w, "float32"))))))


REFUSED = {
    "the weights are parameters": lambda e, x, words, scale: _product(
        e, x, group_dequantize(words, scale, **Q.attrs())),
    "along the columns": lambda e, x, words, scale: e(op.matmul(
        x, _weights(e, Quantized((96, 64), scales="float32")))),
    "not a product of the last axis": lambda e, x, words, scale: e(op.matmul(
        x, e(op.reshape(_weights(e, BY_ROWS), (1, 96, 64))))),
    "groups of 8 values": lambda e, x, words, scale: _product(
        e, x, _weights(e, Quantized((20, 96), group=8))),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    words = relax.TensorType((20, 12), "uint32"), relax.TensorType((20, 3), "float16")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        done = _dispatched(REFUSED[reason], (3, 96), *words)
    assert not done.taken
    texts = [left.why for left in done.left] + [str(w.message) for w in told]
    assert any(reason in text for text in texts), texts


def test_scales_that_are_not_finite_stay_with_tvm() -> None:
    words, scales = Q.arrays()
    scales[3, 1] = np.inf

    def build(emit: Any, x: Any) -> Any:
        return _product(
            emit, x, group_dequantize(relax.const(words), relax.const(scales), **Q.attrs())
        )

    with pytest.warns(UserWarning, match="not finite"):
        done = _dispatched(build, (3, 96))
    assert not done.taken and "not finite" in done.failed[0].reason


def _after_q4(emit: Any, x: Any, z: Any) -> Any:
    return emit(op.add(_product(emit, x, _weights(emit, Q)), z))


FUSE = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(),
        relax.transform.FuseTIR()]  # fmt: skip


@pytest.mark.parametrize("passes", [[], FUSE, [*FUSE, FuseDequantize()]])
def test_lowered_and_fused_forms(passes: list[Any]) -> None:
    shapes = (M, 1, 96), (M, 1, 20)
    mod = relax.transform.LegalizeOps()(_function(_after_q4, *shapes))
    fused = tvm.transform.Sequential(passes)(mod)
    done = dispatch(prepare(fused, BACKENDS), BACKENDS)
    assert [len(r.ops) for r in done.taken] == [5] and not done.left


def test_a_transposed_product_is_a_product() -> None:
    @T.prim_func(private=True, s_tir=True)
    def f(a: T.Buffer((2, 1, 96), "float32"), b: T.Buffer((20, 96), "float32"),
          c: T.Buffer((2, 1, 20), "float32")) -> None:  # fmt: skip
        for i, j, k in T.grid(2, 20, 96):
            with T.sblock("c"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    c[vi, 0, vj] = T.float32(0)
                c[vi, 0, vj] = c[vi, 0, vj] + a[vi, 0, vk] * b[vj, vk]

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 1, 96), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            w = builder.emit(op.astype(_weights(builder.emit, Q), "float32"))
            g = builder.add_func(f, "anything")
            out = relax.call_tir(g, [x, w], out_ty=relax.TensorType((2, 1, 20), "float32"))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    done = dispatch(prepare(builder.get(), BACKENDS), BACKENDS)
    (region,) = done.taken
    assert "relax.nn.transposed_matmul" in region.ops and "relax.nn.group_dequantize" in region.ops


def test_a_table_that_is_gathered_from_is_not_stored_in_full() -> None:
    tied = Quantized((20, 96), scales="float32")

    def build(emit: Any, x: Any, tokens: Any) -> Any:
        w = _weights(emit, tied)
        rows = emit(op.take(w, tokens, axis=0))
        return emit(op.matmul(emit(op.add(x, rows)), emit(op.permute_dims(w))))

    mod = prepare(_function(build, (3, 96), relax.TensorType((3,), "int32")), BACKENDS)
    constants: list[Any] = []
    tvm_ffi.structural_walk(mod["main"], (tvm.ir.GenericConst, constants.append))
    assert max(np.prod(c.value.shape) for c in constants) < 20 * 96
    assert [r.backend for r in dispatch(mod, BACKENDS).taken] == ["weight_only"]


def test_it_is_chosen_by_default() -> None:
    big = Quantized((512, 512), scales="float32")

    def build(emit: Any, x: Any) -> Any:
        return emit(op.matmul(x, emit(op.permute_dims(_weights(emit, big)))))

    for rows in (1, 128):
        mod = _function(build, (rows, 512))
        assert Preparer(mod).few_bits
        done = opinfo.dispatch(mod)
        assert [r.backend for r in done.taken] == ["weight_only"]


def test_runtimes_with_threads_of_their_own_are_no_default_beside_it() -> None:
    with_runtimes, without = (choose_backends(None, None, None, few_bits=b) for b in (False, True))
    assert not any(find(str(name)).coarse for name in without.backends)
    left_out = set(with_runtimes.backends) - set(without.backends)
    assert all(find(str(name)).coarse for name in left_out)
    assert "weight_only" in without.backends
