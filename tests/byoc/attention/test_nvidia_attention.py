"""cuDNN's fused attention without a GPU: what it takes, with which attributes, what it computes.

The generated source is compiled against headers that compute in plain loops on the host.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.common import kept_object
from opinfo.byoc.backends.nvidia.attention import attention_object
from opinfo.byoc.backends.nvidia.attention.sdpa_masks import corner
from opinfo.byoc.codegen.compilers.toolchain import CompilerError
from opinfo.byoc.compile import CompiledModule, compile_module

from ..nvidia.test_nvidia import TOLERANCE, on_stub
from .nvidia_attention_cases import CASES, Build, causal

nn, op = relax.op.nn, relax.op
pytestmark = pytest.mark.usefixtures("cudnn_frontend")


def module(builds: list[tuple[Build, tuple[tuple[int, ...], ...], str, tuple[int, ...]]]) -> Any:
    """All graphs in one function."""
    given = [[relax.Var(f"x{n}_{k}", relax.TensorType(s, "bool" if k in masks else dtype))
              for k, s in enumerate(shapes)]
             for n, (_, shapes, dtype, masks) in enumerate(builds)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", [x for xs in given for x in xs]):
        with builder.dataflow():
            made = [b[0](builder.emit, *xs) for b, xs in zip(builds, given, strict=True)]
            out = builder.emit_output(relax.Tuple(made))
        builder.emit_func_output(out)
    return builder.get()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this file's own: the key of an object does not contain the stub's headers."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPINFO_CACHE", str(folder))
        yield folder


@functools.cache
def compiled() -> CompiledModule:
    builds = [(c.build, c.shapes, c.dtype, c.masks) for c in CASES.values()]
    return compile_module(module(builds), [on_stub("cudnn")], plan=False)


@functools.cache
def results() -> list[Any]:
    given = [tvm.runtime.tensor(a) for c in CASES.values() for a in c.inputs()]
    return [t.numpy() for t in compiled().machine()["main"](*given)]


@functools.cache
def bodies() -> list[str]:
    """What the generated source sets for each region, without names of tensors."""
    (external,) = compiled().dispatched.module.attrs["external_mods"]
    found = re.findall(r"_make\(const Context& c\) \{\n(.*?)\n\}", external.inspect_source(), re.S)
    return [re.sub(r" = \{c\.\w+\(\d+\),", "", b) for b in found]


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_float64(name: str) -> None:
    case, k = CASES[name], list(CASES).index(name)
    numbers = [a if a.dtype == bool else a.astype("float64") for a in case.inputs()]
    expected, found = case.reference(*numbers), results()[k]
    assert found.shape == expected.shape and str(found.dtype) == case.dtype
    apart = np.abs(found.astype("float64") - expected).max() / np.abs(expected).max()
    assert apart < TOLERANCE[case.dtype]


def test_every_case_is_one_region_and_says_how_it_rounds() -> None:
    taken = [t for t in compiled().dispatched.taken if t.pattern.startswith("attention")]
    assert len(taken) == len(CASES)
    assert all("before the second product" in (t.rounds or "") for t in taken)
    left = {o.op for o in compiled().dispatched.left}
    assert left <= {"relax.where", "relax.reshape"}  # of the mask that is known at run time


@pytest.mark.parametrize("name", CASES)
def test_views_and_attributes_arrive(name: str) -> None:
    sets = CASES[name].sets
    assert any(all(line in body for line in sets) for body in bodies()), (sets, bodies())


def test_a_mask_of_zeros_is_left_out() -> None:
    masks = sum("s.mask" in body for body in bodies())
    assert masks == sum(any("s.mask" in line for line in c.sets) for c in CASES.values())


# --- The object with the frontend


def one_case() -> CompiledModule:
    case = CASES["in halves"]
    mod = module([(case.build, case.shapes, case.dtype, ())])
    return compile_module(mod, [on_stub("cudnn")], plan=False)


def computes(built: CompiledModule) -> None:
    case = CASES["in halves"]
    given = case.inputs()
    found = built.machine()["main"](*map(tvm.runtime.tensor, given))
    found = found[0] if len(found) == 1 else found
    expected = case.reference(*(a.astype("float64") for a in given))
    np.testing.assert_allclose(found.numpy().astype("float64"), expected, rtol=0, atol=2e-3)


def test_models_do_not_include_the_frontend(cache: Path) -> None:
    built = compiled()
    (external,) = built.dispatched.module.attrs["external_mods"]
    assert "cudnn_frontend" not in external.inspect_source()
    (kept,) = (cache / "cudnn_attention").glob("*.o")
    assert str(kept) in built.dispatched.options
    changed = kept.stat().st_mtime_ns
    other = one_case()
    assert str(kept) in other.dispatched.options and kept.stat().st_mtime_ns == changed
    computes(other)


def test_the_object_is_another_one_for_other_headers_and_compilers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def kept(folder: str, name: str, *_: Any) -> Path:
        made.append(name)
        return Path(name)

    monkeypatch.setattr(attention_object, "options", lambda *_: ("-O1",))
    monkeypatch.setattr(attention_object, "kept_object", kept)
    monkeypatch.setattr(attention_object, "_versions", lambda: "1.32")
    first = attention_object.attention_source()
    assert attention_object.attention_source() == first and len(made) == 1
    monkeypatch.setattr(attention_object, "_versions", lambda: "1.33")
    attention_object.attention_source()
    monkeypatch.setattr("tvm.support.cc.get_cc", lambda: "/usr/bin/another")
    attention_object.attention_source()
    assert len(set(made)) == len(made) == 3


def test_without_a_cache_the_source_contains_the_frontend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> Any:
        raise PermissionError("others can write it")

    monkeypatch.setattr(attention_object, "_made", failing)
    built = one_case()
    (external,) = built.dispatched.module.attrs["external_mods"]
    assert "#include <cudnn_frontend.h>" in external.inspect_source()
    computes(built)


def test_a_frontend_that_does_not_compile_costs_attention_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def failing(output: str, *_: Any) -> None:
        tried.append(output)
        raise CompilerError("cudnn_frontend.h:1: error: no")

    monkeypatch.setattr(kept_object, "object_file", failing)
    monkeypatch.setattr(attention_object, "_versions", lambda: "broken")
    with pytest.warns(UserWarning, match="CompilerError: error: no; run by tvm"):
        built = one_case()
    assert not built.dispatched.taken and len(tried) == 1
    computes(built)


@pytest.mark.parametrize(("mask", "expected"), [
    (causal(4, 4), "TOP_LEFT"),
    (causal(4, 6), "BOTTOM_RIGHT"),
    (causal(4, 4, -6e4), ""),
    (causal(4, 6)[:, ::-1], ""),
    (np.where(causal(4, 4) < 0, causal(4, 4), 1e-3), ""),
    (causal(6, 4), ""),
])  # fmt: skip
def test_only_a_triangle_is_causal(mask: Any, expected: str) -> None:
    assert corner(mask) == expected
