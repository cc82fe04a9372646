"""C++ for the call sites of a module, linked with the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..runtime.library_table import SECTION

HERE = Path(__file__).parent
#: Compilers limit the length of a string literal; adjacent literals are concatenated.
PIECE = 12_000


@dataclass(frozen=True)
class SiteCode:
    """A call site: its symbol, the generic kernel's symbol, and where to read the dimensions.

    A probe is an argument and its axis, or axis -1 for an argument that is the extent.
    """

    symbol: str
    generic: str
    probes: tuple[tuple[int, int], ...]


def source(sites: Sequence[SiteCode], about: str) -> str:
    """Return a translation unit with all call sites; ``about`` is embedded verbatim."""
    generics = sorted({s.generic for s in sites})
    declared = [f"int __tvm_ffi_{g}(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);"
                for g in generics]  # fmt: skip
    site_rows = ",\n".join(
        f"    {{{k}, __tvm_ffi_{site.generic}, {{{_probes(site)}}}}}"
        for k, site in enumerate(sites)
    )
    return "\n".join([
        (HERE / "site.hpp").read_text(encoding="utf-8"),
        'extern "C" {', *declared, "}",
        "namespace opinfo_jit {", "namespace {",
        f"constexpr int kSites = {len(sites)};",
        "#ifdef __ELF__  // where `library_table.read` finds it without loading the library",
        f'__attribute__((section("{SECTION.decode()}"), used))',
        "#endif",
        f"const char kTable[] =\n{literal(about)};",
        "// Never freed: a thread may be in a call when the process ends.",
        f"Site* const sites = new Site[kSites]{{\n{site_rows}}};" if sites else
        "Site* const sites = nullptr;",
        "}  // namespace", "}  // namespace opinfo_jit",
        "using opinfo_jit::sites;",
        *(f"OPINFO_SITE({s.symbol}, {k})" for k, s in enumerate(sites)),
        (HERE / "straight.hpp").read_text(encoding="utf-8"),
        (HERE / "control.hpp").read_text(encoding="utf-8"),
    ])  # fmt: skip


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
