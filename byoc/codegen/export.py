"""A shared library of a compiled program.

TVM's own packing copies the constants through LLVM several times, which takes seconds for each
100 MB. Here the assembler includes them from a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from .embedded import write
from .toolchain import OPTIONS, shared

#: The symbol from which TVM's runtime reads imported modules and constants.
_SYMBOL = "__tvm_ffi__library_bin"
#: On x86-64 a section behind all others: 32-bit offsets of the code do not span it. It is writable,
#: as constants of generated code are: a page of the file is copied when it is written to.
_START = """
#if defined(__APPLE__)
#define SECTION ".section __DATA,__data"
#define NAME(symbol) "_" symbol
#elif defined(__x86_64__) && !defined(__clang__)  // clang knows the flag "l" since 17
#define SECTION ".section .ldata,\\"awl\\",%progbits"
#define NAME(symbol) symbol
#else
#define SECTION ".section .data,\\"aw\\",%progbits"
#define NAME(symbol) symbol
#endif
"""
_DATA = """
asm(SECTION "\\n"
    ".globl " NAME("{symbol}") "\\n"
    ".balign 64\\n"
    NAME("{symbol}") ":\\n"
    ".incbin " {file} "\\n"
    ".text\\n");
"""


def export_library(
    program: Any, library: Path | str, options: Sequence[str] = (),
    data: Mapping[str, Sequence[Any]] | None = None,
) -> None:  # fmt: skip
    """Write a program of TVM as a shared library.

    Args:
        program: What ``tvm.compile`` returns.
        library: The path of the library.
        options: Further options of the C++ compiler.
        data: Tensors by the symbol through which the program's code reads them, see `embedded`.

    Raises:
        CompilerError: The compiler or the linker fails.
    """
    program.export_library(
        str(library), fcompile=shared, fpack_imports=partial(_packed, data or {}),
        options=[*OPTIONS, *options],
    )  # fmt: skip


def _packed(
    data: Mapping[str, Sequence[Any]], program: Any, is_system_lib: bool, prefix: str, folder: str
) -> str:
    """Write a source file that defines the data, and all that a program imports."""
    if is_system_lib or prefix:
        raise ValueError("export_library: expected a shared library, got a system library")
    pack = tvm.get_global_func("runtime.ModulePackImportsToTensor")
    texts = [_START]
    for k, (symbol, tensors) in enumerate({_SYMBOL: [pack(program)], **data}.items()):
        file = Path(folder, f"data{k}.bin")
        write(tensors, file)
        name = json.dumps(json.dumps(str(file), ensure_ascii=False), ensure_ascii=False)
        texts.append(_DATA.format(symbol=symbol, file=name))
    source = Path(folder, "data.cc")
    source.write_text("".join(texts), "utf-8", "surrogateescape")
    return str(source)
