"""Shape arithmetic is evaluated; what depends on data is refused or checked at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax, tirx

import opinfo
from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.onnx_graph.scalars import Rational, Unknown, rational
from opinfo.frontend.onnx_graph.size_arithmetic import SizeArithmetic
from opinfo.jit.arguments.acceptor import BoundaryError
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, compare, floats, model

make = helper.make_node


def _ints(**values: Any) -> dict[str, Array]:
    return {name: np.array(value, "int64") for name, value in values.items()}


def _sizes(mod: tvm.IRModule) -> list[int | str]:
    """Return the sizes of the result."""
    dims = mod["main"].ret_ty.shape.values
    return [d.value if isinstance(d, tirx.IntImm) else d.name for d in dims]


def test_a_shape_is_computed_from_a_shape() -> None:
    nodes = [
        make("Shape", ["x"], ["s"]), make("Gather", ["s", "zero"], ["b"]),
        make("Gather", ["s", "one"], ["c"]), make("Div", ["c", "two"], ["half"]),
        make("Unsqueeze", ["b", "first"], ["b1"]), make("Unsqueeze", ["half", "first"], ["h1"]),
        make("Concat", ["b1", "two1", "h1"], ["t"], axis=0), make("Reshape", ["x", "t"], ["y"]),
    ]  # fmt: skip
    weights = _ints(zero=0, one=1, two=2, first=[0], two1=[2])
    proto = model(nodes, {"x": (["b", 8], "float32")}, weights=weights)
    mod = compare(proto, {"x": floats(3, 8)}, {"x": floats(1, 8)})
    assert _sizes(mod) == ["b", 2, 4]


def test_a_size_by_way_of_floating_point() -> None:
    """Old exporters write the size of an interpolation as floor(float(n) * 2.5)."""
    nodes = [
        make("Shape", ["x"], ["s"]), make("Slice", ["s", "two", "four"], ["hw"]),
        make("Cast", ["hw"], ["f"], to=TensorProto.FLOAT), make("Mul", ["f", "factor"], ["g"]),
        make("Floor", ["g"], ["r"]), make("Cast", ["r"], ["i"], to=TensorProto.INT64),
        make("Slice", ["s", "zero", "two"], ["nc"]), make("Concat", ["nc", "i"], ["t"], axis=0),
        make("Resize", ["x", "", "", "t"], ["y"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
    ]  # fmt: skip
    weights = _ints(zero=[0], two=[2], four=[4]) | {"factor": np.array([2.5, 2.0], "float32")}
    proto = model(nodes, {"x": ([1, 2, "h", "w"], "float32")}, weights=weights)
    compare(proto, {"x": floats(1, 2, 3, 4)}, {"x": floats(1, 2, 4, 2)})


def test_a_shape_that_becomes_data() -> None:
    nodes = [make("Shape", ["x"], ["s"]), make("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
             make("Mul", ["x", "f"], ["y"])]  # fmt: skip
    proto = model(nodes, {"x": (["n", 2], "float32")})
    compare(proto, {"x": floats(2, 2)})


def test_slices_with_symbolic_bounds() -> None:
    nodes = [
        make("Shape", ["x"], ["s"]), make("Gather", ["s", "one"], ["n"]),
        make("Slice", ["table", "zero", "n", "axis"], ["rows"]), make("Add", ["x", "rows"], ["a"]),
        make("Slice", ["a", "minus", "far", "axis"], ["last"]),
        make("Slice", ["a", "one", "far", "axis", "two"], ["odd"]),
        make("Concat", ["last", "odd"], ["y"], axis=1),
    ]  # fmt: skip
    weights = _ints(zero=[0], one=[1], axis=[1], minus=[-2], far=[2**63 - 1], two=[2])
    weights["table"] = floats(1, 9)
    proto = model(nodes, {"x": (["b", "n"], "float32")}, weights=weights)
    feeds = [{"x": floats(1, 5)}, {"x": floats(2, 9)}]
    compare(proto, *feeds)


def test_a_table_that_is_too_short_fails_at_run_time() -> None:
    from tests.common.run import run

    nodes = [make("Shape", ["x"], ["n"]), make("Slice", ["table", "zero", "n"], ["rows"]),
             make("Add", ["x", "rows"], ["y"])]  # fmt: skip
    weights = _ints(zero=[0]) | {"table": floats(4)}
    mod = from_model(model(nodes, {"x": (["n"], "float32")}, weights=weights), {})
    np.testing.assert_allclose(run(mod, [np.zeros(3, "float32")])[0], weights["table"][:3])
    with pytest.raises(Exception, match="shape"):
        run(mod, [np.zeros(5, "float32")])


def test_sizes_that_must_be_equal_are_checked_at_run_time() -> None:
    from tests.common.run import run

    proto = model([make("Add", ["a", "b"], ["y"])],
                  {"a": (["n"], "float32"), "b": (["m"], "float32")})  # fmt: skip
    compare(proto, {"a": floats(3), "b": floats(3, seed=1)})
    with pytest.raises(Exception, match=r"(?i)shape|match"):
        run(from_model(proto, {}), [floats(3), floats(4)])


def test_ranges_expansions_and_fills() -> None:
    nodes = [
        make("Shape", ["x"], ["s"]), make("Gather", ["s", "zero"], ["n"]),
        make("Range", ["zero", "n", "two"], ["r"]),
        make("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
        make("Expand", ["row", "s"], ["e"]), make("Add", ["x", "e"], ["z"]),
        make("ConstantOfShape", ["s"], ["o"], value=helper.make_tensor("v", 1, [1], [2.5])),
        make("Tile", ["o", "s"], ["t"]), make("Trilu", ["x"], ["u"], upper=0),
    ]  # fmt: skip
    weights = _ints(zero=0, two=2) | {"row": floats(1, 3)}
    proto = model(nodes, {"x": (["n", 3], "float32")}, ["y", "z", "t", "u"], weights)
    compare(proto, {"x": floats(5, 3)}, {"x": floats(2, 3)})


def test_conditions_on_sizes_are_decided() -> None:
    nodes = [
        make("Shape", ["x"], ["s"]), make("Equal", ["target", "minus"], ["any"]),
        make("Where", ["any", "s", "target"], ["t"]), make("Expand", ["row", "t"], ["y"]),
    ]  # fmt: skip
    weights = _ints(target=[-1, 4], minus=[-1]) | {"row": floats(1, 4)}
    proto = model(nodes, {"x": (["n", 4], "float32")}, weights=weights)
    compare(proto, {"x": floats(3, 4)})


def test_pads_that_depend_on_sizes() -> None:
    """Padding to a multiple of 4."""
    nodes = [
        make("Shape", ["x"], ["s"]), make("Mod", ["s", "four"], ["m"]),
        make("Sub", ["four", "m"], ["p"]), make("Concat", ["zero", "p"], ["pads"], axis=0),
        make("Pad", ["x", "pads"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, {"x": (["n"], "float32")}, weights=_ints(four=[4], zero=[0]))
    compare(proto, {"x": floats(5)}, {"x": floats(7)})


def test_repeats_from_data_are_refused_by_name() -> None:
    nodes = [make("Add", ["t", "t"], ["u"]), make("Tile", ["x", "u"], ["y"], name="copies")]
    proto = model(nodes, {"x": ([4], "float32"), "t": ([1], "int64")})
    with pytest.raises(FrontendError, match=r"node 'copies' \(Tile\): repeats is computed at"):
        from_model(proto, {})


def test_a_refusal_proposes_sizes_that_can_be_kept() -> None:
    nodes = [make("Resize", ["x", "", "factors"], ["y"], name="up", mode="linear")]
    weights = {"factors": np.array([1, 1, 1.1, 1], "float32")}
    proto = model(nodes, {"x": (["n", 2, "h", 4], "float32")}, weights=weights)
    with pytest.raises(FrontendError, match=r"make 'h' static, .* --shape x:\?,2,64,4$"):
        from_model(proto, {})
    mod = from_model(proto, {"x": ("?", 2, 64, "?")})
    assert _sizes(mod) == ["n", 2, 70, 4]


def test_dimensions_of_one_name_are_one_variable() -> None:
    inputs: dict[str, tuple[list[object], str]] = {
        "a": (["n", "2*n"], "float32"), "b": (["n", None], "float32")
    }  # fmt: skip
    mod = from_model(model([make("Relu", ["a"], ["y"])], inputs), {})
    first, second = (p.ty.shape.values for p in mod["main"].params)
    assert first[0].same_as(second[0]) and str(second[1]) == "b_1"
    tvm.ir.assert_structural_equal(first[1], first[0] * 2)


def test_a_size_that_is_requested_holds_for_all_inputs_that_name_it() -> None:
    inputs = {"a": (["n", "m"], "float32"), "b": (["n", "2*m"], "float32")}
    proto = model([make("Relu", ["a"], ["y"])], inputs)
    mod = from_model(proto, {"a": (4, "k")})
    first, second = (p.ty.shape.values for p in mod["main"].params)
    assert [int(x[0].value) for x in (first, second)] == [4, 4]
    tvm.ir.assert_structural_equal(second[1], first[1] * 2)


def test_rationals_are_exact_or_unknown() -> None:
    arithmetic, n = SizeArithmetic(), tirx.Var("n", "int64")
    assert arithmetic.multiply(rational(0.5), Rational(6)) == Rational(3)
    half = arithmetic.floor(arithmetic.multiply(rational(0.5), n)).top
    assert arithmetic.equal(half, tirx.floordiv(n, 2))
    assert not arithmetic.equal(half, n)
    with pytest.raises(Unknown):
        rational(0.1)


def test_symbols_that_must_be_equal_stay_so_when_bindings_are_canonical() -> None:
    """TVM takes the symbol of such a cast for a new one, and drops the shapes that follow."""
    nodes = [make("Concat", ["x", "z"], ["c"], axis=1), make("Mul", ["c", "w"], ["y"])]
    inputs: Inputs = {"x": (["n", 2], "float32"), "z": (["m", 2], "float32")}
    mod = compare(model(nodes, inputs, weights={"w": floats(4)}),
                  {"x": floats(3, 2), "z": floats(3, 2, seed=1)})  # fmt: skip
    canonical = relax.transform.CanonicalizeBindings()(mod)
    machine = relax.VirtualMachine(unoptimised(canonical), tvm.cpu())
    equal, longer = (tvm.runtime.tensor(floats(rows, 2)) for rows in (3, 4))
    assert machine["main"](equal, equal).shape == (3, 4)
    with pytest.raises(RuntimeError, match="match_cast error"):
        machine["main"](equal, longer)


def test_a_dimension_that_is_a_multiple_of_a_size_that_no_dimension_has() -> None:
    """TVM takes a variable from a dimension that consists of it alone."""
    nodes = [make("MaxPool", ["x"], ["p"], kernel_shape=[2], strides=[2]),
             make("Reshape", ["p", "t"], ["y"])]  # fmt: skip
    inputs: Inputs = {"x": ([1, 3, "4*n"], "float32")}
    proto = model(nodes, inputs, weights=_ints(t=[3, -1, 2]))
    mod = compare(proto, {"x": floats(1, 3, 8)}, {"x": floats(1, 3, 20)})
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    with pytest.raises(RuntimeError, match="match_cast error"):
        machine["main"](tvm.runtime.tensor(floats(1, 3, 10)))


def test_a_dimension_of_two_sizes_that_no_dimension_has_is_refused() -> None:
    proto = model([make("Relu", ["x"], ["y"])], {"x": ([3, "2*n + m"], "float32")})
    with pytest.raises(FrontendError, match="has several unknown sizes, expected one"):
        from_model(proto, {})


def test_a_squeeze_without_axes_names_the_size_that_it_would_drop() -> None:
    proto = model([make("Squeeze", ["x"], ["y"])], {"x": (["n", 1, 3], "float32")})
    compiled = opinfo.compile(from_model(proto, {}), [])
    assert compiled.run(floats(2, 1, 3)).shape == (2, 3)
    with pytest.raises(BoundaryError, match=r"^main: got n = 1; the model is only defined for n"):
        compiled.run(floats(1, 1, 3))
