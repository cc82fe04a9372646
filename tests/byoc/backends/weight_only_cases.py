"""Products with weights of few bits, and modules that have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax

from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.codegen.host_target import VARIABLE, native_target
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

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
    """A product of rows with a matrix.

    Attributes:
        weights: The matrix.
        dtype: Of the rows and the result.
        transposed: Whether the last axis of the matrix is summed over.
        einsum: Whether it is written as one.
        after: What follows it.
        free: Whether the words, scales and zero points are parameters.
    """

    weights: Quantized
    dtype: str = "float32"
    transposed: bool = True
    einsum: bool = False
    after: str = ""
    free: bool = False

    @property
    def depth(self) -> int:
        return self.weights.shape[1 if self.transposed else 0]

    @property
    def columns(self) -> int:
        return self.weights.shape[0 if self.transposed else 1]

    def function(self, builder: Any, name: str) -> None:
        x = relax.Var("x", relax.TensorType((M, self.depth), self.dtype))
        z = relax.Var("z", relax.TensorType((M, self.columns), self.dtype))
        constants = [relax.const(a) for a in self.weights.arrays()]
        free = [relax.Var(f"w{k}", c.ty) for k, c in enumerate(constants)] if self.free else []
        with builder.function(name, [x, z, *free]):
            with builder.dataflow():
                out = builder.emit_output(self.result(builder.emit, x, z, free or constants))
            builder.emit_func_output(out)

    def result(self, emit: Any, x: Any, z: Any, parts: Any) -> Any:
        q = self.weights
        w = emit(group_dequantize(*parts, **q.attrs()))
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
    "the largest offset": Product(Quantized((16, 256), 8, 128, more={"offset": 255.0})),
    "a larger offset": Product(Quantized((20, 96), scales="float32", more={"offset": 32000.0})),
    "a larger offset, float16": Product(Quantized((20, 96), more={"offset": 300.0})),
    "float32 scales": Product(Quantized((20, 96), scales="float32")),
    "float16": Product(Quantized((20, 96)), "float16"),
    "einsum": Product(Quantized((20, 96)), einsum=True),
    "operators after it": Product(Quantized((150, 64)), after="silu"),
    "more than one part": Product(Quantized((280, 96))),
    "float16 after it": Product(Quantized((40, 64)), "float16", after="cast"),
}  # fmt: skip


def compiled_for(cpu: str, mod: Any) -> CompiledModule:
    """A module compiled for a CPU by LLVM's name; empty for this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, cpu)
        return compile_module(mod, BACKENDS, target=native_target())


def check_every_product_taken(compiled: CompiledModule, count: int) -> None:
    done = compiled.dispatched
    assert [region.backend for region in done.taken] == ["weight_only"] * count
    assert not done.left and not done.failed


def check_close(actual: Array, expected: Array, dtype: str) -> None:
    """Compare a result with the exact one; ``dtype``: what a product is computed in."""
    assert actual.shape == expected.shape
    exact = actual.dtype == np.float32 and dtype == "float32"
    largest = max(1, abs(expected).max(initial=0))
    assert abs(actual - expected).max(initial=0) <= (2e-6 if exact else 2e-3) * largest


def module(products: dict[str, Product]) -> Any:
    builder = relax.BlockBuilder()
    for k, product in enumerate(products.values()):
        product.function(builder, f"f{k}")
    return builder.get()


def dispatched(build: Any, *shapes: Any) -> Any:
    return dispatch(prepare(function(build, *shapes), BACKENDS), BACKENDS)


def function(build: Any, *shapes: Any) -> Any:
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


def weights(emit: Any, q: Quantized) -> Any:
    return emit(group_dequantize(*map(relax.const, q.arrays()), **q.attrs()))


def product(emit: Any, x: Any, w: Any) -> Any:
    return emit(op.matmul(x, emit(op.permute_dims(emit(op.astype(w, "float32"))))))
