"""Repeated conversions, and padding that a slice cuts off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.transform import CancelLayoutTransforms

from .. import nets
from ..planning.test_plan import check_same, names

IMAGE = (1, 6, 3, 3)
TRANSFORM = "relax.layout_transform"


def packed(x: Any) -> Any:
    """Six channels in blocks of four; the last two of eight are padding."""
    return relax.op.layout_transform(x, index_map=lambda n, c, h, w: (n, c // 4, h, w, c % 4))


def unpacked(y: Any) -> Any:
    return relax.op.layout_transform(y, index_map=lambda n, o, h, w, i: (n, o * 4 + i, h, w))


def cut(z: Any, begin: int = 0, end: int = 6) -> Any:
    return relax.op.strided_slice(z, [1], [begin], [end], [1])


def there_and_back(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.nn.relu(emit(cut(emit(unpacked(emit(packed(x))))))))


def fewer_channels(emit: Any, rng: Any, x: Any) -> Any:
    return emit(cut(emit(unpacked(emit(packed(x)))), 0, 5))


def other_channels(emit: Any, rng: Any, x: Any) -> Any:
    return emit(cut(emit(unpacked(emit(packed(x)))), 2, 8))


def other_order(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(packed(x))
    z = relax.op.layout_transform(y, index_map=lambda n, o, h, w, i: (n, i * 2 + o, h, w))
    return emit(cut(emit(z)))


def repeated(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.nn.relu(emit(packed(x))))
    turned = emit(relax.op.permute_dims(emit(packed(x)), [0, 4, 1, 2, 3]))
    again = emit(relax.op.permute_dims(emit(packed(x)), [0, 4, 1, 2, 3]))
    return emit(relax.Tuple([y, emit(relax.op.add(turned, again))]))


CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "there and back": (there_and_back, 0),
    "fewer channels": (fewer_channels, 2),
    "other channels": (other_channels, 2),
    "other order": (other_order, 2),
    "repeated": (repeated, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_transforms_left_and_equal_results(case: str) -> None:
    build, left = CASES[case]
    mod = nets.net(build, IMAGE, legal=False)
    out = CancelLayoutTransforms()(mod)
    assert names(out).count(TRANSFORM) == left
    assert names(out).count("relax.permute_dims") == (case == "repeated")
    relax.analysis.well_formed(out)
    check_same(relax.transform.LegalizeOps()(mod), out, IMAGE)


def test_transforms_of_different_values_stay() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.add(emit(packed(x)), emit(packed(emit(relax.op.nn.relu(x))))))

    assert (
        names(CancelLayoutTransforms()(nets.net(build, IMAGE, legal=False))).count(TRANSFORM) == 2
    )


def test_a_value_of_another_block_is_not_used() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                a = R.permute_dims(x)
                b = R.exp(a)
                R.output(b)
            e = R.exp(b)
            with R.dataflow():
                c = R.permute_dims(x)
                d = R.add(c, e)
                R.output(d)
            return d

    out = CancelLayoutTransforms()(Module)
    relax.analysis.well_formed(out)
    assert names(out).count("relax.permute_dims") == 2
