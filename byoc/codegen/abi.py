"""The head of a backend's generated C++: TVM's calling convention in a few functions."""

from importlib.resources import files

#: `OPINFO_FUNCTION(symbol)`, which needs no header of C++.
EXPORTED = (files(__package__) / "exported.hpp").read_text(encoding="utf-8")
#: `OPINFO_FUNCTION(symbol)` and what stands in the namespace ``opinfo``: see the files.
ABI = EXPORTED + (files(__package__) / "abi.hpp").read_text(encoding="utf-8")
