"""Check that generated code exports the function that loads its constants.

TVM passes them to ``__init_<symbol>`` of a code's first symbol, and ignores a missing function.
"""

from __future__ import annotations

from typing import Any


class MissingInit(TypeError):
    """Code with constants that exports no function to load them."""


def check_init(library: Any, mod: Any) -> None:
    """Raises `MissingInit` for code of a module, in its loaded library, that loads no constants."""
    for code in (mod.attrs or {}).get("external_mods", ()):
        try:
            count, symbol = len(code.get_function("get_const_vars")()), code["get_symbol"]()
        except AttributeError:  # not generated code
            continue
        init = f"__init_{symbol}"
        if count and not library.implements_function(init, query_imports=True):
            constants = "1 constant" if count == 1 else f"{count} constants"
            raise MissingInit(
                f"no function {init} loads {constants}; export it for the first of Code.symbols, "
                f"as OPINFO_CONSTANTS({symbol}, ...) does"
            )
