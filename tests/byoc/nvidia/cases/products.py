"""Products that cuBLASLt takes, and what it computes after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from opinfo.analysis.composites import transposed_matmul

from .case import Case, M, N

nn, op = relax.op.nn, relax.op


def _product(one: tuple[Any, ...], two: tuple[Any, ...], **more: Any) -> Case:
    return Case("cublaslt", (one, two), lambda e, c, x, y: e(op.matmul(x, y)), "matmul", **more)


def dense(*after: Callable[[Any, Any], Any], ops: str, shape: Any = (16, 24),
          backend: str = "cublaslt", **more: Any) -> Case:  # fmt: skip
    def build(emit: Any, const: Any, x: Any) -> Any:
        y = emit(op.matmul(x, const(24, 32)))
        for f in after:
            y = emit(f(y, const))
        return y

    return Case(backend, (shape,), build, f"matmul {ops}".strip(), **more)


def bias(y: Any, const: Any) -> Any:
    return op.add(y, const(32))


def _linear(emit: Any, const: Any, x: Any, w: Any, b: Any) -> Any:
    y = emit(op.matmul(x, emit(op.permute_dims(w))))
    return emit(nn.relu(emit(op.add(y, b))))


def _stored(emit: Any, const: Any, x: Any, w: Any, b: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(transposed_matmul(x, w)), b))))


def _scores(emit: Any, const: Any, q: Any, k: Any) -> Any:
    y = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    return emit(op.multiply(y, relax.const(0.125, q.ty.dtype)))


def _residual(emit: Any, const: Any, x: Any, z: Any) -> Any:
    y = emit(op.add(emit(op.matmul(x, const(24, 32))), const(32)))
    return emit(nn.relu(emit(op.add(z, y))))


def _residual_first(emit: Any, const: Any, x: Any, z: Any) -> Any:
    y = emit(op.add(emit(op.matmul(x, const(24, 32))), z))
    return emit(op.add(y, const(32)))


def _wide(emit: Any, const: Any, x: Any, y: Any) -> Any:
    return emit(op.matmul(x, y, out_dtype="float32"))


def _cast(emit: Any, const: Any, x: Any, y: Any) -> Any:
    z = emit(op.astype(emit(op.matmul(x, y)), "float32"))
    return emit(nn.relu(emit(op.add(z, op.astype(const(40), "float32")))))


PRODUCTS: dict[str, Case] = {
    "matmul": _product((16, 24), (24, 40)),
    "odd extents": _product((5, 7), (7, 3)),
    "batch": _product((3, 16, 24), (3, 24, 8)),
    "batch, one a": _product((1, 16, 24), (3, 24, 8)),
    "batch, one b": _product((2, 3, 16, 24), (24, 8)),
    "extents at run time": _product((N, 4, M), (N, M, 5)),
    "rows at run time": dense(bias, ops="add", shape=(N, 24)),
    "relu": dense(lambda y, c: nn.relu(y), ops="relu"),
    "bias, relu": dense(bias, lambda y, c: nn.relu(y), ops="add relu"),
    "bias, gelu by tanh": dense(bias, lambda y, c: nn.gelu_tanh(y), ops="add gelu_tanh"),
    "gelu by tanh": dense(lambda y, c: nn.gelu_tanh(y), ops="gelu_tanh", shape=(N, 5, 24)),
    "scaled, bias": dense(lambda y, c: op.divide(y, relax.const(8.0)), bias, ops="divide add"),
    "linear": Case("cublaslt", ((N, 24), (32, 24), (32,)), _linear, "permute_dims matmul add relu"),
    "scores": Case("cublaslt", ((2, 3, N, 16), (2, 3, M, 16)), _scores,
                   "permute_dims matmul multiply"),
    "residual": Case("cublaslt", ((16, 24), (16, 32)), _residual, "matmul add add relu"),
    "residual before bias": Case("cublaslt", ((2, 8, 24), (2, 8, 32)), _residual_first,
                                 "matmul add add"),
    "float16": dense(bias, lambda y, c: nn.relu(y), ops="add relu", dtype="float16",
                     shape=(N, 24)),
    "float16 linear": Case("cublaslt", ((N, 24), (32, 24), (32,)), _linear,
                           "permute_dims matmul add relu", "float16"),
    "float16 scores": Case("cublaslt", ((2, 3, N, 16), (2, 3, M, 16)), _scores,
                           "permute_dims matmul multiply", "float16"),
    "float16 to float32": Case("cublaslt", ((16, 24), (24, 8)), _wide, "matmul", "float16"),
    "float16, cast, bias": Case("cublaslt", ((16, 24), (24, 40)), _cast,
                                "matmul astype add relu", "float16"),
    "bfloat16 residual": Case("cublaslt", ((16, 24), (16, 32)), _residual, "matmul add add relu",
                              "bfloat16"),
    "stored transposed": Case("cublaslt", ((N, 24), (32, 24), (32,)), _stored,
                              "transposed_matmul add relu"),
    "float16 stored transposed": Case("cublaslt", ((2, N, 24), (32, 24), (32,)), _stored,
                                      "transposed_matmul add relu", "float16"),
    "bfloat16 gelu": dense(bias, lambda y, c: nn.gelu_tanh(y), ops="add gelu_tanh",
                           dtype="bfloat16"),
}  # fmt: skip


def _layer(emit: Any, const: Any, x: Any, z: Any) -> Any:
    """A product of halves as torch exports it: rows merged, what follows in float32."""
    half = str(x.ty.dtype)
    y = emit(op.matmul(x, const(24, 32), out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(32), "float32"))), half))
    y = emit(op.reshape(y, (2, 8, 32)))
    wide = [emit(op.astype(v, "float32")) for v in (z, y)]
    return emit(op.astype(emit(op.add(*wide)), half))


def _rounded_twice(emit: Any, const: Any, x: Any, z: Any) -> Any:
    half = str(x.ty.dtype)
    y = emit(op.astype(emit(op.matmul(x, const(24, 32), out_dtype="float32")), half))
    y = emit(op.astype(emit(op.add(emit(op.astype(y, "float32")), op.astype(const(32), "float32"))),
                       half))  # fmt: skip
    y = emit(nn.relu(emit(op.add(emit(op.astype(y, "float32")), emit(op.astype(z, "float32"))))))
    return emit(op.reshape(emit(op.astype(y, half)), (2, 2, 4, 32)))


def _gelu_in_halves(emit: Any, const: Any, x: Any) -> Any:
    """GPT-2's GELU as torch exports it: each operator in float32, its result rounded."""
    half = str(x.ty.dtype)

    def rounded(f: Any, *values: Any) -> Any:
        wide = [emit(op.astype(v, "float32")) if v.ty.dtype == half else v for v in values]
        return emit(op.astype(emit(f(*wide)), half))

    def number(value: float) -> Any:
        return relax.const(value, "float32")

    y = emit(op.matmul(x, const(24, 32), out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(32), "float32"))), half))
    y = emit(op.reshape(y, (2, 8, 32)))
    cube = rounded(op.multiply, rounded(op.power, y, number(3.0)), number(0.044715))
    tanh = rounded(op.tanh, rounded(op.multiply, rounded(op.add, y, cube), number(0.7978845608)))
    return rounded(op.multiply, rounded(op.multiply, y, number(0.5)),
                   rounded(op.add, tanh, number(1.0)))  # fmt: skip


