"""The fuzzer of ONNX models: seeds are models, faults are seen, and what fails is made small."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.attacks.onnx_fuzz import fuzz_worker, model_verdict, random_model
from benchmarks.attacks.onnx_fuzz.__main__ import ways_of
from benchmarks.attacks.onnx_fuzz.fuzz_page import page
from benchmarks.attacks.onnx_fuzz.fuzzer import Fuzzer
from benchmarks.attacks.onnx_fuzz.graphs import runtime
from benchmarks.attacks.onnx_fuzz.minimise import minimised
from benchmarks.attacks.onnx_fuzz.random_model import Model
from benchmarks.attacks.onnx_fuzz.ways import WAYS
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from tests.onnx_import.against_runtime import model

SEEDS = range(30)


@pytest.fixture(scope="module")
def models() -> list[Model]:
    return [random_model.model(seed) for seed in SEEDS]


def test_a_seed_is_a_model(models: list[Model]) -> None:
    again = random_model.model(3)
    assert again.proto.SerializeToString() == models[3].proto.SerializeToString()
    for own, other in zip(again.feeds, models[3].feeds, strict=True):
        for name, array in own.items():
            np.testing.assert_array_equal(array, other[name])
    assert len({m.proto.SerializeToString() for m in models}) == len(SEEDS)


def test_models_are_valid_and_run_for_all_sizes(models: list[Model]) -> None:
    ops, symbolic = Counter[str](), 0
    for m in models:
        onnx.checker.check_model(m.proto)
        symbolic += m.is_symbolic
        for feed in m.feeds:
            runtime.run(m.proto, feed)
        ops.update(node.op_type for node in m.proto.graph.node)
    assert 3 < symbolic < 25
    assert len(ops) > 60 and {"Conv", "MatMul", "If", "Cast", "Gather", "Shape"} <= set(ops)


def test_models_are_kept(models: list[Model], tmp_path: Path) -> None:
    own = next(m for m in models if m.is_symbolic)
    own.save(tmp_path / "m.onnx")
    kept = random_model.saved(tmp_path / "m.onnx")
    assert kept.proto == own.proto and [set(f) for f in kept.feeds] == [set(f) for f in own.feeds]


def test_the_smallest_model_still_fails(models: list[Model]) -> None:
    """A node that fails alone remains alone, with its operands as they were."""
    whole = next(m for m in models if any(n.op_type == "MatMul" for n in m.proto.graph.node))
    known = runtime.all_values(whole.proto, whole.feeds[0])

    def fails(m: Model) -> bool:
        runtime.run(m.proto, m.feeds[0])  # what is asked can be run
        return any(node.op_type == "MatMul" for node in m.proto.graph.node)

    small = minimised(whole, fails)
    (node,) = small.proto.graph.node
    (output,) = small.proto.graph.output
    assert node.op_type == "MatMul"
    got = runtime.run(small.proto, small.feeds[0])[output.name]
    np.testing.assert_allclose(got, known[output.name], rtol=1e-6)


def test_two_nodes_that_fail_together_both_remain(models: list[Model]) -> None:
    whole = max(models, key=lambda m: len(m.proto.graph.node))
    first, last = whole.proto.graph.node[2].output[0], whole.proto.graph.node[-3].output[0]

    def fails(m: Model) -> bool:
        return {first, last} <= {name for node in m.proto.graph.node for name in node.output}

    assert len(minimised(whole, fails).proto.graph.node) == 2


def _floor() -> tuple[Any, dict[str, Any]]:
    nodes = [
        onnx.helper.make_node("Exp", ["x"], ["e"]),
        onnx.helper.make_node("Floor", ["e"], ["y"]),
    ]
    x = np.array([np.log(2.0), 1.3], "float32")
    return model(nodes, {"x": ((2,), "float32")}), {"x": x}


def test_steps_next_to_rounding_are_excused() -> None:
    """A step next to which rounding decides is excused, another one is not."""
    proto, feeds = _floor()
    want = runtime.run(proto, feeds)
    near, far = ({"y": want["y"] + np.array(d, "float32")}["y"] for d in ([0, 1], [0, 0]))
    other = np.where(want["y"] == 2, 1, 2).astype("float32") if want["y"][0] in (1, 2) else far
    stepped = np.array([other[0], want["y"][1]], "float32")
    assert model_verdict.verdict(proto, feeds, [far], want) == ("right", "")
    assert model_verdict.verdict(proto, feeds, [stepped], want)[0] == "by rounding"
    assert model_verdict.verdict(proto, feeds, [near], want)[0] == "wrong"
    assert model_verdict.verdict(proto, feeds, [want["y"][:1]], want)[0] == "wrong"
    assert model_verdict.verdict(proto, feeds, [want["y"].astype("float64")], want)[0] == "wrong"


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
def test_a_wrong_way_is_seen(models: list[Model], tmp_path: Path, monkeypatch: Any) -> None:
    small = min((m for m in models if not m.is_symbolic), key=lambda m: len(m.proto.graph.node))
    small.save(tmp_path / "m.onnx")
    want = runtime.run(small.proto, small.feeds[0])
    right = [np.array(a) for a in want.values()]
    for outputs, expected in ((right, "right"), (right[:-1], "wrong")):
        monkeypatch.setitem(WAYS, "tvm", lambda path, m, out=outputs: [out])
        rows = fuzz_worker.rows(
            {"file": str(tmp_path / "m.onnx"), "ways": ["tvm", "session"]}, tmp_path
        )
        assert [(row["way"], row["verdict"]) for row in rows] == [("tvm", expected)]


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
def test_a_worker_judges_seeds() -> None:
    fuzzer = Fuzzer()
    try:
        rows = [row for seed in (1, 4) for row in fuzzer.judged(seed, ["imported"])]
    finally:
        fuzzer.close()
    assert [row["verdict"] for row in rows] == ["right", "right"]
    text = page(rows, 1, 2, 0)
    assert "2 models, 2 builds" in text and "| right | 2 | 2 |" in text


def test_ways_of_a_seed() -> None:
    assert ways_of(5, "tvm,default", 3) == ["tvm", "default"]
    assert ways_of(5, "", 2) == ways_of(5, "", 2) and 3 <= len(ways_of(5, "", 2)) <= 4
    assert {way for seed in range(40) for way in ways_of(seed, "", 1)} == set(WAYS)
