"""A shared library of a compiled program.

TVM's own packing copies the constants through LLVM several times, which takes seconds for each
100 MB. Here the assembler includes them from a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from .toolchain import OPTIONS, shared

#: The symbol from which TVM's runtime reads imported modules and constants.
_SYMBOL = "__tvm_ffi__library_bin"
#: On x86-64 a section behind all others: 32-bit offsets of the code do not span it.
_SOURCE = """
#if defined(__APPLE__)
#define SECTION ".section __DATA,__const"
#define SYMBOL "_{symbol}"
#elif defined(__x86_64__)
#define SECTION ".section .lrodata,\\"al\\",%progbits"
#define SYMBOL "{symbol}"
#else
#define SECTION ".section .rodata,\\"a\\",%progbits"
#define SYMBOL "{symbol}"
#endif
asm(SECTION "\\n"
    ".globl " SYMBOL "\\n"
    ".balign 64\\n"
    SYMBOL ":\\n"
    ".incbin " {file} "\\n"
    ".text\\n");
"""


def export_library(program: Any, library: Path | str, options: Sequence[str] = ()) -> None:
    """Write a program of TVM as a shared library.

    Args:
        program: What ``tvm.compile`` returns.
        library: The path of the library.
        options: Further options of the C++ compiler.

    Raises:
        CompilerError: The compiler or the linker fails.
    """
    program.export_library(
        str(library), fcompile=shared, fpack_imports=_packed, options=[*OPTIONS, *options]
    )


def _packed(program: Any, is_system_lib: bool, prefix: str, folder: str) -> str:
    """Write a source file that defines all that a program imports, constants included."""
    if is_system_lib or prefix:
        raise ValueError("export_library: expected a shared library, got a system library")
    data, source = Path(folder, "imports.bin"), Path(folder, "imports.cc")
    pack = tvm.get_global_func("runtime.ModulePackImportsToTensor")
    np.from_dlpack(pack(program)).tofile(data)
    file = json.dumps(json.dumps(str(data), ensure_ascii=False), ensure_ascii=False)
    source.write_text(_SOURCE.format(symbol=_SYMBOL, file=file), "utf-8", "surrogateescape")
    return str(source)
