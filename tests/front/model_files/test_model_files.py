"""Which module is that of a file, and what of the file runtimes get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.frontend.formats.onnx_proto import read_proto
from opinfo.frontend.formats.static_onnx import static_file
from opinfo.frontend.source_file import source_of

from .model_file_cases import WEIGHTS, X, declared, loaded, product, saved

pytestmark = pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime")


def test_only_the_module_that_was_loaded_has_a_file(path: Path) -> None:
    mod = loaded(path)
    source = source_of(mod)
    assert source is not None and source.path == path and not mod.attrs
    assert source_of(loaded(path)) == source
    changed = relax.transform.LegalizeOps()(mod)
    assert source_of(changed) is None and source_of(mod) == source
    mod["main"] = changed["main"].with_attr("num_input", 1)
    assert source_of(mod) is None


def test_other_weights_are_another_module(path: Path) -> None:
    mod = loaded(path)
    weights = WEIGHTS.copy()
    weights[-1, -1] += 1
    other = relax.Var("x", relax.TensorType((4, 8), "float32"))
    builder = relax.BlockBuilder()
    assert source_of(_written(builder, other, WEIGHTS)) == source_of(mod)
    builder, other = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 8), "float32"))
    assert source_of(_written(builder, other, weights)) is None


def _written(builder: Any, x: Any, weights: Any) -> Any:
    """The module as the importer writes it."""
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            a = builder.emit(relax.op.matmul(x, relax.const(weights)))
            out = builder.emit_output(builder.emit(relax.op.nn.relu(a)))
        builder.emit_func_output(out)
    return builder.get()


def test_a_runtime_gets_the_file_with_static_shapes_and_nothing_else(path: Path) -> None:
    _, digest = read_proto(path)
    line, _, content = b"".join(static_file(path, digest, [[4, 8]])).partition(b"\n")
    assert line == b'[["an \\"input\\""], ["out??/\\u00e9"]]'
    model = onnx.load_model_from_string(content)
    assert model.graph.input == [declared(X, [4, 8])]
    assert list(model.graph.node) == list(product().graph.node)
    (weight,) = model.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weight), WEIGHTS)
    assert not model.producer_name and not model.metadata_props


def _elsewhere() -> Any:
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2],
                         data_location=TensorProto.EXTERNAL)  # fmt: skip
    tensor.external_data.add(key="location", value="w.bin")
    return tensor


def _function(*nodes: Any) -> Any:
    return helper.make_function("own", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 18)])


@pytest.mark.parametrize(
    ("model", "extents", "message"),
    [
        (product(), [[4, 8], [8, 16]], "it has 1 inputs, the module 2"),
        (product(), [[4, 9]], "has other static sizes in the file"),
        (product(), [[4, 8, 1]], "has 2 dimensions in the file"),
        (product(nodes=[helper.make_node("Do", ["a"], ["b"], domain="custom")]), [[4, 8]],
         "does not convert the operator custom.Do"),
        (product(nodes=[helper.make_node("EPContext", ["a"], ["b"], domain="com.microsoft")]),
         [[4, 8]], "does not convert the operator com.microsoft.EPContext"),
        (product(functions=[_function(helper.make_node("Do", ["x"], ["y"], domain="custom"))]),
         [[4, 8]], "does not convert the operator custom.Do"),
        (product(sparse=[onnx.SparseTensorProto(values=_elsewhere())]), [[4, 8]],
         "is in another file"),
    ],
)  # fmt: skip
def test_what_runtimes_do_not_get(model: Any, extents: Any, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, model)
    _, digest = read_proto(path)
    with pytest.raises(opinfo.FrontendError, match=message):
        static_file(path, digest, extents)


def test_runtimes_get_operators_that_are_read_as_functions(tmp_path: Path) -> None:
    """`Trilu` of ONNX Runtime has no converter, but a body of ONNX's nodes."""
    trilu = helper.make_node("Trilu", ["a"], ["b"], domain="com.microsoft")
    path = saved(tmp_path, product(nodes=[trilu]))
    _, digest = read_proto(path)
    assert b"Trilu" in b"".join(static_file(path, digest, [[4, 8]]))


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, product(), external=True)
    source = source_of(loaded(path))
    assert source is not None and source.static([[4, 8]]).inputs == (X,)
    (tmp_path / "w.bin").write_bytes((2 * WEIGHTS).tobytes())
    with pytest.raises(opinfo.FrontendError, match="has changed since it was loaded"):
        source.static([[4, 8]])
    path.unlink()
    with pytest.raises(opinfo.FrontendError, match="No such file"):
        source.static([[4, 8]])
