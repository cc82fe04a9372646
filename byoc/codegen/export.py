"""A shared library of a compiled program.

TVM's own packing copies the constants through LLVM several times, which takes seconds for each
100 MB. Here they are appended to the library that the linker has written (`elf_data`). Where that
is not possible, the assembler includes them from a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import tvm
from tvm.support import cc

from .compilers.toolchain import OPTIONS, shared
from .embedding.elf_data import MARK, append, appends
from .embedding.embedded import size, write

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
_INCLUDED = """
asm(SECTION "\\n"
    ".globl " NAME("{symbol}") "\\n"
    ".balign 64\\n"
    NAME("{symbol}") ":\\n"
    ".incbin " {file} "\\n"
    ".text\\n");
"""
#: What the last segment ends in; the symbols refer to what is behind it.
_MARK = """
asm(SECTION "\\n"
    ".balign 64\\n"
    "opinfo_mark:\\n"
    ".ascii \\"{mark}\\"\\n"
    ".text\\n");
"""
_BEHIND = """
asm(".globl {symbol}\\n.set {symbol}, opinfo_mark + {offset}\\n");
"""


def export_library(
    program: Any, library: Path | str, options: Sequence[str] = (),
    data: Mapping[str, Sequence[Any]] | None = None,
    alone: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Write a program of TVM as a shared library.

    Args:
        program: What ``tvm.compile`` returns.
        library: The path of the library.
        options: Further options of the C++ compiler.
        data: Tensors by the symbol through which the program's code reads them, see `embedded`.
        alone: C++ by its text that is compiled with these options instead of ``options``, so its
            object is kept for all libraries, whatever options other code has.

    Raises:
        CompilerError: The compiler or the linker fails.
    """
    parts = data or {}
    if appends(str(cc.get_cc())):
        behind: list[_Placed] = []
        _export(program, library, options, partial(_behind, parts, behind), alone)
        if not behind or append(Path(library), behind[-1].end, partial(_write, behind)):
            return
    _export(program, library, options, partial(_included, parts), alone)


@dataclass(frozen=True)
class _Placed:
    """Tensors that a symbol stands for, from an offset on."""

    symbol: str
    tensors: Sequence[Any]
    offset: int

    @property
    def end(self) -> int:
        """Where the next ones begin."""
        return self.offset + size(self.tensors)


def _export(
    program: Any, library: Path | str, options: Sequence[str], pack: Any,
    alone: Mapping[str, Sequence[str]],
) -> None:  # fmt: skip
    program.export_library(str(library), fcompile=partial(shared, alone=alone),
                           fpack_imports=pack, options=[*OPTIONS, *options])  # fmt: skip


def _behind(
    data: Mapping[str, Sequence[Any]], behind: list[_Placed], program: Any, is_system_lib: bool,
    prefix: str, folder: str,
) -> str:  # fmt: skip
    """Write a source file of symbols behind the last segment; ``behind`` gets what they mean."""
    for symbol, tensors in _by_symbol(data, program, is_system_lib, prefix).items():
        behind.append(_Placed(symbol, tensors, behind[-1].end if behind else 0))
    texts = [_START, _MARK.format(mark=MARK.decode())]
    texts += [_BEHIND.format(symbol=p.symbol, offset=len(MARK) + p.offset) for p in behind]
    return _source(texts, folder)


def _write(placed: Sequence[_Placed], file: BinaryIO) -> None:
    begin = file.tell()
    for part in placed:
        file.seek(begin + part.offset)
        write(part.tensors, file)


def _included(
    data: Mapping[str, Sequence[Any]], program: Any, is_system_lib: bool, prefix: str, folder: str
) -> str:
    """Write a source file that includes the data, and all that a program imports."""
    texts = [_START]
    for k, (symbol, tensors) in enumerate(_by_symbol(data, program, is_system_lib, prefix).items()):
        path = Path(folder, f"data{k}.bin")
        with path.open("wb") as file:
            write(tensors, file)
        name = json.dumps(json.dumps(str(path), ensure_ascii=False), ensure_ascii=False)
        texts.append(_INCLUDED.format(symbol=symbol, file=name))
    return _source(texts, folder)


def _by_symbol(
    data: Mapping[str, Sequence[Any]], program: Any, is_system_lib: bool, prefix: str
) -> dict[str, Sequence[Any]]:
    """Return the data by symbol, those first that a program imports."""
    if is_system_lib or prefix:
        raise ValueError("export_library: expected a shared library, got a system library")
    pack = tvm.get_global_func("runtime.ModulePackImportsToTensor")
    return {_SYMBOL: [pack(program)], **data}


def _source(texts: Sequence[str], folder: str) -> str:
    source = Path(folder, "data.cc")
    source.write_text("".join(texts), "utf-8", "surrogateescape")
    return str(source)
