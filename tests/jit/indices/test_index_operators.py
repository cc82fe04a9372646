"""Operators that read or write at elements of an operand fail at those outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.jit.arguments.index_checks import checked_indices

from .computed_indices import numbers

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

op, nn = relax.op, relax.op.nn
Build = Callable[..., Any]
FLOAT, INT, SHORT = "float32", "int64", "int32"


def _module(build: Build, *types: tuple[tuple[int, ...], str]) -> Any:
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{k}", relax.TensorType(*t)) for k, t in enumerate(types)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit(build(*params))
            if isinstance(out.ty, relax.TupleType):
                out = builder.emit(relax.TupleGetItem(out, 0))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return builder.get()


def _filled(*shape: int) -> Any:
    return np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)


def _by_a_variable(x: Any, i: Any, j: Any) -> Any:
    indices = relax.BlockBuilder.current().emit(relax.Tuple([i, j]))
    return op.index_tensor(x, indices)


def _losses(x: Any, targets: Any) -> Any:
    return nn.nll_loss(x, targets, reduction="none", ignore_index=-100)


def _unsigned(x: Any, i: Any, u: Any) -> Any:
    return op.scatter_elements(x, op.astype(i, "uint64"), u, 0)


X, BOXES, IMAGES = _filled(3, 4), _filled(1, 3, 6), _filled(2, 1, 4, 4)
REGIONS = np.array([[1, 0, 0, 2, 2]], "float32")
#: An operator, its operands, the one with indices, indices inside, the result, and those outside.
CASES: dict[str, tuple[Build, list[Any], int, Any, Any, list[Any]]] = {
    "index_tensor": (_by_a_variable, [X, None, numbers([0, 1])[0]], 1, [2, 0], [9, 2],
                     [[3, 0], [-1, 0]]),
    "nll_loss": (_losses, [X, None], 1, [3, -100, 0], [-4, 0, -9],
                 [[4, 0, 0], [0, -1, 0], [0, 0, -101]]),
    "scatter_elements": (_unsigned, [X[0], None, -X[1]], 1, [3, 2, 1, 0], [-8, -7, -6, -5],
                         [[0, 1, 2, 4], [-1, 0, 1, 2]]),
    "take_backward": (lambda x, g, i: op.grad.take_backward(g, x, i, 0), [X, X[:2], None], 2,
                      [2, 0], [X[1], 0 * X[0], X[0]], [[0, 3], [0, -1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_indices(name: str) -> None:
    build, operands, place, inside, expected, outside = CASES[name]

    def arguments(index: Any) -> list[Any]:
        return [np.array(index, INT) if k == place else x for k, x in enumerate(operands)]

    types = [(x.shape, str(x.dtype)) for x in arguments(inside)]
    compiled = opinfo.compile(_module(build, *types), [])
    np.testing.assert_array_equal(compiled.run(*arguments(inside)), np.array(expected, "float32"))
    for index in outside:
        with pytest.raises(ValueError, match=r"as an index, it must be|outside of its axis"):
            compiled.run(*arguments(index))


@pytest.mark.parametrize("computed", [False, True])
def test_the_image_of_a_region(computed: bool) -> None:
    """It is a real number of a region, which TVM's code casts to an integer."""

    def pooled(x: Any, regions: Any) -> Any:
        emit = relax.BlockBuilder.current().emit
        return op.vision.roi_align(x, emit(op.negative(regions)) if computed else regions,
                                   (1, 1), 1.0, 1)  # fmt: skip

    compiled = opinfo.compile(_module(pooled, (IMAGES.shape, FLOAT), ((1, 5), FLOAT)), [])
    sign = -1 if computed else 1
    got = compiled.run(IMAGES, sign * REGIONS)
    np.testing.assert_allclose(got, [[[[IMAGES[1, 0, 1, 1]]]]])
    for image in (2, -1, np.nan, np.inf):
        region = REGIONS.copy()
        region[0, 0] = image
        with pytest.raises(ValueError, match=r"as an index, it must be|outside of its axis"):
            compiled.run(IMAGES, sign * region)


def test_images_that_are_joined_to_regions_are_checked_where_they_are_integers() -> None:
    """As the converter of ONNX writes them: a second check would cut a region of a backend."""

    def pooled(x: Any, places: Any, regions: Any) -> Any:
        emit = relax.BlockBuilder.current().emit
        images = emit(op.take(emit(op.arange(0, 2, 1, INT)), places, 0, mode="fast"))
        column = emit(op.astype(emit(op.expand_dims(images, 1)), FLOAT))
        return op.vision.roi_align(x, emit(op.concat([column, regions], 1)), (1, 1), 1.0, 1)

    mod = _module(pooled, (IMAGES.shape, FLOAT), ((1,), INT), ((1, 4), FLOAT))
    assert checked_indices(mod).same_as(mod)
    compiled = opinfo.compile(mod, [])
    got = compiled.run(IMAGES, np.ones(1, INT), REGIONS[:, 1:])
    np.testing.assert_allclose(got, [[[[IMAGES[1, 0, 1, 1]]]]])
    with pytest.raises(ValueError, match="has the element 2; as an index, it must be 0 to 1"):
        compiled.run(IMAGES, np.full(1, 2), REGIONS[:, 1:])


def test_the_number_of_boxes() -> None:
    """TVM's code read as many, and ended the process."""

    def kept(boxes: Any, counts: Any, indices: Any) -> Any:
        return op.vision.non_max_suppression(boxes, counts, indices)

    types = ((BOXES.shape, FLOAT), ((1,), SHORT), ((1, 3), SHORT))
    compiled = opinfo.compile(_module(kept, *types), [])
    order = np.array([[0, 1, 2]], SHORT)
    np.testing.assert_array_equal(compiled.run(BOXES, np.array([0], SHORT), order), [[-1, -1, -1]])
    with pytest.raises(ValueError, match="has the element 300; as an index, it must be 0 to 3"):
        compiled.run(BOXES, np.array([300], SHORT), order)
