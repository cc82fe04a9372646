"""Whether what loads the constants of generated code is there: without it none are loaded.

TVM hands them to ``__init_<symbol>`` of a code's first symbol, and says nothing if there is none.
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
                f"there is no {init} to load {constants}; expected it to be exported, for the "
                f"first of Code.symbols, as OPINFO_CONSTANTS({symbol}, ...) does"
            )
