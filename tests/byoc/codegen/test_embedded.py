"""Constants of generated code are data of the library, and arrive as those that TVM would pass."""

from __future__ import annotations

import subprocess
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.byoc.backend.backend import Code
from opinfo.byoc.codegen import export
from opinfo.byoc.codegen.abi import ABI
from opinfo.byoc.codegen.embedding.elf_data import append, appends
from opinfo.byoc.codegen.embedding.embedded import embedded
from opinfo.byoc.codegen.executable import executable
from opinfo.byoc.codegen.export import export_library
from opinfo.byoc.codegen.loading.check_init import MissingInit, check_init
from opinfo.byoc.codegen.partition import attached

RNG = np.random.default_rng(0)
COPIES = """
opinfo::Constants kept;
OPINFO_FUNCTION(first) {
  const DLTensor* out = opinfo::tensor(args[0]);
  const DLTensor* in = kept[0];
  if (in->ndim != out->ndim || std::memcmp(&in->dtype, &out->dtype, sizeof(DLDataType)))
    return opinfo::fail("TypeError", "another type");
  for (int k = 0; k < in->ndim; ++k)
    if (in->shape[k] != out->shape[k]) return opinfo::fail("TypeError", "another shape");
  size_t bytes = in->dtype.bits / 8;
  for (int k = 0; k < in->ndim; ++k) bytes *= in->shape[k];
  std::memcpy(opinfo::data(out), opinfo::data(in), bytes);
  opinfo::data(in)[0] ^= static_cast<char>(1);  // as code may that works in its constants
  opinfo::data(in)[0] ^= static_cast<char>(1);
  return 0;
}
OPINFO_CONSTANTS(first, kept)
"""
ARRAYS = [
    RNG.standard_normal((3, 5)).astype("float32"), RNG.standard_normal(7).astype("float16"),
    RNG.standard_normal((2, 9)).astype(ml_dtypes.bfloat16), np.array(2.5, "float32"),
    RNG.integers(-9, 9, (5, 1, 3)).astype("int8"), np.array([True, False, True]),
    RNG.standard_normal((4, 2)).astype(ml_dtypes.float8_e4m3fn),
    RNG.integers(-9, 9, 6).astype("int64"),
]  # fmt: skip


def module(source: str, constants: list[Any], symbol: str = "first", out: Any = None) -> Any:
    """A function without parameters that returns what the code writes."""
    builder = relax.BlockBuilder()
    out = constants[0] if out is None else out
    with builder.function("main", []):
        ty = relax.TensorType(out.shape, str(out.dtype))
        called = builder.emit(relax.call_dps_packed(symbol, relax.Tuple([]), out_ty=ty))
        builder.emit_func_output(called)
    named = tuple((f"c{k}", array) for k, array in enumerate(constants))
    return attached(builder.get(), [Code(ABI + source, (symbol,), named)])


def result(mod: Any, library: Path) -> Any:
    apart = embedded(mod)
    export_library(executable(apart.module, "llvm"), library, ["-std=c++17"], apart.data)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return machine["main"]().numpy()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_a_constant_arrives(array: Any, tmp_path: Path) -> None:
    others = [np.full((11,), 3, "int16"), np.zeros((0, 4), "float32")]
    found = result(module(COPIES, [array, *others]), tmp_path / "model.so")
    assert found.tobytes() == array.tobytes()


def test_constants_arrive_in_order(tmp_path: Path) -> None:
    arrays = [np.full((5,), k, "float32") for k in range(12)]
    source = COPIES.replace("kept[0]", "kept[11]")
    np.testing.assert_array_equal(result(module(source, arrays), tmp_path / "model.so"), arrays[11])


def test_a_function_of_any_kind_gets_the_constants(tmp_path: Path) -> None:
    """It is written without the macros of opinfo."""
    source = """
float total = 0;
extern "C" int __tvm_ffi___init_first(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  auto* cell = reinterpret_cast<const TVMFFISeqCell*>(
      reinterpret_cast<char*>(args->v_obj) + sizeof(TVMFFIObject));
  for (int64_t k = 0; k < cell->size; ++k)
    total += *opinfo::data(opinfo::tensor(static_cast<TVMFFIAny*>(cell->data)[k]));
  *result = opinfo::integer(0);
  return 0;
}
OPINFO_FUNCTION(first) {
  *reinterpret_cast<float*>(opinfo::data(opinfo::tensor(args[0]))) = total;
  return 0;
}
"""
    constants = [np.array([4], "int8"), np.array([5], "int8")]
    found = result(module(source, constants, out=np.zeros((1,), "float32")), tmp_path / "model.so")
    assert found.tolist() == [9]


