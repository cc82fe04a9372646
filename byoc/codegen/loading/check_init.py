"""Check that generated code exports the function that loads its constants.

TVM passes them to ``__init_<symbol>`` of a code's first symbol, and ignores a missing function.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


class MissingInit(TypeError):
    """Code with constants that exports no function to load them."""


def check_init(library: Any, mod: Any, apart: Collection[str] = ()) -> None:
    """Raises `MissingInit` for code of a module, in its loaded library, that loads no constants.

    ``apart`` has the symbols of constants that are data of the library, see `embedded`.
    """
    for code in (mod.attrs or {}).get("external_mods", ()):
        names = constants(code)
        if not names:
            continue
        symbol = str(code["get_symbol"]())
        init = init_of(symbol, data_of(symbol) in apart)
        if not library.implements_function(init, query_imports=True):
            told = "1 constant" if len(names) == 1 else f"{len(names)} constants"
            raise MissingInit(
                f"no function {init_of(symbol, False)} loads {told}; export it for the first of "
                f"Code.symbols, as OPINFO_CONSTANTS({symbol}, ...) does"
            )


def constants(code: Any) -> list[str]:
    """Return the names of the constants of an external module."""
    try:
        return [str(name) for name in code.get_function("get_const_vars")()]
    except AttributeError:  # not generated code
        return []


def data_of(symbol: str) -> str:
    """Return the symbol of the constants of code whose first function is ``symbol``."""
    return f"opinfo_data_{symbol}"


def init_of(symbol: str, apart: bool) -> str:
    """Return the function that the code itself defines to get its constants.

    Args:
        symbol: Its first function.
        apart: Whether its constants are data of the library.
    """
    return f"opinfo_receive_{symbol}" if apart else f"__init_{symbol}"