_GELU = ("matmul add astype reshape astype astype astype power multiply astype astype astype "
         "astype multiply astype astype add astype astype multiply astype astype tanh astype "
         "astype add astype astype multiply astype")  # fmt: skip
PRODUCTS |= {
    "float16 gelu in halves": Case("cublaslt", ((16, 24),), _gelu_in_halves, _GELU, "float16"),
    "float16 layer": Case("cublaslt", ((16, 24), (2, 8, 32)), _layer,
                          "matmul add astype reshape astype astype add astype", "float16"),
    "bfloat16 layer": Case("cublaslt", ((16, 24), (2, 8, 32)), _layer,
                           "matmul add astype reshape astype astype add astype", "bfloat16"),
    "float16 rounded twice": Case(
        "cublaslt", ((16, 24), (16, 32)), _rounded_twice,
        "matmul astype astype add astype astype astype add relu astype reshape", "float16"),
    "float16, one row": Case(
        "cublaslt", ((1, 24),), lambda e, c, x: e(op.astype(e(op.add(e(op.matmul(
            x, c(24, 32), out_dtype="float32")), op.astype(c(1, 32), "float32"))), x.ty.dtype)),
        "matmul add astype", "float16"),
    "reshaped residual": Case(
        "cublaslt", ((16, 24), (2, 8, 32)), lambda e, c, x, z: e(nn.relu(e(op.add(e(op.reshape(
            e(op.add(e(op.matmul(x, c(24, 32))), c(32))), (2, 8, 32))), z)))),
        "matmul add reshape add relu"),
}  # fmt: skip
