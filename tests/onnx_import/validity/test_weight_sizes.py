"""Sparse weights, weights in other files, and the memory that a model may use."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import opinfo
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats import onnx_proto
from opinfo.frontend.reading import limits

from ..against_runtime import compare, floats, model
from .test_contradictions import X, _node, _refusal


def _sparse(values: list[float], indices: Any, sizes: tuple[int, ...]) -> Any:
    proto = model([_node("Add", "x", "w")], X)
    sparse = proto.graph.sparse_initializer.add(dims=sizes)
    sparse.values.CopyFrom(numpy_helper.from_array(np.array(values, "float32"), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(indices, "int64"), "i"))
    return proto


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_weights(indices: Any) -> None:
    compare(_sparse([7, 9], indices, (2, 3)), {"x": floats(2, 3)})


@pytest.mark.parametrize(
    ("indices", "sizes"),
    [
        ([1, 6], (2, 3)), ([-1, 1], (2, 3)), ([1, 1], (2, 3)), ([1], (2, 3)),
        ([[0, 3], [1, 0]], (2, 3)), ([[0, 0], [0, -1]], (2, 3)), ([0, 1], (10**12,)),
        ([0, 1], (2**32, 2**32)), ([0, 1], (-6,)),
    ],
)  # fmt: skip
def test_sparse_weights_that_do_not_fit(indices: Any, sizes: tuple[int, ...]) -> None:
    assert "the sparse weight 'w' has" in _refusal(_sparse([7, 9], indices, sizes))


def _elsewhere(place: str) -> Any:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2],
                         data_location=TensorProto.EXTERNAL)  # fmt: skip
    tensor.external_data.add(key="location", value=place)
    return tensor


def test_a_weight_of_negative_sizes_is_refused() -> None:
    """As in a reshape by numpy, the size was computed."""
    weight = numpy_helper.from_array(floats(6), "w")
    weight.dims[:] = [2, -3]
    proto = model([_node("Neg", "w")], {})
    proto.graph.initializer.append(weight)
    assert "the tensor 'w' has sizes (2, -3)" in _refusal(proto)


def test_a_sparse_weight_is_not_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.bin").write_bytes(np.array([7, 9], "float32").tobytes())
    monkeypatch.chdir(tmp_path)
    proto = _sparse([7, 9], [1, 5], (2, 3))
    proto.graph.sparse_initializer[0].values.CopyFrom(_elsewhere("secret.bin"))
    assert "the tensor 'w' is in another file" in _refusal(proto)


def test_a_missing_file_of_weights_is_named(tmp_path: Path) -> None:
    proto = model([_node("Add", "x", "w")], X)
    proto.graph.initializer.append(_elsewhere("weights.bin"))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(FrontendError) as caught:
        opinfo.load(tmp_path / "model.onnx")
    assert str(caught.value).endswith(
        "the weights of 'w' are in 'weights.bin', which does not exist; copy it beside the model"
    )


def test_a_name_that_no_file_has_is_refused(tmp_path: Path) -> None:
    proto = model([_node("Add", "x", "w")], X)
    proto.graph.initializer.append(_elsewhere("v" * 300))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(FrontendError) as caught:
        opinfo.load(tmp_path / "model.onnx")
    text = str(caught.value)
    assert "the weights of 'w' are in 'vvv" in text and "\n" not in text and len(text) < 400
    assert text.endswith("a name of 300 characters, expected at most 255; rename the file, and set "
                         "its name as the location")  # fmt: skip


@pytest.mark.parametrize("place", ["/proc/kcore", "../outside.bin", "hole.bin"])
def test_files_that_are_not_read_allow_no_memory(place: str, tmp_path: Path) -> None:
    """`/proc/kcore` says that it has 128 TiB, and a file may have holes."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(8))
    with (folder / "hole.bin").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "good.bin").write_bytes(bytes(8))
    proto = model([_node("Add", "x", "w")], X)
    tensor = _elsewhere("good.bin")
    proto.graph.initializer.append(tensor)
    before = onnx_proto._external_size(proto, folder)
    assert before == 8
    proto.graph.initializer.append(_elsewhere(place))
    proto.graph.initializer[1].dims[:] = [1 << 38]
    assert onnx_proto._external_size(proto, folder) <= before + (64 << 10)


def test_no_model_may_use_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, -1))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: set_to.append(pair[0]))
    limits.allow(1 << 50)
    limits.allow(1 << 20)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert set_to == [physical // 2, limits.FACTOR << 20]
