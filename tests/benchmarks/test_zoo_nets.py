"""The table of architectures: what is open is fixed, and each kind of entry builds and exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.zoo.models import nets
from benchmarks.zoo.split import is_open


def test_the_split_depends_on_the_name_alone() -> None:
    assert is_open("papers/crnn") and not is_open("papers/rnnoise")
    count = sum(map(is_open, nets.NETS))
    assert len(nets.NETS) >= 40 and abs(2 * count - len(nets.NETS)) < len(nets.NETS) / 3


def test_weights_are_seeded_by_the_name() -> None:
    import torch

    (first, inputs, _), (second, again, _) = nets.built("papers/gin"), nets.built("papers/gin")
    assert torch.equal(inputs["nodes"], again["nodes"])
    assert torch.equal(first(**inputs), second(**inputs))


@pytest.mark.parametrize("name", ["papers/gin", "papers/hifigan_v2"])
def test_a_program_takes_inputs_of_another_size(name: str) -> None:
    import torch

    module, inputs, dynamic = nets.built(name)
    larger = nets.resized(inputs, dynamic, 2)
    assert any(larger[key].shape != inputs[key].shape for key in inputs)
    with torch.no_grad():
        out = nets.program(name).module()(**larger)
        assert torch.equal(out, module(**larger))


def test_a_recurrent_net_becomes_a_file_of_onnx(tmp_path: Path) -> None:
    import onnx

    graph = onnx.load(nets.saved("papers/rnnoise", tmp_path)).graph
    assert [node.op_type for node in graph.node].count("GRU") == 3
    assert graph.input[0].type.tensor_type.shape.dim[1].dim_param == "n1"
