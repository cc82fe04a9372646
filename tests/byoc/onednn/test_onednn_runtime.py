"""oneDNN's runtime as an object, and regions that oneDNN refuses, which no build has to find."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.common import kept_object
from opinfo.byoc.backends.onednn import runtime_object
from opinfo.byoc.codegen import failing_regions
from opinfo.byoc.codegen.compilers.toolchain import CompilerError
from opinfo.byoc.compile import CompiledModule, compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const

nn, op = relax.op.nn, relax.op
SHAPE, DEEP = (3, 8), (1, 2, 3, 2, 4, 6)


def _products(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.matmul(x, const(rng, 8, 5)))
    return emit(op.matmul(emit(op.sum(y, [1], keepdims=True)), const(rng, 1, 4)))


def _normalised(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(nn.layer_norm(x, const(rng, 6), const(rng, 6), axes=[-1]))
    return emit(nn.relu(y))


def _same(mod: Any, compiled: CompiledModule, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    out = compiled.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(out, run(mod, [x])[0], rtol=1e-4, atol=1e-4)


def test_sources_in_one_library_have_constants_of_their_own() -> None:
    onednn = find("onednn")

    def alone(regions: Any) -> Any:
        if len(regions) > 1:
            raise ValueError("one by one")
        return onednn.convert(regions)

    mod = nets.net(_products, SHAPE, legal=False)
    with pytest.warns(UserWarning, match="each region is converted alone"):
        compiled = compile_module(mod, [replace(onednn, convert=alone)], plan=False)
    assert len(compiled.dispatched.taken) >= 2
    assert len(compiled.dispatched.module.attrs["external_mods"]) == len(compiled.dispatched.taken)
    _same(mod, compiled, SHAPE)


def test_the_objects_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    made: list[str] = []

    def compile_object(output: str, source: str, words: Any) -> None:
        made.append(Path(source).read_text())

    monkeypatch.setattr(kept_object, "object_file", compile_object)
    first, options = runtime_object.shared_text(own=False)
    assert runtime_object.shared_text(own=False) == (first, options)
    objects = tuple(map(Path, options[-2:]))
    assert len(made) == 2 and all(o.is_file() for o in objects)
    assert "class Function" in made[0] and "class Function" not in first
    assert runtime_object.shared_text(own=True) == (first, options)
    assert runtime_object.runtime_objects() == (runtime_object.object_key(), objects)
    assert len(made) == 2


def test_an_unrolled_loop_is_one_function(tmp_path: Path) -> None:
    """Calls within calls are inlined with all that they contain, each time again."""
    header = (files(runtime_object.__package__) / "cpp/loops/vectors.hpp").read_text("utf-8")
    use = """#include <stdint.h>
namespace opinfo_loops { constexpr int kLanes = 4; }
%s
float twelve(const float* from) {
  float sum = 0;
  opinfo_loops::times<12>([&](auto k) { sum += from[k]; });
  return sum;
}
"""
    source, made = tmp_path / "a.cpp", tmp_path / "a.s"
    source.write_text(use % header.replace("always_inline", "noinline"), "utf-8")
    subprocess.run(["g++", "-std=c++17", "-O1", "-S", source, "-o", made], check=True)
    functions = [line for line in made.read_text().splitlines() if line.endswith(":")]
    assert sum("5times" in name and "operator" not in name for name in functions) == 1, functions


def test_objects_have_no_templates_that_take_seconds_to_compile() -> None:
    """Trees of names and oneDNN's C++ API took half of the time, loops among headers a fifth."""
    _, objects = runtime_object.runtime_objects()
    glue, loops = (
        subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True).stdout
        for file in objects
    )
    assert "opinfo_onednn::" in glue and "std::vector<" in glue
    for template in ("_Rb_tree<", "std::function<", "std::basic_ostringstream<", " dnnl::"):
        assert template not in glue, template
    assert "opinfo_loops::" in loops
    assert not any(f"std::{name}" in loops for name in ("vector", "__cxx11", "allocator"))


@pytest.mark.parametrize("error", [CompilerError("no room"), OSError()])
def test_without_an_object_the_source_contains_the_runtime(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> Any:
        raise error

    monkeypatch.setattr(runtime_object, "runtime_objects", failing)
    mod = nets.net(_products, SHAPE, legal=False)
    compiled = compile_module(mod, ["onednn"], plan=False)
    assert compiled.dispatched.taken
    _same(mod, compiled, SHAPE)


def test_layers_are_normalised_over_more_axes_than_onednn_has() -> None:
    mod = nets.net(lambda e, r, x: e(nn.layer_norm(x, const(r, 6), const(r, 6), axes=[-1])), DEEP,
                   legal=False)  # fmt: skip
    compiled = compile_module(mod, ["onednn"], plan=False)
    assert [t.ops for t in compiled.dispatched.taken] == [("relax.nn.layer_norm",)]
    _same(mod, compiled, DEEP)


def test_a_region_that_onednn_refuses_is_left_out_without_builds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def built(regions: Any, codes: Any) -> None:
        raise AssertionError("a build searches for the region")

    monkeypatch.setattr(failing_regions, "_built", built)
    mod = nets.net(_normalised, DEEP, legal=False)
    with pytest.warns(UserWarning, match="oneDNN refuses the region: could not create a primitive"):
        compiled = compile_module(mod, ["onednn"], plan=False)
    assert ("relax.nn.layer_norm", "relax.nn.relu") not in {
        t.ops for t in compiled.dispatched.taken
    }
    _same(mod, compiled, DEEP)
