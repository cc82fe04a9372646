"""The zoo: its split, its inputs, the comparison of outputs, and its pages."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import benchmarks.analysis.harvest.__main__ as harvest
import benchmarks.zoo.__main__ as zoo
from benchmarks.zoo import results_page, torch_reference
from benchmarks.zoo.differences import difference, tolerance, verdict
from benchmarks.zoo.models import fetch
from benchmarks.zoo.models.later_files import LATER
from benchmarks.zoo.models.model_files import FILES
from benchmarks.zoo.models.proxies import PROXIES
from benchmarks.zoo.models.subject import Subject, names, subject
from benchmarks.zoo.reference_error import moved, spread
from benchmarks.zoo.split import is_open, part
from benchmarks.zoo.torch_reference import flat
from benchmarks.zoo.turns import in_turns


def test_the_zoo_is_large_and_half_of_it_is_held_out() -> None:
    sources = {file.wheel.partition("==")[0] for file in FILES.values()}
    assert len(FILES) >= 40 and len(sources) >= 15
    open_half = [name for name in names() if is_open(name)]
    assert 0.4 <= len(open_half) / len(names()) <= 0.6


def test_proxies_are_in_neither_half(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROXIES.keys().isdisjoint(names())
    rows = {name: {"name": name} for name in ("papers/gin", "proxies/encoder")}
    assert list(zoo._of_the_zoo(rows)) == ["papers/gin"]
    for words, expected in ((["--proxies"], PROXIES), (["--all"], names())):
        monkeypatch.setattr(sys, "argv", ["zoo", *words])
        assert list(zoo._chosen(zoo._options())) == list(expected)


def test_a_proxy_is_quantized(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = subject("proxies/tagger_dynamic", tmp_path)
    nodes = {node.op_type for node in onnx.load(found.path).graph.node}
    assert "DynamicQuantizeLSTM" in nodes and found.inputs[0]["ids"].shape == (1, 32)


def test_the_split_is_fixed() -> None:
    # The first bytes of their SHA-256 are 0xa8 and 0x71: printf '%s' NAME | sha256sum
    assert is_open("basic-pitch/nmp") and not is_open("nudenet/320n")


def test_later_models_are_in_neither_half() -> None:
    assert len(LATER) == 43 and not LATER & {*names()}
    assert {part(name) for name in LATER} == {"later"}


@pytest.mark.parametrize("name", FILES)
def test_symbolic_models_have_shapes_of_the_same_inputs(name: str) -> None:
    first, *others = FILES[name].shapes
    for shapes in others:
        assert shapes.keys() == first.keys()
        assert [len(dims) for dims in shapes.values()] == [len(dims) for dims in first.values()]
    assert FILES[name].fills.keys() <= first.keys()


def test_differences_are_relative_to_the_largest_value_of_an_output() -> None:
    a = np.array([1.0, -200.0], "float32")
    assert difference([a], [a]) == 0
    assert difference([a], [a + np.array([0, 2], "float32")]) == pytest.approx(0.01)
    assert difference([a, np.ones(1)], [a, np.full(1, 1.5)]) == pytest.approx(0.5)


@pytest.mark.parametrize("wrong", [
    [], [np.zeros((2, 1))], [np.array([0.0, np.nan])], [np.array([np.inf, 1.0])],
])  # fmt: skip
def test_other_shapes_and_values_that_are_not_finite_differ(wrong: list[np.ndarray]) -> None:
    assert difference([np.array([0.0, 1.0])], wrong) == math.inf


def test_the_same_infinities_do_not_differ() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 3.0])
    assert difference([values], [values.copy()]) == 0


def test_half_types_have_two_roundings_of_tolerance() -> None:
    single, half = np.ones(2, "float32"), np.ones(2, "float16")
    assert tolerance([single]) == 1e-4
    assert tolerance([single, half]) == 2 * 2.0**-11


@pytest.mark.parametrize("row, expected", [
    ({"differences": [9e-5], "spread": 0.0}, "right"),
    ({"differences": [9e-5, 2e-4], "spread": 0.0}, "wrong"),
    ({"differences": [9e-4], "spread": 0.0, "tolerance": 9.8e-4}, "right"),
    ({"differences": [9e-4], "spread": 5e-4}, "rounding"),
    ({"differences": [9e-4], "spread": 1e-5, "to_second": [9e-5]}, "right"),
    ({"differences": [9e-4, 1e-5], "spread": 1e-5, "to_second": [9e-5, 9e-4]}, "right"),
    ({"differences": [9e-4, 9e-4], "spread": 1e-5, "to_second": [9e-5, 2e-4]}, "wrong"),
    ({"differences": [9e-4, 9e-4], "spread": 1e-5, "to_second": [9e-5]}, "wrong"),
    # The runtimes differ by more, and the outputs are near neither.
    ({"differences": [9e-4], "spread": 1e-5, "second": 5e-3, "to_second": [4e-3]}, "wrong"),
    ({"differences": [9e-4], "spread": math.inf}, "wrong"),
    ({"differences": [], "spread": 1.0}, "wrong"),
    ({"differences": [9e-5], "spread": 0.0, "failure": "no kernel"}, "wrong"),
])  # fmt: skip
def test_a_row_is_right_if_it_is_near_one_runtime(row: Any, expected: str) -> None:
    assert verdict({"failure": "", **row}) == expected


def _weighted() -> Any:
    """A model with weights as initialisers, of half types, in Constant nodes and in branches."""
    constant = numpy_helper.from_array(np.full(9, 3.0, "float32"), "c")
    inner = helper.make_graph([helper.make_node("Constant", [], ["r"], value=constant)], "g", [],
                              [helper.make_empty_tensor_value_info("r")])  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("Pow", ["x", "exponent"], ["p"]),
        helper.make_node("If", ["b"], ["i"], then_branch=inner, else_branch=inner),
    ]
    weights = {"exponent": np.full(1, 2.0, "float32"), "w": np.full(9, 3.0, "float32"),
               "h": np.full(9, 3.0, "float16"), "n": np.full(2, 3)}  # fmt: skip
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "net", [], [], tensors))


def test_weights_are_moved_by_a_few_roundings_and_exponents_are_not() -> None:
    graph = moved(_weighted(), 0).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    arrays["constant"] = numpy_helper.to_array(graph.node[0].attribute[0].t)
    arrays["branch"] = numpy_helper.to_array(graph.node[2].attribute[0].g.node[0].attribute[0].t)
    assert arrays["exponent"] == 2 and (arrays["n"] == 3).all()
    for name, most in {"w": 3e-6, "constant": 3e-6, "branch": 3e-6, "h": 3e-2}.items():
        relative = np.abs(arrays[name].astype("float64") / 3 - 1)
        assert 0 < relative.max() < most, name
    again = {t.name: numpy_helper.to_array(t) for t in moved(_weighted(), 1).graph.initializer}
    assert (again["w"] != arrays["w"]).any()


def test_moved_masks_stay_finite() -> None:
    least = np.array([np.finfo("float32").min, -np.inf, np.finfo("float32").max], "float32")
    tensor = numpy_helper.from_array(np.repeat(least, 50), "mask")
    graph = helper.make_graph([], "net", [], [], [tensor])
    (found,) = moved(helper.make_model(graph), 0).graph.initializer
    values = numpy_helper.to_array(found).reshape(3, 50)
    assert np.isfinite(values[[0, 2]]).all() and np.isneginf(values[1]).all()
    assert (values[0] != least[0]).any()


def test_an_error_of_the_runtime_is_reported(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info("x", 1, [2, "n"])
    weight = numpy_helper.from_array(np.ones((3, 2), "float32"), "w")
    graph = helper.make_graph([node], "net", [value], [helper.make_empty_tensor_value_info("y")],
                              [weight])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    fits, other = ({"x": np.ones((2, size), "float32")} for size in (3, 4))
    size, unknown = spread(Subject("m", tmp_path / "m.onnx", (fits,)))
    assert 0 < size < 1e-5 and not unknown
    size, unknown = spread(Subject("m", tmp_path / "m.onnx", (other,)))
    assert size == 0 and unknown.startswith("spread: ") and "MatMul" in unknown
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_torch_module_that_magnifies_differences_has_a_large_spread() -> None:
    """The difference of two nearly equal sums is all rounding; one sum is not."""
    torch = pytest.importorskip("torch")
    apart = torch.nn.Linear(64, 2, bias=False)
    apart.weight.data[1] = apart.weight.data[0]
    minus = torch.nn.Linear(2, 1, bias=False)
    minus.weight.data[:] = torch.tensor([[1.0, -1.0 + 1e-6]])
    inputs = ({"input": np.ones((1, 64), "float32")},)
    assert 0 < torch_reference.spread(apart, inputs) < 1e-5
    before = [p.clone() for p in apart.parameters()]
    assert torch_reference.spread(torch.nn.Sequential(apart, minus), inputs) > 0.05
    assert all(map(torch.equal, before, apart.parameters()))


def test_nested_outputs_are_flattened_in_order() -> None:
    one, two, three = (np.full(1, k) for k in range(3))
    assert [int(a[0]) for a in flat({"a": (one, [two, None]), "b": three})] == [
        0,
        1,
        2,
    ]


def test_calls_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.zoo.turns.SETTLED", 0.0)
    order: list[str] = []
    in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, rounds=2)
    turns = [name for k, name in enumerate(order) if k == 0 or order[k - 1] != name]
    assert turns == ["a", "b", "a", "b"]


def test_one_thread_is_timed_by_its_work_and_more_by_the_clock() -> None:
    calls = {"rests": lambda: time.sleep(2e-3)}
    one, two = (in_turns(calls, threads, rounds=1) for threads in (1, 2))
    assert one.milliseconds["rests"] < 2 <= two.milliseconds["rests"]
    assert 0 <= one.busy <= 1


def _speed(name: str, milliseconds: dict[str, float], threads: int = 1) -> dict[str, object]:
    return {"name": name, "threads": threads, "refusal": "" if milliseconds else "no | kernel",
            "milliseconds": milliseconds, "missing": {}, "difference": 1e-6,
            "summary": "tvm 3; kept the choice of tvm alone: 2.0 ms; 3.0 ms by expected costs",
            "flops": 1_000_000, "rate": 1e9, "seconds": 3.0, "cpu": "A CPU (AVX2)"}  # fmt: skip


def test_pages_have_both_halves_and_geometric_means(tmp_path: Path) -> None:
    rows: dict[str, dict[str, object]] = {
        "read basic-pitch/nmp 1": {"name": "basic-pitch/nmp", "refusal": "", "symbols": 1,
                                   "differences": [1e-6, 2e-6], "spread": 1e-9, "failure": "",
                                   "seconds": 2.0},
        "read magika/model 1": {"name": "magika/model", "refusal": "", "symbols": 1,
                                "differences": [3e-3], "spread": 2e-3, "second": 2e-3,
                                "failure": "", "seconds": 2.0},
        "read trueocr/rec 1": {"name": "trueocr/rec", "refusal": "", "symbols": 1,
                               "differences": [5e-3], "spread": 1e-3, "failure": "",
                               "seconds": 2.0},
        "read nudenet/320n 1": {"name": "nudenet/320n", "refusal": "at node 'x' (Loop): stays"},
        "speed basic-pitch/nmp 1": _speed("basic-pitch/nmp", {"opinfo": 2, "onnx_runtime": 4}),
        "speed magika/model 1": _speed("magika/model", {
            "opinfo": 2, "onnx_runtime": 2, "openvino": 1}),
        "speed nudenet/320n 1": _speed("nudenet/320n", {}),
    }  # fmt: skip
    reading, read, speed, timed = results_page.write(rows, tmp_path)
    assert speed.name == "zoo-avx2.md"
    assert {**json.loads(read.read_text()), **json.loads(timed.read_text())} == rows
    text = reading.read_text()
    assert "3 of 3 are read" in text and "0 of 1 are read" in text and "(Loop): stays" in text
    assert "outputs of 1 are right, those of 1 are decided by rounding, and 1 are wrong" in text
    assert "3e-03 by rounding | 2e-03" in text and "5e-03 **wrong** | 1e-03" in text
    text = speed.read_text()
    # The best of the others take 4 and 1 ms: 0.5 and 2 are 1.00 together.
    assert "1.00 x the best of the others, 0.71 x ONNX Runtime on 2" in text
    assert "2.00 x OpenVINO on 1 (above 1.05: 1)" in text
    assert "| 2 | 0.50 |  |  | 50% | 1e-06 | 3 |" in text
    assert "kept the choice of tvm alone |" in text and "up to 3 s of CPU (above 60 s: 0)" in text
    assert "no \\| kernel" in text and "## 1 thread\n" in text


def test_an_ended_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run ends at the third of four measurements; two threads come after one."""
    asked: list[tuple[str, int]] = []

    def measured(step: str, name: str, threads: int) -> dict[str, Any]:
        asked.append((name, threads))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return _speed(name, {"opinfo": 2, "onnx_runtime": 4}, threads)

    path = tmp_path / "rows.json"
    monkeypatch.setattr(zoo, "measured", measured)
    monkeypatch.setattr(sys, "argv", ["zoo", "--step", "speed", "--json", str(path),
                                      "basic-pitch/nmp", "magika/model"])  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        zoo.main()
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    one, other = "basic-pitch/nmp", "magika/model"
    assert exited.value.code == 0
    assert asked == [(one, 1), (other, 1), (one, 2), (one, 2), (other, 2)]
    rows = json.loads(path.read_text())
    assert {(row["name"], row["threads"]) for row in rows.values()} == set(asked)
    rows[f"speed {other} 2"]["busy"] = 0.5
    path.write_text(json.dumps(rows))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--busy"])
    with pytest.raises(SystemExit):
        zoo.main()
    assert asked[5:] == [(other, 2)]
    page = results_page.speed_page("AVX2", list(rows.values()))
    assert "(above 60 s: 0). Timed while others had over 10% of the CPU: 1.\n" in page
    assert "## 2 threads\n" in results_page.speed_page("AVX2", list(rows.values()))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["basic-pitch"], "unknown name 'basic-pitch': did you mean basic-pitch/nmp?"),
        (["nudnet/320n"], "unknown name 'nudnet/320n': did you mean nudenet/320n"),
        (["\x1b[31m"], "unknown name '\\x1b[31m': there are "),
        (["--threads", "0"], "expected 1 to 1024, got '0'"),
        (["--threads", "9" * 5000], "expected 1 to 1024, got '999"),
        (["--json", "/proc/nope/x"], "/proc/nope/x: No such file or directory"),
        (["--json", "{}"], "expected rows of a benchmark: "),
    ],
)
def test_wrong_options_of_the_zoo_are_one_line(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "rows.json").write_text("[1]")
    words = [str(tmp_path / "rows.json") if word == "{}" else word for word in words]
    monkeypatch.setattr(sys, "argv", ["zoo", *words])
    monkeypatch.setattr(zoo, "measured", None)  # nothing is measured before
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    *_, last = capsys.readouterr().err.splitlines()
    assert exited.value.code == 2 and reason in last