def test_constants_are_read_in_the_library(tmp_path: Path) -> None:
    source = """
opinfo::Constants kept;
OPINFO_FUNCTION(first) {
  *reinterpret_cast<int64_t*>(opinfo::data(opinfo::tensor(args[0]))) =
      reinterpret_cast<int64_t>(opinfo::data(kept[0]));
  return 0;
}
OPINFO_CONSTANTS(first, kept)
"""
    big = RNG.standard_normal(1 << 18).astype("float32")
    library = tmp_path / "model.so"
    apart = embedded(module(source, [big], out=np.zeros((1,), "int64")))
    export_library(executable(apart.module, "llvm"), library, ["-std=c++17"], apart.data)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    (address,) = machine["main"]().numpy()
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [(*(int(x, 16) for x in m[0].split("-")), m[-1]) for m in maps]
    (file,) = (name for low, high, name in spans if low <= address < high)
    assert file == str(library) and address % 64 == 0
    assert library.stat().st_size < big.nbytes + (1 << 18)


def test_libraries_compile_no_header_of_cpp_for_it() -> None:
    """Each library compiles this header, and <vector> takes most of that time."""
    folders = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    with as_file(files("opinfo.byoc.codegen.embedding") / "embedded.hpp") as header:
        rule = subprocess.run(["g++", "-std=c++17", "-M", *folders, "-x", "c++", header],
                              capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "c_api.h" in rule and "/c++/" not in rule


def test_an_error_of_the_function_is_that_of_the_library(tmp_path: Path) -> None:
    source = """
OPINFO_FUNCTION(first) { return 0; }
OPINFO_FUNCTION(__init_first) { return opinfo::fail("ValueError", "no such weights"); }
"""
    with pytest.raises(Exception, match="no such weights"):
        result(module(source, [ARRAYS[0]]), tmp_path / "model.so")


def test_code_without_an_init_function_is_refused(tmp_path: Path) -> None:
    mod = module("OPINFO_FUNCTION(first) { return 0; }", [ARRAYS[0]])
    apart = embedded(mod)
    library = tmp_path / "model.so"
    export_library(executable(apart.module, "llvm"), library, ["-std=c++17"], apart.data)
    loaded = tvm.runtime.load_module(str(library))
    relax.VirtualMachine(loaded, tvm.cpu())["main"]()
    with pytest.raises(MissingInit, match="no function __init_first loads 1 constant"):
        check_init(loaded, mod, apart.data)


def test_the_module_is_unchanged() -> None:
    plain = relax.BlockBuilder().get()
    assert embedded(plain).module.same_as(plain) and not embedded(plain).data
    whole = module(COPIES, [ARRAYS[0]])
    tvm.ir.assert_structural_equal(whole["main"], embedded(whole).module["main"])
    np.testing.assert_array_equal(whole.attrs["const_name_to_constant"]["c0"].numpy(), ARRAYS[0])


def test_the_assembler_includes_the_data_where_they_cannot_be_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = module(COPIES, [ARRAYS[0], ARRAYS[1]])
    monkeypatch.setattr(export, "append", lambda *_: False)
    assert result(mod, tmp_path / "first.so").tobytes() == ARRAYS[0].tobytes()
    monkeypatch.setattr(export, "appends", lambda _: False)
    assert result(mod, tmp_path / "second.so").tobytes() == ARRAYS[0].tobytes()


@pytest.mark.skipif(not appends("g++"), reason="data are not appended on this machine")
def test_tools_understand_the_library(tmp_path: Path) -> None:
    big = RNG.standard_normal(1 << 16).astype("float32")
    library = tmp_path / "model.so"
    assert result(module(COPIES, [big]), library).tobytes() == big.tobytes()
    content = library.read_bytes()
    assert content.count(big.tobytes()) == 1 and len(content) < big.nbytes + (1 << 18)
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, library], check=True)
    assert stripped.stat().st_size < len(content)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(stripped)), tvm.cpu())
    assert machine["main"]().numpy().tobytes() == big.tobytes()


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"a script" * 40])
def test_other_files_are_refused_and_unchanged(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert not append(path, 1, lambda file: file.write(b"x"))
    assert path.read_bytes() == content


@pytest.mark.skipif(not appends("g++"), reason="data are not appended on this machine")
def test_a_library_without_the_mark_is_unchanged(tmp_path: Path) -> None:
    source, library = tmp_path / "a.cc", tmp_path / "a.so"
    source.write_text("int number = 3;")
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    before = library.read_bytes()
    assert not append(library, 1, lambda file: file.write(b"x"))
    assert library.read_bytes() == before
