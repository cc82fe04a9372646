"""Options of the compiler: what they change stays in the code that they are for."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc import Code, Region
from opinfo.byoc.codegen.compilers.linking import steps
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, shared
from opinfo.byoc.codegen.loading.float_environment import FloatEnvironment
from opinfo.byoc.codegen.loading.load_checked import LoadError, load_checked
from opinfo.byoc.compile import compile_module
from opinfo.byoc.measure.measure_jobs import Build

from ...layout import nets
from ..backends import toy
from ..backends.toy import TOY

FAST = """extern "C" int fast() {
#ifdef __FAST_MATH__
  return 1;
#else
  return 0;
#endif
}
"""
#: Whether numbers below the normal ones are kept, in a process of its own.
LOADS = """
import ctypes, sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np
import tvm
from tvm import relax
library = ctypes.CDLL(sys.argv[1])
tiny = np.array([2.0**-1022])
print(library.fast(), bool((tiny * 0.5)[0] != 0))
"""


def _loaded(library: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", LOADS, library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.parametrize("option", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_a_library_of_fast_code_leaves_the_process_as_it_was(option: str, tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(FAST)
    library = str(tmp_path / "a.so")
    shared(library, [str(tmp_path / "a.cc")], ["-O2", option])
    loaded = _loaded(library)
    assert loaded == ["0" if option.startswith("-fun") else "1", "True"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.cc", "a.so"]


def test_a_measured_library_is_linked_in_the_same_way(tmp_path: Path) -> None:
    mod = nets.net(lambda e, r, x: e(tvm.relax.op.nn.relu(x)), (2, 6))
    code = Code(FAST, ("fast",), options=("-ffast-math",))
    library = str(tmp_path / "a.so")
    assert Build(tvm.ir.save_json(mod), code, "llvm", library).run() is None
    loaded = _loaded(library)
    assert loaded == ["1", "True"]


def test_options_are_for_compiling_or_for_linking_or_both() -> None:
    found = steps(
        ("-O3", "-ffast-math", "-I", "inc", "-Iother", "-DX=1", "-lm", "-l", "z", "-Lx",
         "-Wl,-rpath,x", "/x/libdnnl.so.3", "made.o", "more.cc", "-fopenmp", "-include", "first.h",
         "@file", "-static-libgcc", "-Xlinker", "-z", "-std=c++17")
    )  # fmt: skip
    assert found.compiling == ("-O3", "-ffast-math", "-I", "inc", "-Iother", "-DX=1", "-fopenmp",
                               "-include", "first.h", "@file", "-std=c++17")  # fmt: skip
    assert found.linking == ("-lm", "-l", "z", "-Lx", "-Wl,-rpath,x", "/x/libdnnl.so.3", "made.o",
                             "-fopenmp", "-static-libgcc", "-Xlinker", "-z")  # fmt: skip
    assert found.sources == ("more.cc",)


@pytest.mark.parametrize(("source", "options", "stage"), [
    ("int x = no_such_name;", (), "compile"), ("int x;", ("-lno_such_library",), "link"),
    ('extern "C" int absent(); int x() { return absent(); }', ("-Wl,--no-undefined",), "link"),
])  # fmt: skip
def test_the_step_that_fails_is_named(
    source: str, options: Sequence[str], stage: str, tmp_path: Path
) -> None:
    (tmp_path / "a.cc").write_text(source)
    with pytest.raises(CompilerError) as e:
        shared(str(tmp_path / "a.so"), str(tmp_path / "a.cc"), options)
    assert e.value.stage == stage and "\n" not in str(e.value)


FLUSH = """
#include <xmmintrin.h>
__attribute__((constructor)) static void begin() { _mm_setcsr(_mm_getcsr() | 0x8040); }
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="sets x86's MXCSR")
def test_a_library_that_flushes_to_zero_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text(FLUSH)
    shared(str(tmp_path / "a.so"), str(tmp_path / "a.cc"))
    before = FloatEnvironment()
    with pytest.raises(LoadError, match="changes how the process computes: subnormal numbers"):
        load_checked(str(tmp_path / "a.so"), tvm.cpu())
    assert before.changed() == ""


def test_what_is_changed_is_set_back() -> None:
    library, upward = ctypes.CDLL(None), {"x86_64": 0x800, "aarch64": 0x400000}
    mode = upward.get(platform.machine())
    if mode is None:
        pytest.skip("the number of FE_UPWARD is not known here")
    before = FloatEnvironment()
    with before.kept():
        assert library.fesetround(mode) == 0
        change = before.changed()
    assert change == "it changes how the process computes: rounding" and before.changed() == ""


EXITS = """
#include <cstdlib>
#include <unistd.h>
__attribute__((constructor)) static void begin() { if (getenv("OPINFO_TEST_EXIT")) _exit(0); }
"""


def test_a_plan_that_is_done_again_loads_in_a_fork_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(regions: Sequence[Region]) -> Code:
        code = toy.convert(regions)
        return replace(code, source=code.source + EXITS)

    mod: Any = nets.net(lambda e, r, x: e(tvm.relax.op.nn.relu(x)), (2, 6), legal=False)
    bad = replace(TOY, convert=convert)
    found = compile_module(mod, [bad], plan=False)
    out = found.machine()["main"](tvm.runtime.tensor(np.ones((2, 6), "float32"))).numpy()
    assert out.min() == 1
    monkeypatch.setenv("OPINFO_TEST_EXIT", "1")
    with pytest.raises(LoadError, match="ends the process with status 0"):
        compile_module(mod, [bad], plan=False, saved=found.dispatched.plan)