def test_a_model_that_cannot_be_downloaded_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a network, the row said that the model cannot be read, and was kept."""

    def worker(command: list[str], **options: Any) -> None:
        options["stderr"].write("Traceback\nno network\n")
        raise subprocess.CalledProcessError(fetch.NOT_FETCHED, command)

    monkeypatch.setattr(subprocess, "run", worker)
    rows = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["zoo", "--step", "read", "--json", str(rows),
                                      "basic-pitch/nmp"])  # fmt: skip
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    assert exited.value.code == 1 and not rows.exists()
    assert capsys.readouterr() == ("", "basic-pitch/nmp: no network\n")


def test_what_pip_cannot_download_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(fetch.NotFetched) as raised:
        fetch.fetched(FILES["basic-pitch/nmp"])
    text = str(raised.value)
    assert text.startswith("pip cannot download basic-pitch==") and "\n" not in text


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "file" / "cache")
    with pytest.raises(fetch.NotFetched, match=r"cannot fetch basic-pitch==.*Not a directory"):
        fetch.fetched(FILES["basic-pitch/nmp"])


def test_a_harvest_of_no_operator_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["harvest", "--ops", "nope"])
    with pytest.raises(SystemExit) as exited:
        harvest.main()
    assert exited.value.code == 2 and "no operator has one of 'nope'" in capsys.readouterr().err
