"""The backend, tested by opinfo's kit."""

import pytest
from tiny_npu import TINY_NPU
from tvm import relax

from opinfo.testing import Case, Example, backend_cases

op = relax.op


def dense(emit, const, x):
    return emit(op.matmul(x, const(6, 5)))


def layer(emit, const, x):
    return emit(op.nn.relu(emit(op.add(dense(emit, const, x), const(5)))))


EXAMPLES = [
    Example("product", ((4, 6),), dense, takes="matmul"),
    Example("layer", ((4, 6),), layer, takes="matmul add relu"),
    Example("rows known at run time", (("n", 6),), layer, takes="matmul add relu"),
    Example("bias first", ((4, 6),), lambda emit, const, x: emit(
        op.add(const(1, 5), dense(emit, const, x))), takes="matmul add"),
    Example("two layers", ((4, 6),), lambda emit, const, x: emit(
        op.matmul(emit(op.tanh(layer(emit, const, x))), const(5, 3))),
        takes="matmul add relu, matmul", refused="no pattern of tiny_npu has relax.tanh"),
    Example("half precision", ((4, 6),), dense, dtypes=("float16", "float64"),
            refused="expected float32"),
    Example("weights as an input", ((4, 6), (6, 5)), lambda emit, const, x, w: emit(
        op.matmul(x, w)), refused="the weights are not constant"),
    Example("bias by row", ((4, 6),), lambda emit, const, x: emit(
        op.add(dense(emit, const, x), const(4, 1))), takes="matmul",
        refused="the bias is not a constant of the shape (5,)"),
]  # fmt: skip


@pytest.mark.parametrize("case", backend_cases(TINY_NPU, EXAMPLES), ids=str)
def test_tiny_npu(case: Case) -> None:
    case.check()
