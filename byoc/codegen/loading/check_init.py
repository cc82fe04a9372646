"""Check that generated code exports the function that loads its constants.

TVM passes them to ``__init_<symbol>`` of a code's first symbol, and ignores a missing function.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..embedded import constants, data_of, init_of


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
