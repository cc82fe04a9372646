"""Constants of generated code as data of the library, where code reads them in place.

TVM writes constants to a stream in the library. Whoever loads it gets a second copy of them, and
writing them takes several. Here ``__init_<symbol>``, which TVM calls with the constants, is
renamed; a new function of that name calls it with tensors over the library's data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, BinaryIO

import tvm
import tvm_ffi

from ...backend.region import as_array
from ..loading.check_init import constants, data_of, init_of

#: Bytes at whose multiples a constant begins, as in TVM's own tensors.
ALIGNED = 64
_FUNCTION = """
#undef {own}
{header}
extern "C" __attribute__((weak)) int {renamed}(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
extern "C" __attribute__((visibility("hidden"))) char {data}[];
extern "C" __attribute__((visibility("default"))) int {own}(
    void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {{
  static const opinfo_embedded::Constant constants[] = {{{constants}}};
  static const int64_t extents[] = {{{extents}0}};
  static char* const volatile data = {data};  // at any distance from the code
  return opinfo_embedded::pass(constants, extents, data, self, result, {renamed});
}}
"""


@dataclass(frozen=True)
class Embedded:
    """A module whose code reads constants from ``data``: tensors by the name of their symbol."""

    module: Any
    data: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def embedded(mod: Any) -> Embedded:
    """Return a dispatched module with its constants apart; it is not changed."""
    attrs = mod.attrs or {}
    known = dict(attrs.get("const_name_to_constant", {}))
    codes, data = [], {}
    for code in attrs.get("external_mods", ()):
        names = constants(code)
        if not names:
            codes.append(code)
            continue
        symbol = str(code["get_symbol"]())
        tensors = [known.pop(name) for name in names]
        data[data_of(symbol)] = tensors
        known[names[0]] = tvm.runtime.empty((0,), "uint8")  # TVM calls the function for a constant
        codes.append(_code(code, symbol, names[0], tensors))
    if not data:
        return Embedded(mod)
    changed = mod.with_attr("external_mods", codes).with_attr("const_name_to_constant", known)
    return Embedded(changed, data)


def size(tensors: Sequence[Any]) -> int:
    """Return the bytes that `write` takes, with what aligns the tensor behind the last one."""
    return sum(map(_padded, tensors))


def write(tensors: Sequence[Any], file: BinaryIO) -> None:
    """Write tensors to a file from its place on, each at its offset."""
    begin = file.tell()
    for offset, tensor in zip(_offsets(tensors), tensors, strict=True):
        file.seek(begin + offset)
        as_array(tensor).tofile(file)


def _code(code: Any, symbol: str, constant: str, tensors: Sequence[Any]) -> Any:
    """The code with a new function that takes one constant, and passes on all others."""
    own, renamed = (f"__tvm_ffi_{init_of(symbol, apart)}" for apart in (False, True))
    text = _FUNCTION.format(
        own=own, renamed=renamed, data=data_of(symbol),
        header=(files(__package__) / "embedded.hpp").read_text(encoding="utf-8"),
        constants=", ".join(map(_entry, _offsets(tensors), tensors)),
        extents="".join(f"{int(extent)}, " for tensor in tensors for extent in tensor.shape),
    )  # fmt: skip
    make = tvm_ffi.get_global_func("runtime.CSourceModuleCreate")
    names = list(code.get_function("get_func_names")())
    text = f"#define {own} {renamed}\n{code.inspect_source()}{text}"
    return make(text, "cc", names, [constant])


def _entry(offset: int, tensor: Any) -> str:
    kind = tvm_ffi.dtype(tensor.dtype)
    words = f"{int(kind.type_code)}, {kind.bits}, {kind.lanes}"
    return f"{{{offset}, {{{words}}}, {len(tensor.shape)}}}"


def _offsets(tensors: Sequence[Any]) -> Iterator[int]:
    place = 0
    for tensor in tensors:
        yield place
        place += _padded(tensor)


def _padded(tensor: Any) -> int:
    return -(-as_array(tensor).nbytes // ALIGNED) * ALIGNED
