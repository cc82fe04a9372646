"""C++ for the call sites of a module, linked with the kernels.

What a site does is one file, `runtime`, the same for all models: its object is kept in the user's
cache (`kept_code`), as compiling it takes seconds. The sites of a model are a table and a function
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..runtime.library_table import SECTION

HERE = Path(__file__).parent
#: Compilers limit the length of a string literal; adjacent literals are concatenated.
PIECE = 12_000
#: The header that both files have, and the others of `runtime` in their order.
TABLE = "site_table.hpp"
RUNTIME = ("snapshot.hpp", "hazard.hpp", "shape_counts.hpp", "request_queue.hpp", "site.hpp",
           "straight.hpp", "control.hpp")  # fmt: skip
#: A symbol of each file, as TVM links no file without one.
NAMES = ("opinfo_jit_next", "opinfo_jit_about")


@dataclass(frozen=True)
class SiteCode:
    """A call site: its symbol, the generic kernel's symbol, and where to read the dimensions.

    A probe is an argument and its axis, or axis -1 for an argument that is the extent.
    """

    symbol: str
    generic: str
    probes: tuple[tuple[int, int], ...]


def runtime() -> str:
    """Return a translation unit with what all call sites do; it reads those of `table`."""
    return "\n".join(map(_header, (TABLE, *RUNTIME)))


def table(sites: Sequence[SiteCode], about: str) -> str:
    """Return a translation unit with all call sites; ``about`` is embedded verbatim."""
    return "\n".join([
        _header(TABLE),
        'extern "C" {',
        *(f"int __tvm_ffi_{g}({_PARAMETERS});" for g in sorted({s.generic for s in sites})),
        "}",
        "namespace opinfo_jit {",
        f"const int kSites = {len(sites)};",
        *(f"static const Probe kProbes{k}[] = {{{_probes(site)}}};"
          for k, site in enumerate(sites) if site.probes),
        "const SiteRow kRows[] = {",
        *(f"    {_row(k, site)}," for k, site in enumerate(sites)),
        "    {nullptr, 0, nullptr}};",
        "#ifdef __ELF__  // where `library_table.read` finds it without loading the library",
        f'__attribute__((section("{SECTION.decode()}"), used))',
        "#endif",
        f"const char kTable[] =\n{literal(about)};",
        "}  // namespace opinfo_jit",
        *(_function(k, site) for k, site in enumerate(sites)),
        "",
    ])  # fmt: skip


_PARAMETERS = "void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result"


def _header(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _row(place: int, site: SiteCode) -> str:
    probes = f"kProbes{place}" if site.probes else "nullptr"
    return f"{{__tvm_ffi_{site.generic}, {len(site.probes)}, {probes}}}"


def _function(place: int, site: SiteCode) -> str:
    return (f'extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_{site.symbol}({_PARAMETERS}) {{\n'
            f"  return opinfo_jit::call({place}, self, args, n, result);\n}}")  # fmt: skip


def _probes(site: SiteCode) -> str:
    return ", ".join(f"{{{arg}, {axis}}}" for arg, axis in site.probes)


def literal(text: str) -> str:
    """Return C string literals for a text."""
    pieces = [text[k : k + PIECE] for k in range(0, len(text), PIECE)] or [""]
    return "\n".join(f'"{_escaped(p)}"' for p in pieces)


def _escaped(text: str) -> str:
    out = []
    for byte in text.encode():
        char = chr(byte)
        plain = 32 <= byte < 127 and char not in '"\\?'
        out.append(char if plain else f"\\{byte:03o}")
    return "".join(out)
