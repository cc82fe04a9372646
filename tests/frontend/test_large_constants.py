"""Large constants come through the reader beside the JSON, and are what they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import opinfo
from opinfo.analysis.support.origin import with_span
from opinfo.frontend.checks.ir_json import large_constants
from opinfo.frontend.checks.ir_json.json_graph import BadGraph
from opinfo.frontend.checks.ir_json.large_constants import attached, detached, packed, unpacked

DTYPES = ("float32", "float16", "int64", "int8")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_constants, "LEAST", 1 << 13)


def _module() -> tvm.IRModule:
    """Sums of constants of several dtypes: one is read twice, one is small, one is a scalar."""
    rng = np.random.default_rng(0)
    x = relax.Var("x", relax.TensorType((64, 80), "float32"))
    builder = relax.BlockBuilder()
    twice = relax.const(rng.standard_normal((64, 80)).astype("float32"))
    with builder.function("main", [x], attrs={"note": "kept"}):
        with builder.dataflow():
            y = builder.emit(relax.op.add(builder.emit(relax.op.add(x, twice)), twice))
            span = tvm.ir.Span(tvm.ir.SourceName("node"), 1, 1, 1, 1)
            y = builder.emit(with_span(relax.op.multiply(y, relax.const(2.0, "float32")), span))
            for dtype in DTYPES:
                part = relax.const(rng.integers(-9, 9, (64, 80)).astype(dtype), dtype)
                y = builder.emit(relax.op.add(y, relax.op.astype(part, "float32")))
            small = relax.const(rng.standard_normal(80).astype("float32"))
            out = builder.emit_output(relax.op.add(y, small))
        builder.emit_func_output(out)
    return builder.get().with_attr("of module", "kept")


def _message(mod: Any) -> bytes:
    return b"".join(packed(mod))


def _loaded(message: bytes) -> Any:
    text, arrays = unpacked(message)
    return attached(tvm.ir.load_json(text.decode()), arrays)


def test_a_module_comes_back_as_it_was() -> None:
    mod = _module()
    before = tvm.ir.save_json(mod)
    message = _message(mod)
    text, arrays = unpacked(message)
    assert [str(a.dtype) for a in arrays] == ["float32", *DTYPES]
    assert len(text) < 20_000 < len(message) and tvm.ir.save_json(mod) == before
    loaded = _loaded(message)
    assert tvm_ffi.structural_equal(loaded, mod) and loaded.attrs["of module"] == "kept"
    assert loaded["main"].attrs["note"] == "kept"
    calls, same = (m["main"].body.blocks[0].bindings for m in (loaded, mod))
    assert calls[0].value.args[1].same_as(calls[1].value.args[1])
    assert [str(c.value.span) for c in calls] == [str(c.value.span) for c in same]
    assert str(calls[2].value.span.source_name.name) == "node"


def test_few_bytes_stay_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_constants, "LEAST", 1 << 22)
    mod = _module()
    assert detached(mod) == (mod, [])
    assert unpacked(_message(mod)) == (tvm.ir.save_json(mod).encode(), [])


def test_a_file_is_read_with_its_constants(tmp_path: Path) -> None:
    data = np.random.default_rng(0).standard_normal((1100, 1000)).astype("float32")
    x = relax.Var("x", relax.TensorType((1100, 1000), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(data))))
    path = tmp_path / "model.json"
    path.write_text(tvm.ir.save_json(builder.get()))
    (binding,) = opinfo.load(path)["main"].body.blocks[0].bindings
    np.testing.assert_array_equal(binding.value.args[1].value.numpy(), data)


def _changed(change: Any) -> bytes:
    """The message with another first line."""
    line, _, rest = _message(_module()).partition(b"\n")
    length, rows = json.loads(line)
    return json.dumps(change(length, rows)).encode() + b"\n" + rest


MALFORMED: dict[str, tuple[Callable[[], bytes], str]] = {
    "not JSON": (lambda: b"{", "expected the length"),
    "no rows": (lambda: _changed(lambda n, rows: [n]), "expected the length"),
    "a negative length": (lambda: _changed(lambda n, rows: [-1, rows]), "expected lengths"),
    "a boolean": (lambda: _changed(lambda n, rows: [n, [["int8", [True]]]]), "expected lengths"),
    "a dtype": (lambda: _changed(lambda n, rows: [n, [["object", [2]]]]), "expected lengths"),
    "too long": (lambda: _changed(lambda n, rows: [n, [*rows, ["int8", [1 << 62]]]]), "are longer"),
    "too short": (lambda: _changed(lambda n, rows: [n, rows[1:]]), "longer than its arrays"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_is_refused(name: str) -> None:
    message, reason = MALFORMED[name]
    with pytest.raises(BadGraph, match=reason):
        unpacked(message())


@pytest.mark.parametrize(("arrays", "reason"), [
    ([np.zeros((64, 80), "float64")], r"array 0 is float64\[64, 80\], expected float32"),
    ([np.zeros((80, 64), "float32")], r"array 0 is float32\[80, 64\], expected float32\[64, 80\]"),
    ([np.zeros((64, 80), "float32")], "a constant is array 1 of 1"),
])  # fmt: skip
def test_arrays_of_other_types_are_refused(arrays: Any, reason: str) -> None:
    numbered, _ = detached(_module())
    with pytest.raises(BadGraph, match=reason):
        attached(numbered, arrays)
